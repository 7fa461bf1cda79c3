"""Batsim's output files of a run, written."""

from __future__ import annotations

from pathlib import Path

from hpcosim_batsim.csv_files import files_of, summary_file
from hpcosim_batsim.results import BatsimOutcome
from hpcosim_sim.record.folder import write_together


def write_outputs(prefix: Path, outcome: BatsimOutcome) -> None:
    """Write all files. They replace those of an earlier run.

    Args:
        prefix: path and start of the names: `runs/out` for `runs/out_jobs.csv` and so on.
        outcome: the result of a run.

    Raises:
        ResultsError: a file cannot be written; no file has changed.
    """
    write_together(prefix.parent, files_of(outcome, prefix.name), seal=summary_file(prefix.name))
