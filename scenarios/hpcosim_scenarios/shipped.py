"""The scenarios shipped with hpcosim: in a checkout the folder `scenarios`, or in the wheel."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

PAPERS = "papers"
"""The folder of the papers' scenarios below `shipped_folder()`."""

BATCH = "batch"
"""The folder of the batch agent below `shipped_folder()`."""

EXPERIMENTS = "experiments"
"""The folder of the experiments below `shipped_folder()` and `BATCH`, and below that of a paper."""

RECIPES = "trainings"
"""The folder of the recipes of trainings below `BATCH`, and below the folder of a paper."""

EVERYDAY = ("demo", "site", "office-hours", "carbon", "nasa-easy")
"""The scenarios to start with, by name; the others are of papers, trainings and checks."""


def shipped_folder() -> Path:
    """Return the folder of the shipped scenarios, with the networks and job logs they read."""
    checkout = Path(__file__).parents[1]
    return checkout if (checkout / PAPERS).is_dir() else Path(__file__).parent / "shipped"


def shipped_scenarios() -> dict[str, Path]:
    """Return the files of the shipped scenarios by name, such as `demo` or `ineps/exp3`."""
    folder = shipped_folder()
    papers = folder / PAPERS
    own = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob(f"{BATCH}/*.yaml"))]
    names = {path.relative_to(folder).as_posix().removesuffix(".yaml"): path for path in own}
    return names | {
        path.relative_to(papers).as_posix().removesuffix(".yaml"): path
        for path in sorted(papers.glob("*/*.yaml"))
    }


def find_scenario(text: str) -> Path:
    """Return the file that a command's argument names: a path, or the name of a shipped scenario.

    An existing file takes precedence. A text that is neither is returned as a path, so that
    reading it reports the error.
    """
    path = Path(text)
    is_other = path.exists() and not path.is_dir()
    return path if is_other else shipped_scenarios().get(text, path)


def shipped_experiments() -> dict[str, Path]:
    """Return the files of the shipped experiments by name, such as `backfilling`.

    Those of the papers have the names of their studies, such as `power-radar`.
    """
    folder = shipped_folder()
    files = [
        *sorted((folder / EXPERIMENTS).glob("*.yaml")),
        *sorted((folder / BATCH / EXPERIMENTS).glob("*.yaml")),
        *sorted((folder / PAPERS).glob(f"*/{EXPERIMENTS}/*.yaml")),
    ]
    return {path.stem: path for path in files}


def shipped_recipes() -> dict[str, Path]:
    """Return the files of the shipped recipes of trainings by name, such as `batch`."""
    folder = shipped_folder()
    files = [
        *(folder / BATCH / RECIPES).glob("*.yaml"),
        *(folder / PAPERS).glob(f"*/{RECIPES}/*.yaml"),
    ]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def describe_scenario(path: Path) -> str:
    """Return the first sentence of the comment at the top of a scenario or a recipe."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text = " ".join(line.removeprefix("#").strip() for line in takewhile(is_comment, lines))
    return re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]


def is_comment(line: str) -> bool:
    """Return whether a line of YAML is a comment."""
    return line.startswith("#")
