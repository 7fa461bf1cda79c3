"""Leaderboards of the submissions in files and folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpcosim_experiments.benchmark.errors import BenchmarkError
from hpcosim_experiments.benchmark.leaderboard import ranked
from hpcosim_experiments.benchmark.page import Boards
from hpcosim_experiments.benchmark.submission import read_submission
from hpcosim_experiments.benchmark.suite import find_suite
from hpcosim_experiments.benchmark.verify import Verified, Verifier

SUFFIX = ".zip"


def submissions_in(paths: Sequence[Path]) -> list[Path]:
    """Return the submissions that are named, and those in named folders and below.

    Raises:
        BenchmarkError: there are none.
    """
    found: list[Path] = []
    for path in paths:
        found += sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not found:
        raise BenchmarkError(f"{paths[0]}: expected submissions ({SUFFIX}), got none")
    return found


def verified_in(paths: Iterable[Path], suite: str = "") -> Iterator[Verified]:
    """Verify submissions.

    Args:
        paths: the submissions.
        suite: the suite that they must be of; empty: the shipped one that each names.

    Raises:
        BenchmarkError: as `Verifier`.
    """
    verifiers: dict[str, Verifier] = {}
    for path in paths:
        submission = read_submission(path)
        name = suite or submission.about.suite
        if name not in verifiers:
            verifiers[name] = Verifier(find_suite(name))
        yield verifiers[name](submission)


def boards_of(submissions: Iterable[Verified]) -> Boards:
    """Return the leaderboard of each suite that has submissions, by the suites' names."""
    by_suite: dict[str, list[Verified]] = {}
    for each in submissions:
        by_suite.setdefault(each.suite.file.name, []).append(each)
    return {
        name: (of_suite[0].suite, ranked(of_suite[0].suite, of_suite))
        for name, of_suite in sorted(by_suite.items())
    }
