"""The power manager `predictive` with the true future instead of samples of forecasts.

`python -m benchmarks.known_future [PRICE_W...]` prints wasted energy and mean wait on the test
workload of the power study. It needs the log NASA-iPSC, see `hpcosim traces get nasa-ipsc`. The
difference to `predictive` itself is what better forecasts could gain.
"""

from __future__ import annotations

import sys

import numpy as np

from hpcosim_client import make_policy, managed
from hpcosim_client.power.settings import Predictive
from hpcosim_client.predictive.futures import Futures
from hpcosim_client.predictive.manager import predictive
from hpcosim_client.view import View
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.shipped import shipped_folder
from hpcosim_workloads.table import JobTable

PRICES_W = (150.0, 500.0, 1500.0)


class KnownFuture:
    """The only future that comes, of jobs that run for their requested times.

    Args:
        jobs: all jobs, in order of submission, each on nodes of one core.
    """

    def __init__(self, jobs: JobTable) -> None:
        self._submit_s = jobs.submit_s
        self._nodes = jobs.cores.astype(np.float64)
        self._run_s = jobs.run_s
        self._ends: list[tuple[float, float]] = []

    def update(self, view: View) -> None:
        """Note the ends of the running jobs."""
        running = view.running.values()
        self._ends = [(job.expected_end_s(view.now_s), float(job.cores)) for job in running]

    def drawn(self, now_s: float, horizon_s: float) -> Futures:
        """Return the future as a single sample."""
        low, high = self._submit_s.searchsorted((now_s, now_s + horizon_s), side="right")
        part = slice(int(low), int(high))
        ends = np.array(self._ends).reshape(-1, 2)
        return Futures(
            1,
            np.zeros(part.stop - part.start, dtype=np.int64),
            self._submit_s[part] - now_s,
            self._nodes[part],
            self._run_s[part],
            np.maximum(ends[:, 0] - now_s, 0.0).reshape(1, -1),
            ends[:, 1],
        )


def main() -> None:
    """Print a line for each price."""
    prices_w = [float(text) for text in sys.argv[1:]] or PRICES_W
    library = Library([shipped_folder() / "papers" / "power" / "test.yaml"])
    for price_w in prices_w:
        manager = predictive(Predictive(price_w), KnownFuture(library.first_jobs))
        opened = open_scenario(library.first, library.first_jobs, "known future")
        found = run_in_process(opened, managed(make_policy("easy", "planned"), manager))
        print(
            f"{price_w:6.0f} W: {found['wasted_energy_kwh']:,.0f} kWh, mean wait "
            f"{found['mean_wait_s'] / 60:.1f} min"
        )


if __name__ == "__main__":
    main()
