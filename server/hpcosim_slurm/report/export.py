"""The report of a journal: its figures, and two runs as results folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

import msgspec

from hpcosim_sim.record.folder import write_together
from hpcosim_sim.record.results import Run, to_json, write_results
from hpcosim_slurm.ledger.records import AnyRecord, Began
from hpcosim_slurm.report.acted import ActedRows, acted
from hpcosim_slurm.report.acting import (
    ActingFigures,
    failures_of,
    fall_back_of,
    figures_of,
    table_of,
    text_of_acting,
)
from hpcosim_slurm.report.comparison import Comparison, compare, text_of_comparison
from hpcosim_slurm.report.rows import SessionRows
from hpcosim_slurm.report.scripted import ScriptedRun, run_of
from hpcosim_slurm.report.texts import shown_time
from hpcosim_slurm.report.watched import last_session


class NamedRun(msgspec.Struct, frozen=True):
    """A run for a results folder.

    Attributes:
        folder: name of the folder.
        scheduler: who has started the jobs.
        run: the run.
        notices: sentences for the page.
    """

    folder: str
    scheduler: str
    run: ScriptedRun
    notices: list[str]


class Reported(msgspec.Struct, frozen=True):
    """What a report has.

    Attributes:
        figures: the figures.
        text: the figures for people.
        runs: the run as the scheduler decided, and the real one.
        ended: why the runs end, a sentence.
        files: texts of further files, by name.
    """

    figures: Comparison | ActingFigures
    text: str
    runs: tuple[NamedRun, NamedRun]
    ended: str
    files: Mapping[str, str]


def report_of(records: Iterable[AnyRecord], tolerance_s: float) -> Reported:
    """Return the report of a journal.

    Args:
        records: the records.
        tolerance_s: largest difference of two starts that match, s.

    Raises:
        JournalError: no scheduler has opened a session.
    """
    rest = iter(records)
    first = next(rest)
    assert isinstance(first, Began), "`read` checks it"
    whole = chain([first], rest)
    if first.mode == "shadow":
        return report_of_shadow(last_session(whole), tolerance_s)
    return report_of_acting(acted(whole), tolerance_s)


def report_of_shadow(session: SessionRows, tolerance_s: float) -> Reported:
    """Return the report of a session in mode shadow; see `report_of`."""
    shadow = run_of(session, lambda row: row.shadow, is_real=False)
    real = run_of(session, lambda row: row.real, is_real=True)
    figures = compare(session, shadow, real, tolerance_s)
    notices = [f"energy: {figures.power}"]
    runs = (
        NamedRun("shadow", f"{figures.scheduler or 'scheduler'} (shadow)", shadow, notices),
        NamedRun("slurm", "Slurm", real, notices),
    )
    ended = f"the journal ends; the session began at {shown_time(figures.start_s)}"
    files = {"comparison.json": to_json(figures)}
    return Reported(figures, text_of_comparison(figures), runs, ended, files)


def report_of_acting(found: ActedRows, tolerance_s: float) -> Reported:
    """Return the report of a bridge in mode hold or place; see `report_of`."""
    decided = run_of(found.rows, lambda row: row.shadow, is_real=False)
    real = run_of(found.rows, lambda row: row.real, is_real=True)
    figures = figures_of(found, real, tolerance_s)
    name, fall_back = figures.scheduler or "scheduler", fall_back_of(figures)
    energy = [f"energy: {figures.power}"]
    happened = [f"fall-back to shadow, {fall_back}"] if fall_back else []
    happened += failures_of(figures)
    runs = (
        NamedRun("decided", f"{name} (decided)", decided, energy),
        NamedRun("slurm", f"{name} on Slurm", real, [*happened, *energy]),
    )
    ended = "the bridge fell back to shadow" if fall_back else "the journal ends"
    ended += f"; the first session began at {shown_time(figures.start_s)}"
    files = {"acting.json": to_json(figures), "decisions.csv": table_of(found)}
    return Reported(figures, text_of_acting(figures), runs, ended, files)


def write_folders(reported: Reported, folder: Path, version: str) -> list[Path]:
    """Write both runs as results folders, which `hpcosim report` shows, and return them.

    The other files of the report are written, too.

    Raises:
        ResultsError: they cannot be written.
    """
    written = []
    for each in reported.runs:
        about = Run(
            scenario=reported.figures.cluster,
            scheduler=each.scheduler,
            seed=0,
            complete=True,
            ended_because=reported.ended,
            warnings=each.notices,
            hpcosim=version,
            realtime=1.0,
        )
        write_results(folder / each.folder, each.run.record, about)
        written.append(folder / each.folder)
    write_together(folder, {name: [text] for name, text in reported.files.items()})
    return written
