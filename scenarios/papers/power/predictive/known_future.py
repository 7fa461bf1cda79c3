"""The power manager `predictive` with the true future instead of samples of forecasts.

`python -m papers.power.predictive.known_future [NAME...]` prints wasted energy and mean wait of the
experiments of that name beside this file, default: nasa. It needs their logs, see
`hpcosim traces get`. The difference to `predictive` itself is what better forecasts could gain.

A further line for each window says what a forecast could gain that knows every future job, with its
run time, but not when it comes: in the samples each session is at a random time of its true window
of 1, 3 or 12 h. A session is the jobs that one user submits less than 10 min after one another; one
that has begun is known.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from hpcosim_client import Policy
from hpcosim_client.arrays import Floats, Ints
from hpcosim_client.view import View
from hpcosim_experiments.definition import load_experiment
from hpcosim_gym.learners.power_forecasts import true_future
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.shipped import shipped_folder
from hpcosim_schedulers import make_policy, managed
from hpcosim_schedulers.power.settings import Predictive
from hpcosim_schedulers.predictive.futures import Futures
from hpcosim_schedulers.predictive.manager import predictive
from hpcosim_workloads.table import JobTable

EXPERIMENTS = shipped_folder() / "papers" / "power" / "predictive"
PRICES_W = (150.0, 500.0, 1500.0)
WINDOWS_S = (3600.0, 10_800.0, 43_200.0)
SESSION_S = 600.0
SAMPLES = 48


class KnownFuture:
    """The only future that comes.

    Args:
        jobs: all jobs, in order of submission, on whole nodes.
    """

    def __init__(self, jobs: JobTable, node_cores: int) -> None:
        self._jobs, self._node_cores = jobs, node_cores

    def update(self, view: View) -> None:
        """Note the present."""
        self._view = view

    def drawn(self, _: float, horizon_s: float) -> Futures:
        """Return the future as a single sample."""
        return true_future(self._view, self._jobs, horizon_s, self._node_cores)


class KnownSessions(KnownFuture):
    """The future in which the times of sessions are known up to a window.

    Args:
        jobs: all jobs, in order of submission, on whole nodes.
        window_s: length of the windows, s.
    """

    def __init__(
        self, jobs: JobTable, node_cores: int, window_s: float, generator: Generator
    ) -> None:
        super().__init__(jobs, node_cores)
        self._window_s, self._generator = window_s, generator
        self._session = sessions_of(jobs)
        begins = np.full(self._session.max() + 1, np.inf)
        np.minimum.at(begins, self._session, jobs.submit_s)
        self._begins_s = begins
        self._first_s = np.floor(begins / window_s) * window_s

    def drawn(self, now_s: float, horizon_s: float) -> Futures:
        """Return samples with other times of the sessions that have not begun."""
        jobs, begins_s = self._jobs, self._begins_s
        low = int(jobs.submit_s.searchsorted(now_s, side="right"))
        high = int(jobs.submit_s.searchsorted(now_s + horizon_s + self._window_s, side="right"))
        least_s = np.maximum(self._first_s, now_s)
        left_s = self._first_s + self._window_s - least_s
        drawn_s = least_s + left_s * self._generator.random((SAMPLES, len(begins_s)))
        shift_s = np.where(begins_s > now_s, drawn_s - begins_s, 0.0)[:, self._session[low:high]]
        after_s = jobs.submit_s[low:high] + shift_s - now_s
        sample, row = np.nonzero(after_s <= horizon_s)
        nodes = np.ceil(jobs.cores[low:high] / self._node_cores)
        run_s = jobs.run_s[low:high]
        true = super().drawn(now_s, horizon_s)
        return samples_beside(true, sample, after_s[sample, row], nodes[row], run_s[row])


def samples_beside(
    true: Futures, sample: Ints, after_s: Floats, nodes: Floats, run_s: Floats
) -> Futures:
    """Return `SAMPLES` samples of submissions; running jobs end as in the true future.

    Args:
        sample: the sample of each submission, int64[n], in any order.
        after_s: time from now to each submission, s, float64[n].
        nodes: nodes that each needs, float64[n].
        run_s: run time of each, s, float64[n].
    """
    order = np.lexsort((after_s, sample))
    ends_s = np.repeat(true.ends_s, SAMPLES, axis=0)
    return Futures(
        SAMPLES,
        sample[order],
        after_s[order],
        nodes[order],
        run_s[order],
        ends_s,
        true.held,
    )


def sessions_of(jobs: JobTable) -> Ints:
    """Return the number of the session of each job, int64[jobs]."""
    order = np.lexsort((jobs.submit_s, jobs.user))
    user, submit_s = jobs.user[order], jobs.submit_s[order]
    new = (user[1:] != user[:-1]) | (np.diff(submit_s) >= SESSION_S)
    found: Ints = np.empty(len(jobs), dtype=np.int64)
    found[order] = np.append(0, new.cumsum())
    return found


def opened(name: str, changes: Overrides | None = None) -> Library:
    """Return the scenario of an experiment of `predictive`, with changes."""
    path = EXPERIMENTS / f"{name}.yaml"
    experiment = load_experiment(path)
    return Library([path.parent / str(experiment.scenario)], {**experiment.set, **(changes or {})})


def known_future(library: Library, window_s: float, price_w: float) -> tuple[float, float]:
    """Return wasted energy, kWh, and mean wait, min, on the jobs of a scenario.

    Args:
        library: the scenario, with one group of nodes; jobs need whole nodes.
        window_s: the window in which times are unknown, s; 0: they are known.
        price_w: price of waiting, W.
    """
    jobs = library.first_jobs
    node_cores = library.first.platform.nodes[0].processors[0].cores
    source = (
        KnownSessions(jobs, node_cores, window_s, np.random.default_rng(1))
        if window_s
        else KnownFuture(jobs, node_cores)
    )
    manager = predictive(Predictive(price_w), source)
    return outcome(library.first, jobs, managed(make_policy("easy", "planned"), manager))


def outcome(scenario: Scenario, jobs: JobTable, policy: Policy) -> tuple[float, float]:
    """Return wasted energy, kWh, and mean wait, min, of a policy on jobs."""
    found = run_in_process(open_scenario(scenario, jobs, "known future"), policy)
    return found["wasted_energy_kwh"], found["mean_wait_s"] / 60.0


def main(names: Sequence[str]) -> None:
    """Print a line for each experiment, window and price."""
    for name in names or ("nasa",):
        library = opened(name)
        for window_s in (0.0, *WINDOWS_S):
            for price_w in PRICES_W:
                wasted_kwh, wait_min = known_future(library, window_s, price_w)
                known = f"times within {window_s / 3600:g} h" if window_s else "all"
                print(
                    f"{name}, {known}, {price_w:.0f} W: {wasted_kwh:,.0f} kWh, mean wait "
                    f"{wait_min:.1f} min",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
