"""The command `hpcosim reproduce`."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import Force


def reproduce(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="Study to run. Default: list all studies.")
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables and figures. Default: results/STUDY."),
    ] = None,
    force: Force = False,
    train: Annotated[
        bool,
        typer.Option(
            "--train", help="Train the networks of the study first, which can take hours."
        ),
    ] = False,
) -> None:
    """Run the experiments of a paper, and write their tables and figures."""
    with errors_in_one_line():
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_server.record.folder import prepare
        from hpcosim_studies.catalogue import STUDIES, reproduce_study

        if not study:
            typer.echo("\n".join(f"{name:18} {entry.about}" for name, entry in STUDIES.items()))
            return
        if study not in STUDIES:
            near = difflib.get_close_matches(study, STUDIES, n=1)
            advice = f"did you mean {near[0]}? " if near else ""
            raise ScenariosError(
                f"unknown study {study!r}; {advice}`hpcosim reproduce` lists all studies"
            )
        folder = out or Path("results") / study
        prepare(folder, force=force or train)  # a second training keeps the networks of the first
        reproduce_study(study, folder, train=train)
        typer.echo(f"results: {folder}")
