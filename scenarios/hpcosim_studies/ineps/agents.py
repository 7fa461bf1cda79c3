"""The pairing agent on Experiments 1 to 4: trained, tried out, and set beside all others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from hpcosim_client.agents.pairing.model import load_pairing
from hpcosim_client.agents.pairing.settings import Objective
from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.figures.schedule import drawing
from hpcosim_studies import FOLDER
from hpcosim_studies.ineps.agents_tables import MEASURES, Agents, summary
from hpcosim_studies.ineps.bars_figure import draw_bars
from hpcosim_studies.ineps.curves_figure import draw_curves
from hpcosim_studies.ineps.experiments import EXPERIMENTS, OURS, PAPERS, trainings
from hpcosim_studies.ineps.grid import AGENTS, train_all
from hpcosim_studies.ineps.heuristics import Results, run_all
from hpcosim_studies.ineps.optima import OPTIMA, find_optima, read_optima
from hpcosim_studies.ineps.outcomes import read_outcomes
from hpcosim_studies.ineps.schedules_figure import draw_schedules
from hpcosim_training.learners.pairing.train import ACTOR
from hpcosim_training.learning.curve import read_curve


def reproduce(study: str, out: Path, *, train: bool = False) -> None:
    """Write `summary.md` and figures of an experiment into a folder.

    Args:
        study: a key of `EXPERIMENTS`.
        out: the folder; files of the same names are replaced.
        train: train all agents into it, but those that are there already, and find the optima;
            else the results that lie beside the scenarios are taken, and learning curves are not
            drawn.

    Raises:
        ScenarioError, WorkloadError, PolicyError: a scenario or a model is not there.
        RunError: a simulation failed.
        FigureError: matplotlib is missing.
        ScenariosError: there are no results, or the folder can't be written to.
    """
    drawing()  # what is missing shows now, not after all training
    try:
        out.mkdir(parents=True, exist_ok=True)
        if train:
            find_optima(EXPERIMENTS[study].trained_on, out / OPTIMA)
            train_all(study, out)
            draw_curves(study, out, out / "curves.png")
            keep_best(study, out)
        report(study, out if train else FOLDER / "ineps" / study, out)
    except OSError as error:
        raise ScenariosError(f"{error.filename}: {error.strerror or error}") from None


def report(study: str, source: Path, out: Path) -> None:
    """Write tables and figures of the results in a folder."""
    tested_on = EXPERIMENTS[study].tested_on
    agents, optima = Agents(read_outcomes(source / AGENTS)), read_optima(source / OPTIMA)
    results = Results(list(run_all(tested_on)))
    (out / "summary.md").write_text(summary(agents, results, optima, tested_on), encoding="utf-8")
    draw_bars(agents, results, optima, tested_on, out / "bars.png")
    models = {
        f"{variant}, {objective}": source / model_name(variant, objective)
        for variant in (PAPERS, OURS)
        for objective in MEASURES
    }
    for experiment in tested_on:
        draw_schedules(experiment, results, models, out / f"schedules-{experiment}.png")


def model_name(variant: str, objective: Objective) -> str:
    """Return the name of the file of the best agent of a kind."""
    return f"{objective}.safetensors" if variant == OURS else f"{variant}-{objective}.safetensors"


def keep_best(study: str, out: Path) -> None:
    """Copy the files of the best seeds, ours and the papers', to the names they are known by.

    The best is that of the least objective in validation, or where there is none, of the drawn
    choices of its last ten iterations: nothing is chosen by a test.
    """
    for variant in (PAPERS, OURS):
        for objective in MEASURES:
            folders = [
                out / one.folder
                for one in trainings(study)
                if (one.variant, one.objective) == (variant, objective) and one.trained
            ]
            best = min(folders, key=_learned)
            shutil.copyfile(best / ACTOR, out / model_name(variant, objective))


def _learned(folder: Path) -> float:
    """Return how much a training is still above what is best, by its own account."""
    _, about = load_pairing(folder / ACTOR)
    if "validation" in about.training:
        return float(about.training["validation"])
    last: Sequence[float] = [done.measures["objective"] for done in read_curve(folder)[-10:]]
    return sum(last) / len(last)
