"""How often the demand of job logs rises above its record, beside what `Records` expects.

`python -m papers.power.predictive.demand_records` prints, for several times of observation, how
often the demand rose within 45 min above 1, 1.5, 2, 4 and 8 times all that was seen, from random
submissions on. The demand is that of the jobs submitted since, each started at its submission. The
logs are those of `hpcosim traces`; one that is not on this machine is left out.
"""

from __future__ import annotations

import numpy as np
from benchmarks.cases import trace

from hpcosim_client.arrays import Floats
from hpcosim_schedulers.predictive.futures import Records
from hpcosim_workloads.table import JobTable

LOGS = {"nasa-ipsc": 1, "ctc-sp2": 1, "sdsc-sp2": 1, "llnl-thunder": 4, "ricc": 8}
"""Cores of a node of each log."""
SEEN_S = (600.0, 2700.0, 10_800.0, 43_200.0)
AHEAD_S = 2700.0
RATIOS = np.array((1.0, 1.5, 2.0, 4.0, 8.0))
INSTANTS = 400
DRAWS = 100_000


def of_log(
    jobs: JobTable, node_cores: int, seen_s: float, generator: np.random.Generator
) -> Floats:
    """Return how often the demand of a log exceeds its record, by ratio, float64[ratios]."""
    first = generator.integers(len(jobs) // 10, 9 * len(jobs) // 10, INSTANTS)
    rises = np.array([_rise(jobs, node_cores, int(at), seen_s) for at in first])
    return _exceeded(rises)


def _rise(jobs: JobTable, node_cores: int, first: int, seen_s: float) -> float:
    """Return the highest demand after the observation / the highest within it."""
    until_s = jobs.submit_s[first] + seen_s
    part = slice(first, int(jobs.submit_s.searchsorted(until_s + AHEAD_S)))
    nodes, submit_s = np.ceil(jobs.cores[part] / node_cores), jobs.submit_s[part]
    at_s = np.concatenate([submit_s, submit_s + jobs.run_s[part]])
    change = np.concatenate([nodes, -nodes])
    order = np.lexsort((-change, at_s))
    demand, at_s = change[order].cumsum(), at_s[order]
    seen = demand[at_s <= until_s].max()
    return float(demand[at_s <= until_s + AHEAD_S].max() / seen)


def of_samples(seen_s: float, generator: np.random.Generator) -> Floats:
    """Return how often samples of `Records` exceed the record, by ratio, float64[ratios]."""
    records = Records(10**6)
    records.update(0.0, 100.0, 1)
    surges = records.surges(seen_s, AHEAD_S, 100.0, DRAWS, generator)
    rise = 1.0 + np.bincount(surges.sample, weights=surges.nodes, minlength=DRAWS) / 100.0
    return _exceeded(rise)


def _exceeded(rises: Floats) -> Floats:
    found: Floats = (rises[:, None] > RATIOS).mean(axis=0)
    return found


def main() -> None:
    """Print a line for each log and time, and one for the samples."""
    read = {name: trace(name) for name in LOGS}
    logs = {name: jobs for name, jobs in read.items() if jobs is not None}
    for seen_s in SEEN_S:
        print(f"{seen_s / 60:g} min seen; ratios above {', '.join(f'{x:g}' for x in RATIOS)}")
        rows = {}
        for name, jobs in logs.items():
            rows[name] = of_log(jobs, LOGS[name], seen_s, np.random.default_rng(1))
        if rows:
            rows["mean"] = np.mean(list(rows.values()), axis=0)
        rows["samples"] = of_samples(seen_s, np.random.default_rng(1))
        for name, shares in rows.items():
            print(f"  {name:14}" + "".join(f"{share:8.3f}" for share in shares))


if __name__ == "__main__":
    main()
