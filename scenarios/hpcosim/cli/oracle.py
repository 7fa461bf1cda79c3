"""The command `hpcosim oracle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.checks import output_file
from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.options import Json, Lenient, ScenarioFile, Scheduler, Seed, Set, overrides_of


def oracle(
    scenario: ScenarioFile,
    scheduler: Scheduler = None,
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    out: Annotated[
        Path | None,
        typer.Option(
            callback=output_file,
            help="Plan file (JSON) for the power manager `oracle`. Default: none.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan the node switching that wastes the least energy, and print its energies.

    The schedule is the scheduler's own with every node always on; no job starts later. The plan is
    optimal for that schedule.
    """
    with errors_in_one_line():
        from hpcosim.cli.report import print_plan
        from hpcosim_scenarios.running.oracle import plan_scenario

        overrides = overrides_of(changes, seed, lenient)
        plan = plan_scenario(scenario, out, scheduler=scheduler, overrides=overrides)
        print_plan(plan, as_json=as_json)
        if out is not None and not as_json:
            typer.echo(f"plan: {out}")
