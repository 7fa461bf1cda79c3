"""The command `hpcosim validate`."""

from __future__ import annotations

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import Lenient, ScenarioFile, Set, overrides_of


def validate(scenario: ScenarioFile, changes: Set = None, lenient: Lenient = False) -> None:
    """Check a scenario and its workload, and print a summary."""
    with errors_in_one_line():
        from hpcosim_cli.report import print_summary
        from hpcosim_scenarios.running.run import check

        checked = check(scenario, overrides_of(changes, None, lenient))
        print_summary(checked.scenario, checked.jobs, checked.chosen.title)
