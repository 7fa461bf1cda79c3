"""A study: the runs it declares, and the files made of their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_studies.rows import Row, Rows, write_rows
from hpcosim_studies.runs import Run, metrics_of, run_all

Tables = Mapping[str, Callable[[Rows], str]]
Figures = Mapping[str, Callable[[Path, Rows], None]]


class Study(NamedTuple):
    """What is simulated, and what is made of it.

    Attributes:
        title: what the progress shown is of.
        runs: the simulations.
        columns: of `results.csv`; empty: that file is not written.
        tables: make a Markdown text of the rows, by the file's name.
        figures: draw the rows into a file, by its name.
        measured: simulates and measures a run; importable by name.
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
        study: it.
        out: the folder, which exists; files of the same names are replaced.
        workers: processes; 1: this one; None: one for each core.
        known: rows that stand before those of the runs.

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
