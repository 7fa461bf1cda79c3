"""The state of a bridge from its journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hpcosim_slurm.bridge.course import Course, MakeWorld
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.ledger.journal import Journal, read
from hpcosim_slurm.ledger.records import FORMAT, Began
from hpcosim_slurm.worlds.site import Site


def course_of(
    path: Path | None,
    began: Began,
    make_world: MakeWorld,
    warn: Callable[[str], None],
) -> tuple[Course, Journal]:
    """Return the state of a bridge and its open journal.

    Args:
        path: the journal. If it exists, its records happen first. None: nothing is written.
        began: the first record of a new journal.
        make_world: makes the world of each session.
        warn: called with a sentence about a last record that was cut off.

    Raises:
        JournalError: the file is no journal, or that of a bridge with other settings.
        OSError: it cannot be read or written.
    """
    course = Course(began.site, make_world)
    is_old = path is not None and path.exists() and path.stat().st_size > 0
    if path is not None and is_old:
        for record in read(path, warn):
            if isinstance(record, Began):
                _check_same(path, record, began)
            course.happen(record)
    journal = Journal(path)
    if not is_old:
        journal.append(began)
    return course, journal


def began_now(site: Site, mode: str, version: str, now_s: float) -> Began:
    """Return the first record of a new journal."""
    return Began(at_s=now_s, format=FORMAT, hpcosim=version, mode=mode, site=site)


def _check_same(path: Path, old: Began, new: Began) -> None:
    for what, before, now in (
        ("mode", old.mode, new.mode),
        ("cluster", old.site.name, new.site.name),
        ("partitions", list(old.site.partitions), list(new.site.partitions)),
        ("settings", old.site, new.site),
    ):
        if before != now:
            raise JournalError(
                f"{path}: the journal is of a bridge with another {what}, {before}; this one has "
                f"{now}; expected the same, or another --journal"
            )
