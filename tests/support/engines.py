"""The results of two engines side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hpcosim_scenarios import run_scenario


def both(path: Path, folder: Path, **overrides: Any) -> Path:
    """Run a scenario with both engines; return the folder of results, which are the same."""
    warnings: list[str] = []
    for engine in ("reference", "compiled"):
        run_scenario(
            path,
            transport="inproc",
            out=folder / engine,
            overrides={**overrides, "engine": engine},
            warn=warnings.append,
        )
    assert not [text for text in warnings if "reference engine" in text]
    assert differences(folder / "reference", folder / "compiled") == []
    return folder / "compiled"


def differences(one: Path, other: Path) -> list[str]:
    """Return the names of the files that differ, apart from the engine in `run.json`."""
    names = sorted({file.name for folder in (one, other) for file in folder.iterdir()})
    return [name for name in names if _content(one / name) != _content(other / name)]


def _content(file: Path) -> Any:
    if not file.is_file():
        return None
    if file.name != "run.json":
        return file.read_bytes()
    about = json.loads(file.read_text())
    about["engine"] = about["effective_scenario"]["engine"] = ""
    about["overrides"].pop("engine", None)
    return about
