"""A study as data: its runs, and the files written from their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_studies.rows import Row, Rows, write_rows
from hpcosim_studies.runs import Run, metrics_of, run_all

Tables = Mapping[str, Callable[[Rows], str]]
Figures = Mapping[str, Callable[[Path, Rows], None]]


class Study(NamedTuple):
    """The runs of a study and its output files.

    Attributes:
        title: title of the progress bar.
        runs: the runs.
        columns: columns of `results.csv`; empty: the file is not written.
        tables: functions that return the rows as Markdown, by file name.
        figures: functions that draw the rows into a file, by file name.
        measured: function that simulates a run and returns its values. It must be importable by
            name.
        digits: significant digits of floats in `results.csv`; None: all.
    """

    title: str
    runs: Sequence[Run]
    columns: Sequence[str]
    tables: Tables
    figures: Figures
    measured: Callable[[Run], Mapping[str, Any]] = metrics_of
    digits: int | None = 10


def carry_out(
    study: Study, out: Path, workers: int | None = None, known: Sequence[Row] = ()
) -> list[Row]:
    """Simulate the runs of a study, and write its files into a folder.

    Args:
        study: the study.
        out: the existing output folder. Existing files are replaced.
        workers: number of processes; 1: this process only; None: one per core.
        known: rows that precede those of the runs.

    Returns:
        All rows.

    Raises:
        As `simulate`; FigureError: matplotlib is missing; OSError: a file cannot be written.
    """
    rows = [*known, *run_all(study.runs, workers, study.title, study.measured)]
    if study.columns:
        write_rows(out / "results.csv", study.columns, rows, study.digits)
    for name, made in study.tables.items():
        (out / name).write_text(made(rows), encoding="utf-8")
    for name, draw in study.figures.items():
        draw(out / name, rows)
    return rows
