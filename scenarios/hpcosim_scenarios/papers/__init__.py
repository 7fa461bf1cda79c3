"""The experiments of papers, run again: a module a paper, its scenarios in `scenarios/papers`."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "papers"


def reproduce_study(study: str, out: Path) -> None:
    """Run all experiments of a paper and write its tables and figures.

    Args:
        study: `ineps` or `node-centric`.
        out: where to.

    Raises:
        ScenarioError, WorkloadError: a scenario or a job log is not on this machine.
    """
    if study == "ineps":
        from hpcosim_scenarios.papers.ineps import reproduce
    else:
        from hpcosim_scenarios.papers.node_centric import reproduce
    reproduce(out)
