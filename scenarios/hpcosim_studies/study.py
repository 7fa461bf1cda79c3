"""A study as data: its runs and its output files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.statistics.rows import Row, Rows, write_rows
from hpcosim_studies.runs import StudyRun, metrics_of, run_all

Tables = Mapping[str, Callable[[Rows], str]]
Figures = Mapping[str, Callable[[Path, Rows], None]]


class Study(NamedTuple):
    """Runs of a study and its output files.

    Attributes:
        title: title of the progress bar.
        runs: the simulations.
        columns: columns of `results.csv`; empty: no `results.csv`.
        tables: functions that return a Markdown text for the rows, by file name.
        figures: functions that draw the rows into a file, by file name.
        measured: simulates a run and returns its measured values; a function that other processes
            can import.
        digits: significant digits of floats in `results.csv`; None: full precision.
    """

    title: str
    runs: Sequence[StudyRun]
    columns: Sequence[str]
    tables: Tables
    figures: Figures
    measured: Callable[[StudyRun], Mapping[str, Any]] = metrics_of
    digits: int | None = 10


def carry_out(
    study: Study, out: Path, workers: int | None = None, known: Sequence[Row] = ()
) -> list[Row]:
    """Simulate the runs of a study and write its files.

    Args:
        study: the study.
        out: existing output folder; files of the same names are replaced.
        workers: number of processes; 1: the current process; None: one per core.
        known: rows that precede those of the runs.

    Returns:
        All rows.

    Raises:
        As `simulate`. FigureError: matplotlib is missing. OSError: a file is not writable.
    """
    rows = [*known, *run_all(study.runs, workers, study.title, study.measured)]
    if study.columns:
        write_rows(out / "results.csv", study.columns, rows, study.digits)
    for name, made in study.tables.items():
        (out / name).write_text(made(rows), encoding="utf-8")
    for name, draw in study.figures.items():
        draw(out / name, rows)
    return rows
