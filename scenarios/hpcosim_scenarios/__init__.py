"""Read, run and plan scenarios.

Run a policy without a server:

    from pathlib import Path

    from hpcosim_scenarios import simulate

    def first_come_first_served(view):
        for job in view.queue.values():
            if not view.start(job):
                break

    print(simulate(Path("scenarios/demo.yaml"), first_come_first_served)["mean_wait_s"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_scenarios.errors import RunError as RunError
    from hpcosim_scenarios.errors import ScenarioError as ScenarioError
    from hpcosim_scenarios.errors import ScenariosError as ScenariosError
    from hpcosim_scenarios.model.file import load_scenario as load_scenario
    from hpcosim_scenarios.model.scenario import Scenario as Scenario
    from hpcosim_scenarios.running.compare import Comparison as Comparison
    from hpcosim_scenarios.running.compare import compare_policies as compare_policies
    from hpcosim_scenarios.running.compare import compare_schedulers as compare_schedulers
    from hpcosim_scenarios.running.oracle import plan_scenario as plan_scenario
    from hpcosim_scenarios.running.run import check as check
    from hpcosim_scenarios.running.run import run_scenario as run_scenario
    from hpcosim_scenarios.running.run import simulate as simulate
    from hpcosim_scenarios.running.serving import serve_scenarios as serve_scenarios

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "errors": "RunError ScenarioError ScenariosError",
        "model.file": "load_scenario",
        "model.scenario": "Scenario",
        "running.compare": "Comparison compare_policies compare_schedulers",
        "running.oracle": "plan_scenario",
        "running.run": "check run_scenario simulate",
        "running.serving": "serve_scenarios",
    },
)
