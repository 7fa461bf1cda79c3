"""How far the power manager `predictive` gets with the true law of submissions.

`python -m papers.power.predictive.known_law [seasonal|sessions]` runs on 10 days of generated jobs,
on the nodes of `nasa.yaml` beside it, but twice as many:

* timeouts;
* `predictive` with the forecasts that it learns;
* its plan with samples of the true law, given all submissions so far: the best causal forecast;
* its plan with the true future, see `known_future`.

The laws are those of `workload_laws`, drawn from the jobs of that experiment. The log
states no requested times, so that its jobs request their run times. Therefore the ends of running
jobs are known to all of them.

It prints wasted energy and added wait (mean wait less that with all nodes on) of each run, and by
how much each wait is shorter than that of timeouts at the same waste, by linear interpolation. It
needs the log, see `hpcosim traces get`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.random import Generator

from hpcosim_client import Policy
from hpcosim_client.arrays import Floats
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_schedulers import make_policy, managed
from hpcosim_schedulers.power.manager import Manager
from hpcosim_schedulers.power.settings import Predictive
from hpcosim_schedulers.power.timeout import timeout
from hpcosim_schedulers.predictive.futures import Futures, FutureSource
from hpcosim_schedulers.predictive.manager import predictive
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.log_file import log_start_s
from hpcosim_workloads.table import JobTable
from papers.power.predictive.equal_waste import Points, wait_at
from papers.power.predictive.known_future import (
    PRICES_W,
    SAMPLES,
    KnownFuture,
    opened,
    outcome,
    samples_beside,
)
from papers.power.predictive.workload_laws import Law, SeasonalLaw, SessionLaw

LAWS: Mapping[str, Callable[[JobTable, float], Law]] = {
    "seasonal": SeasonalLaw,
    "sessions": SessionLaw,
}
TIMEOUTS_MIN = (0.0, 7.5, 15.0, 30.0, 60.0, 120.0, 240.0)
SEEDS = (1, 2, 3)
DAYS = 10
NODES = 256
"""Twice as many as the largest job needs, so that hardly a job waits with all nodes on."""
LEARNED, LAW, FUTURE = "predictive", "true law", "true future"


class KnownLaw(KnownFuture):
    """Samples of the law of submissions, given those so far."""

    def __init__(self, jobs: JobTable, node_cores: int, law: Law, generator: Generator) -> None:
        super().__init__(jobs, node_cores)
        self._law, self._generator = law, generator

    def drawn(self, now_s: float, horizon_s: float) -> Futures:
        """Return samples of the law; running jobs end when they do."""
        now = int(self._jobs.submit_s.searchsorted(now_s, side="right"))
        past = self._jobs.take(slice(0, now))
        came = self._law.continued(past, now_s, horizon_s, SAMPLES, self._generator)
        log, row = self._law.log, came.row
        nodes = np.ceil(log.cores[row] / self._node_cores)
        true = super().drawn(now_s, horizon_s)
        return samples_beside(true, came.sample, came.at_s - now_s, nodes, log.run_s[row])


def known_law(name: str) -> tuple[Scenario, Law]:
    """Return the scenario of the experiment `nasa`, with more nodes, and a law of its jobs."""
    library = opened("nasa", {"platform.nodes.0.count": NODES})
    start_s = log_start_s(find_trace("nasa-ipsc")) or 0.0
    return library.first, LAWS[name](library.first_jobs, start_s + library.default.moved_s)


def policies(jobs: JobTable, node_cores: int, law: Law) -> Iterator[tuple[str, str, Policy]]:
    """Yield the name of the line, the setting and the policy of each run."""
    for minutes in TIMEOUTS_MIN:
        yield "timeout", f"{minutes:g} min", _managed(timeout(60.0 * minutes))
    for price_w in PRICES_W:
        sources: dict[str, FutureSource | None] = {
            LEARNED: None,
            LAW: KnownLaw(jobs, node_cores, law, np.random.default_rng(1)),
            FUTURE: KnownFuture(jobs, node_cores),
        }
        for line, source in sources.items():
            yield line, f"{price_w:g} W", _managed(predictive(Predictive(price_w), source))


def lines_of(scenario: Scenario, law: Law, seed: int) -> dict[str, Points]:
    """Print and return wasted energy and added wait of all runs on jobs of a seed."""
    jobs = law.generated(DAYS, np.random.default_rng(seed))
    node_cores = scenario.platform.nodes[0].processors[0].cores
    _, on_min = outcome(scenario, jobs, make_policy("easy"))
    print(f"seed {seed}: {len(jobs):,} jobs, {on_min:.2f} min with all nodes on", flush=True)
    lines: dict[str, Points] = {}
    for line, setting, policy in policies(jobs, node_cores, law):
        wasted_kwh, wait_min = outcome(scenario, jobs, policy)
        lines.setdefault(line, []).append((wasted_kwh, wait_min - on_min))
        print(f"  {line} {setting}: {wasted_kwh:,.0f} kWh, {wait_min - on_min:.2f} min", flush=True)
    return lines


def summary(runs: Sequence[Mapping[str, Points]]) -> Iterator[str]:
    """Yield a line of text for each line and price: means over runs, and standard deviations."""
    for number, price_w in enumerate(PRICES_W):
        for line in (LEARNED, LAW, FUTURE):
            found = [compared(run, *run[line][number]) for run in runs]
            yield f"{line}, {price_w:g} W: {_spread(found)}"
        wasted_kwh = [run[LEARNED][number][0] for run in runs]
        found = [
            compared(run, waste, wait_at(run[LAW], waste))
            for run, waste in zip(runs, wasted_kwh, strict=True)
        ]
        yield f"{LAW} at the waste of {LEARNED} with {price_w:g} W: {_spread(found)}"


def compared(run: Mapping[str, Points], wasted_kwh: float, added_min: float) -> Floats:
    """Return wasted energy, wait, how much shorter it is, and its share of the way, in %.

    Shorter than with timeouts of the same waste, as a share of their wait; and as a share of what
    the true future gains at this waste. NaN: no timeout wastes as little, or as much.
    """
    than_min = wait_at(run["timeout"], wasted_kwh)
    gain_min = than_min - added_min
    way = gain_min / (than_min - _nearest(wasted_kwh, run[FUTURE]))
    return np.array([wasted_kwh, added_min, 100.0 * gain_min / than_min, 100.0 * way])


def _nearest(wasted_kwh: float, line: Points) -> float:
    """Return the wait of a line at a waste; outside of it that of its nearest end."""
    return float(np.interp(wasted_kwh, *np.array(sorted(line)).T))


def _spread(found: Sequence[Floats]) -> str:
    """Return means and standard deviations over runs; NaN: a run has no such value."""
    mean, sd = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    return ", ".join(f"{a:,.1f} +- {b:.1f}" for a, b in zip(mean, sd, strict=True))


def _managed(manager: Manager) -> Policy:
    return managed(make_policy("easy", "planned"), manager)


def main(names: Sequence[str]) -> None:
    """Print the runs and a summary for each law."""
    for name in names or LAWS:
        scenario, law = known_law(name)
        print(name)
        runs = [lines_of(scenario, law, seed) for seed in SEEDS]
        print("mean and standard deviation: kWh, min, % shorter, % of the way")
        for text in summary(runs):
            print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
