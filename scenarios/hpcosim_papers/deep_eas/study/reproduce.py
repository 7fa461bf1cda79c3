"""Reproduce a study of Deep-EAS, from trainings to tables and figures."""

from __future__ import annotations

from hpcosim_experiments.statistics.rows import read_rows
from hpcosim_gym.learning.networks import use_one_thread
from hpcosim_papers.deep_eas.study import cases, held_jobs, lengths, optima
from hpcosim_papers.deep_eas.study.sweep import curve_summary, draw_curves, study_of
from hpcosim_papers.studies.agents import TABLE
from hpcosim_papers.studies.study import Request, carry_out, papers_folder
from hpcosim_sim.record.folder import prepare


def reproduce(request: Request) -> None:
    """Write `summary.md` and a figure of a study."""
    use_one_thread()
    name, out = request.name, request.out
    source = out if request.train else papers_folder() / "deep_eas"
    if request.train:
        cases.train_study(cases.trainings(name), out, request.workers)
    busiest, ours = (
        cases.Case(cases.BUSIEST, cases.BUSIEST),
        source / cases.model_name(cases.BUSIEST, "pairs"),
    )
    if name in cases.SWEEPS:
        agents = read_rows(source / TABLE)
        carry_out(study_of(name, cases.SWEEPS[name], agents, ours), request)
        return
    prepare(out, force=request.force or request.train)  # there is no experiment to continue
    figure = out / f"{name}.png"
    if name == cases.CURVES:
        text = curve_summary(cases.trainings(name), source)
        draw_curves(figure, cases.trainings(name), source)
    elif name == cases.HELD:
        found = held_jobs.find_held_jobs(held_jobs.record_decisions(busiest.path, ours))
        text = held_jobs.summary(found)
        held_jobs.draw(figure, found)
    elif name == cases.LENGTHS:
        rows, searched = lengths.compare(busiest, source), lengths.compare_search(busiest, source)
        text = lengths.summary(rows, searched, lengths.find_gaps(busiest, source))
    else:
        small = optima.find_optima(busiest, ours, source / cases.EVERY_LENGTH)
        searched = optima.find_searches(busiest, ours, source / cases.EVERY_LENGTH)
        text = optima.summary(small, searched)
        optima.draw(figure, small)
    (out / "summary.md").write_text(text, encoding="utf-8")
