"""The pairing agent on Experiments 1 to 4: training, evaluation and comparison."""

from __future__ import annotations

from pathlib import Path

from hpcosim_experiments.statistics.rows import read_rows
from hpcosim_studies.agents import TABLE
from hpcosim_studies.ineps.experiments import EXPERIMENTS
from hpcosim_studies.ineps.heuristics import indexed, run_heuristics
from hpcosim_studies.ineps.pairing_figures import draw_bars, draw_curves, draw_schedules
from hpcosim_studies.ineps.pairing_tables import Results, summary
from hpcosim_studies.ineps.pairing_training import OPTIMA, train_study
from hpcosim_studies.papers import papers_folder


def reproduce(name: str, out: Path, *, train: bool = False, workers: int | None = None) -> None:
    """Write `summary.md` and figures of an experiment into a folder.

    Args:
        name: a key of `EXPERIMENTS`.
        out: the existing output folder.
        train: train the agents into `out` and draw their learning curves. False: use the shipped
            agents and results.
        workers: number of processes; None: one per core.
    """
    source = out if train else papers_folder() / "ineps" / name
    if train:
        train_study(name, out, workers)
        draw_curves(out / "curves.png", name, out)
    experiments = EXPERIMENTS[name].tested_on
    optima = source / OPTIMA
    results = Results(
        read_rows(source / TABLE),
        indexed(run_heuristics(experiments, workers)),
        read_rows(optima) if optima.exists() else [],
    )
    (out / "summary.md").write_text(summary(results, experiments), encoding="utf-8")
    draw_bars(out / "bars.png", results, experiments)
    for experiment in experiments:
        path = out / f"schedules-{experiment}.png"
        draw_schedules(path, experiment, results, source)
