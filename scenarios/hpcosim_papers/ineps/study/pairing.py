"""The pairing agent on Experiments 1 to 4: training, evaluation and comparison."""

from __future__ import annotations

from hpcosim_experiments.statistics.rows import read_rows
from hpcosim_papers.ineps.study.experiments import EXPERIMENTS
from hpcosim_papers.ineps.study.heuristics import indexed, study_of
from hpcosim_papers.ineps.study.pairing_figures import draw_bars, draw_curves, draw_schedules
from hpcosim_papers.ineps.study.pairing_tables import Results, summary
from hpcosim_papers.ineps.study.pairing_training import OPTIMA, train_study
from hpcosim_papers.studies.agents import TABLE
from hpcosim_papers.studies.papers import papers_folder
from hpcosim_papers.studies.study import Request, rows_of


def reproduce(request: Request) -> None:
    """Write `summary.md` and figures of an experiment; of a training also learning curves."""
    name, out = request.name, request.out
    source = out if request.train else papers_folder() / "ineps" / name
    if request.train:
        train_study(name, out, request.workers)
        draw_curves(out / "curves.png", name, out)
    experiments = EXPERIMENTS[name].tested_on
    runs = rows_of(study_of({}, {}, experiments), request)
    optima = source / OPTIMA
    results = Results(
        read_rows(source / TABLE),
        indexed(runs),
        read_rows(optima) if optima.exists() else [],
    )
    (out / "summary.md").write_text(summary(results, experiments), encoding="utf-8")
    draw_bars(out / "bars.png", results, experiments)
    for experiment in experiments:
        path = out / f"schedules-{experiment}.png"
        draw_schedules(path, experiment, results, source)
