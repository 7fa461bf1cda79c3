"""Where the scenarios and results of papers lie."""

from __future__ import annotations

import os
from pathlib import Path

from hpcosim_studies.errors import StudyError

VARIABLE = "HPCOSIM_PAPERS"
"""The environment variable that names the folder."""


def papers_folder() -> Path:
    """Return the folder `scenarios/papers` of a checkout of the repository.

    It is the folder that `HPCOSIM_PAPERS` names, else the one beside this package, else the one
    below the current folder.

    Raises:
        StudyError: there is none, as where only the wheel is installed.
    """
    named = os.environ.get(VARIABLE)
    places = [Path(__file__).parents[1] / "papers", Path("scenarios/papers").absolute()]
    if named:
        places = [Path(named).absolute()]
    found = next((place for place in places if (place / "ineps").is_dir()), None)
    if found is None:
        raise StudyError(
            f"reproducing a paper needs a checkout of the repository: {places[-1]} is not its "
            f"folder scenarios/papers; run the command in a checkout, or name that folder with "
            f"the environment variable {VARIABLE}"
        )
    return found


def scenario_path(paper: str, name: str) -> Path:
    """Return the file of a scenario of a paper: `scenario_path("ineps", "exp1")`.

    Raises:
        StudyError: as `papers_folder`.
    """
    return papers_folder() / paper / f"{name}.yaml"
