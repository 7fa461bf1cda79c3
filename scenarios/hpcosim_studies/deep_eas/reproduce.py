"""A study of Deep-EAS, from trainings to tables and figures."""

from __future__ import annotations

from pathlib import Path

import torch

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.figures.schedule import drawing
from hpcosim_studies.deep_eas import curves, held, optima, sweep
from hpcosim_studies.deep_eas.agents import (
    AGENTS,
    model_name,
    read_outcomes,
    train_all,
)
from hpcosim_studies.deep_eas.studies import (
    BUSIEST,
    CURVES,
    FOLDER,
    HELD,
    SWEEPS,
    Case,
    trainings,
)

SUMMARY = "summary.md"


def reproduce(study: str, out: Path, *, train: bool = False) -> None:
    """Write `summary.md` and figures of a study into a folder.

    Args:
        study: one of `studies.STUDIES`.
        out: the folder; files of the same names are replaced.
        train: train all its agents into it, but those that are there already; else those that
            lie beside the scenarios are taken.

    Raises:
        ScenarioError, WorkloadError, PolicyError: a scenario or a model is not there.
        RunError: a simulation failed.
        FigureError: matplotlib is missing.
        OracleError: SciPy is missing.
        ScenariosError: there are no results, or the folder can't be written to.
    """
    torch.set_num_threads(1)  # several wait for each other far longer than these networks take
    drawing()  # what is missing shows now, not after all training
    try:
        out.mkdir(parents=True, exist_ok=True)
        if train:
            train_all(trainings(study), out)
        _report(study, out if train else FOLDER, out)
    except OSError as error:
        raise ScenariosError(f"{error.filename}: {error.strerror or error}") from None


def _report(study: str, source: Path, out: Path) -> None:
    """Write table and figure of the agents in a folder."""
    busiest = Case(BUSIEST, BUSIEST)
    ours = source / model_name(BUSIEST, "pairs")
    figure = out / f"{study}.png"
    if study in SWEEPS:
        compared = sweep.compare(SWEEPS[study], read_outcomes(source / AGENTS), ours)
        told = sweep.table(SWEEPS[study], compared)
        sweep.draw(SWEEPS[study], compared, figure)
    elif study == CURVES:
        told = curves.table(trainings(study), source)
        curves.draw(trainings(study), source, figure)
    elif study == HELD:
        found = held.held(held.watch(busiest.path, ours))
        told = held.table(found)
        held.draw(found, figure)
    else:
        small = optima.find_optima(busiest, ours)
        told = optima.table(small)
        optima.draw(small, figure)
    (out / SUMMARY).write_text(told, encoding="utf-8")
