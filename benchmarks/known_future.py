"""The power manager `predictive` with the true future instead of samples of forecasts.

`python -m benchmarks.known_future [PRICE_W...]` prints wasted energy and mean wait on the test
workload of the power study. It needs the log NASA-iPSC, see `hpcosim traces get nasa-ipsc`. The
difference to `predictive` itself is what better forecasts could gain.
"""

from __future__ import annotations

import sys

from hpcosim_client import make_policy, managed
from hpcosim_client.power.settings import Predictive
from hpcosim_client.predictive.futures import Futures
from hpcosim_client.predictive.manager import predictive
from hpcosim_client.view import View
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.shipped import shipped_folder
from hpcosim_training.learners.spare_nodes.recording import true_future
from hpcosim_workloads.table import JobTable

PRICES_W = (150.0, 500.0, 1500.0)


class KnownFuture:
    """The only future that comes.

    Args:
        jobs: all jobs, in order of submission, each on nodes of one core.
    """

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs

    def update(self, view: View) -> None:
        """Note the present."""
        self._view = view

    def drawn(self, _: float, horizon_s: float) -> Futures:
        """Return the future as a single sample."""
        return true_future(self._view, self._jobs, horizon_s)


def known_future(library: Library, price_w: float) -> tuple[float, float]:
    """Return wasted energy, kWh, and mean wait, min, on the jobs of a scenario.

    Args:
        library: the scenario; jobs need whole nodes.
        price_w: price of waiting, W.
    """
    manager = predictive(Predictive(price_w), KnownFuture(library.first_jobs))
    opened = open_scenario(library.first, library.first_jobs, "known future")
    found = run_in_process(opened, managed(make_policy("easy", "planned"), manager))
    return found["wasted_energy_kwh"], found["mean_wait_s"] / 60.0


def main() -> None:
    """Print a line for each price."""
    prices_w = [float(text) for text in sys.argv[1:]] or PRICES_W
    library = Library([shipped_folder() / "papers" / "power" / "test.yaml"])
    for price_w in prices_w:
        wasted_kwh, wait_min = known_future(library, price_w)
        print(f"{price_w:6.0f} W: {wasted_kwh:,.0f} kWh, mean wait {wait_min:.1f} min")


if __name__ == "__main__":
    main()
