"""Exports of a results folder: all files or none."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hpcosim_view.drafts import Drafts, writing
from hpcosim_view.errors import ExportError
from hpcosim_view.export.parquet import TABLES, write_parquet
from hpcosim_view.export.perfetto import write_perfetto
from hpcosim_view.export.swf import swf_lines
from hpcosim_view.run.folder import read_folder

FILES = (
    "out_jobs.csv",
    "out_schedule.csv",
    "out_machine_states.csv",
    "out_pstate_changes.csv",
    "out_consumed_energy.csv",
)


class Outputs(NamedTuple):
    """Where the files of an export go; None: not wanted."""

    perfetto: Path | None = None
    parquet: Path | None = None
    swf: Path | None = None
    batsim: Path | None = None


def export_run(results: Path, outputs: Outputs, *, force: bool = False) -> list[Path]:
    """Write the files of an export.

    Returns:
        The files.

    Raises:
        ReadResultsError: the folder has no results, or they are damaged.
        ExportError: a package is missing, or a file exists and `force` is false.
        NotWrittenError: a file cannot be written; the files are as they were before.
    """
    written: list[Path] = []
    with Drafts(force=force) as drafts:

        def draft(file: Path) -> Path:
            written.append(file)
            return drafts.add(file)

        if folder := outputs.batsim:
            for name, source in batsim_files(results).items():
                shutil.copyfile(source, draft(folder / name))
        trace = outputs.perfetto and draft(outputs.perfetto)
        tables = outputs.parquet and {name: draft(outputs.parquet / name) for name in TABLES}
        log = outputs.swf and draft(outputs.swf)
        if not (trace or tables or log):
            return written
        frame = read_folder(results)
        if trace:
            with writing(trace), trace.open("wb") as file:
                write_perfetto(frame, file)
        if tables:
            write_parquet(frame, tables)
        if log:
            with writing(log), log.open("w", encoding="utf-8", newline="") as text:
                text.writelines(swf_lines(frame))
    return written


def batsim_files(results: Path) -> Mapping[str, Path]:
    """Return the files by name.

    Raises:
        ExportError: the run did not write them.
    """
    found = {name: results / name for name in FILES}
    if missing := [name for name, file in found.items() if not file.is_file()]:
        raise ExportError(
            f"--batsim: {results / missing[0]} is missing; Batsim's files need the order of events "
            "within an instant, which a results folder does not have: simulate with "
            "`hpcosim run SCENARIO --format batsim`, which writes them"
        )
    return found
