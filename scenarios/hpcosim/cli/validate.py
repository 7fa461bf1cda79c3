"""The command `hpcosim validate`."""

from __future__ import annotations

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.options import Json, Lenient, ScenarioFile, Seed, Set, overrides_of


def validate(
    scenario: ScenarioFile,
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    as_json: Json = False,
) -> None:
    """Check a scenario, its workload and its scheduler, and print a summary.

    The summary has the nodes, the cores, the jobs, their submission span and their offered load,
    the jobs that the reader dropped or changed, by rule, and the price and the carbon intensity of
    electricity.
    """
    with errors_in_one_line():
        from hpcosim.cli.summary import print_summary
        from hpcosim_scenarios.running.run import check

        print_summary(check(scenario, overrides_of(changes, seed, lenient)), as_json=as_json)
