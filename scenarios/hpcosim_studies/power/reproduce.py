"""Reproduce a part of the study, from its runs to tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hpcosim_studies.papers import papers_folder
from hpcosim_studies.power import pareto, radar, sensitivity, timeouts
from hpcosim_studies.power.agents import find_agents
from hpcosim_studies.power.curricula import TABLE, compare_curricula
from hpcosim_studies.power.paper import models, scenario_file
from hpcosim_studies.study import Study, carry_out

PARTS: Mapping[str, Callable[..., Study]] = {
    "power-timeouts": timeouts.study,
    "power-radar": radar.study,
    "power-sensitivity": sensitivity.study,
    "power-pareto": pareto.study,
}
"""Parts that compare managers; `power-curricula` compares trainings."""


def reproduce(name: str, out: Path, *, train: bool = False, workers: int | None = None) -> None:
    """Run a part of the study; write `results.csv`, `summary.md` and figures into a folder.

    Args:
        name: `power-curricula`, or a key of `PARTS`.
        out: the output folder, which exists.
        train: train the networks of `power-curricula` into the folder first; otherwise use the
            shipped table of trainings.
        workers: number of processes.
    """
    if name in PARTS:
        agents, left_out = find_agents(models())
        carry_out(PARTS[name](agents, left_out, scenario_file()), out, workers)
        return
    trained = papers_folder() / "power" / TABLE
    if train:
        from hpcosim_studies.power.training import train_grid

        trained = train_grid(out, workers)
    compare_curricula(out, trained, scenario_file(), workers=workers)
