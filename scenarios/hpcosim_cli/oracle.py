"""The command `hpcosim oracle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import Json, Lenient, ScenarioFile, Scheduler, Seed, Set, overrides_of


def oracle(
    scenario: ScenarioFile,
    scheduler: Scheduler = None,
    out: Annotated[Path | None, typer.Option(help="File for the plan; else none is kept.")] = None,
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    as_json: Json = False,
) -> None:
    """Print the least energy a scenario's schedule must waste; plan the switching that does it."""
    with errors_in_one_line():
        from hpcosim_cli.report import print_plan
        from hpcosim_scenarios.running.oracle import plan_scenario

        overrides = overrides_of(changes, seed, lenient)
        plan = plan_scenario(scenario, out, scheduler=scheduler, overrides=overrides)
        print_plan(plan, as_json=as_json)
        if out is not None and not as_json:
            typer.echo(f"plan: {out}")
