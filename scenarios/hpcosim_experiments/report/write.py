"""Write the report of an experiment."""

from __future__ import annotations

from pathlib import Path

from hpcosim_experiments.report.results import Results
from hpcosim_experiments.report.settings import ReportSettings


def write_report(folder: Path, results: Results, settings: ReportSettings) -> list[Path]:
    """Write the report of an experiment; existing files of the same names are replaced.

    Args:
        folder: existing output folder. It receives `report.html`, `report.md`, `tables/*.tex` and
            `figures/*.svg` and `*.pdf`.
        results: the results.
        settings: the section `report` of the experiment file, which `check` has accepted.

    Returns:
        The files.

    Raises:
        ExperimentError: matplotlib or Jinja is missing.
        OSError: a file is not writable.
    """
    return []
