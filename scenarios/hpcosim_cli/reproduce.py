"""The command `hpcosim reproduce`."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from hpcosim_cli.errors import errors_in_one_line


def reproduce(
    study: Annotated[
        str, typer.Argument(help="A part of a paper's experiments; none: list all.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder for its tables and figures; default results/STUDY.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train the networks of the study anew; it takes long.")
    ] = False,
) -> None:
    """Run the experiments of a paper, or a part of them; make its tables and figures."""
    with errors_in_one_line():
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_studies.catalogue import STUDIES, reproduce_study

        if not study:
            typer.echo("\n".join(STUDIES))
            return
        if study not in STUDIES:
            near = difflib.get_close_matches(study, STUDIES, n=1) or ["ineps"]
            raise ScenariosError(
                f"there is no study {study!r}; did you mean {near[0]}? "
                "`hpcosim reproduce` lists them all"
            )
        folder = out or Path("results") / study
        reproduce_study(study, folder, train=train)
        typer.echo(f"results: {folder}")
