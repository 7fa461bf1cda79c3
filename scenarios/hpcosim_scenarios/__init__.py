"""Read, run and plan scenarios.

Run a policy without a server:

    from pathlib import Path

    from hpcosim_scenarios import simulate

    def first_come_first_served(view):
        for job in view.queue.values():
            if not view.start(job):
                break

    print(simulate(Path("scenarios/demo.yaml"), first_come_first_served)["mean_wait_s"])

The names below are imported on first use, so that reading a scenario loads no scheduler.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcosim_scenarios.errors import RunError, ScenarioError, ScenariosError
    from hpcosim_scenarios.model.file import load_scenario
    from hpcosim_scenarios.model.scenario import Scenario
    from hpcosim_scenarios.running.compare import (
        Comparison,
        compare_policies,
        compare_schedulers,
    )
    from hpcosim_scenarios.running.oracle import plan_scenario
    from hpcosim_scenarios.running.run import check, run_scenario, simulate
    from hpcosim_scenarios.running.serving import serve_scenarios
    from hpcosim_server.service.options import ServeOptions

    __version__: str

__all__ = [
    "Comparison",
    "RunError",
    "Scenario",
    "ScenarioError",
    "ScenariosError",
    "ServeOptions",
    "check",
    "compare_policies",
    "compare_schedulers",
    "load_scenario",
    "plan_scenario",
    "run_scenario",
    "serve_scenarios",
    "simulate",
]

_MODULES = (
    ("errors", ("RunError", "ScenarioError", "ScenariosError")),
    ("model.file", ("load_scenario",)),
    ("model.scenario", ("Scenario",)),
    ("running.compare", ("Comparison", "compare_policies", "compare_schedulers")),
    ("running.oracle", ("plan_scenario",)),
    ("running.run", ("check", "run_scenario", "simulate")),
    ("running.serving", ("ServeOptions", "serve_scenarios")),
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("hpcosim")
    for module, names in _MODULES:
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
