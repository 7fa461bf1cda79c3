"""Writes a report from results folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from hpcosim_sim.record.folder import write_together
from hpcosim_view.errors import ReportError
from hpcosim_view.report.compared import different_jobs
from hpcosim_view.report.page import MARK, page_of
from hpcosim_view.report.settings import different_settings
from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import Frame
from hpcosim_view.runs import printable
from hpcosim_view.targets import target_of

MAX_RUNS = 4
HEAD_CHARACTERS = 4096  # of a file, to recognize a report


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    force: bool = False,
    warn: Callable[[str], None] = lambda warning: None,
) -> Path:
    """Write a report of one to four runs, as a whole or not at all.

    The same results give the same bytes.

    Args:
        folders: results folders.
        out: the file; missing folders are created. A report there is replaced; a link stays.
        force: also replace a file that is no report.
        warn: receives each notice that jobs or settings differ; the page has them, too.

    Returns:
        The file.

    Raises:
        ReportError: the runs cannot be compared, or `out` is a file that is no report.
        NoRegularFileError: a folder, a device or a FIFO has the name `out`.
        ReadResultsError: a folder has no results that can be read.
        ResultsError: the file cannot be written.
    """
    target = _target(out, force=force)
    page = report_page(folders, warn)
    write_together(target.parent, {target.name: [page]})
    return out


def report_page(folders: Sequence[Path], warn: Callable[[str], None] = lambda warning: None) -> str:
    """Return the page that shows the runs of one to four results folders.

    Args:
        folders: results folders.
        warn: receives each notice that jobs or settings differ; the page has them, too.

    Raises:
        ReportError: the runs cannot be compared.
        ReadResultsError: a folder has no results that can be read.
    """
    if not 1 <= len(folders) <= MAX_RUNS:
        raise ReportError(f"expected 1 to {MAX_RUNS} results folders, got {len(folders)}")
    places = [folder.resolve() for folder in folders]
    for at, place in enumerate(places):
        if place in places[:at]:
            raise ReportError(f"{folders[at]}: the results folder is given twice; name it once")
    runs = [read_folder(folder) for folder in folders]
    for folder, run in zip(folders[1:], runs[1:], strict=True):
        _check_platform(folders[0], runs[0], folder, run)
    names = _names(folders, runs)
    named = list(zip(names, runs, strict=True))
    notices = [different_jobs(named), *different_settings(folders, names)]
    notices = [notice for notice in notices if notice]
    for notice in notices:
        warn(printable(notice))
    return page_of(named, notices)


def _check_platform(first: Path, expected: Frame, folder: Path, run: Frame) -> None:
    """Check that two runs have the same nodes, so that their charts have the same axes."""
    texts = [_platform_text(each) for each in (expected, run)]
    if texts[0] != texts[1]:
        raise ReportError(
            f"{folder}: the platform has {texts[1]}, but that of {first} has {texts[0]}; "
            "expected runs on equal platforms; write a report for each"
        )


def _platform_text(run: Frame) -> str:
    """Return `24 nodes with 16 cores and 8 nodes with 32 cores`."""
    return " and ".join(
        f"{count} node{'' if count == 1 else 's'} with {cores} core{'' if cores == 1 else 's'}"
        for count, cores, _ in run.about["nodes"]
    )


def _names(folders: Sequence[Path], runs: Sequence[Frame]) -> list[str]:
    """Return different names for the runs: their schedulers, the names of the folders, or paths."""
    choices = (
        [str(run.about.get("scheduler", "")) for run in runs],
        [folder.resolve().name for folder in folders],
        [str(folder) for folder in folders],
    )
    return next((names for names in choices if max(Counter(names).values()) == 1), choices[-1])


def _target(out: Path, *, force: bool) -> Path:
    """Return the file to replace; check that it is a report if it exists."""
    target = target_of(out)
    if force or not target.exists():
        return target
    with target.open("rb") as file:
        head = file.read(HEAD_CHARACTERS)
    if MARK.encode() not in head:
        raise ReportError(
            f"{out}: this file is no report of hpcosim; choose another one with --out, or replace "
            "it with --force"
        )
    return target
