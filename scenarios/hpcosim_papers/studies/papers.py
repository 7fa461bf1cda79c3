"""Paths of the scenarios and results of the papers."""

from __future__ import annotations

from pathlib import Path

from hpcosim_scenarios.shipped import PAPERS, shipped_folder


def papers_folder() -> Path:
    """Return the folder `papers` of the shipped scenarios."""
    return shipped_folder() / PAPERS


def scenario_path(paper: str, name: str) -> Path:
    """Return the path of a scenario of a paper, such as `scenario_path("ineps", "exp1")`."""
    return papers_folder() / paper / f"{name}.yaml"
