"""Leaderboards are functions of verified submissions."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_experiments.benchmark.leaderboard import SUFFIX, boards_of, markdown, page, ranked
from hpcosim_experiments.benchmark.suite import SUBMISSIONS, shipped_suites
from support.benchmark_suites import submitted, tiny_suite
from support.commands import command
from support.paths import ROOT

PAGE = ROOT / "scenarios" / "suites" / "LEADERBOARD.md"
REPLAYS_S = 900.0
"""Timeout of the replay of all submissions, s: 500 journals with 290,000 requests take 12 s of
processor time, and beside other work a test may get a fiftieth of a core."""


def test_rows_depend_on_nothing_but_the_submissions(tmp_path: Path) -> None:
    """Any order of the submissions gives the same page; the best ratio is first."""
    suite = tiny_suite(tmp_path / "suite")
    verified = [submitted(suite, tmp_path / f"{name}.zip", name) for name in ("fcfs", "sjf")]
    boards = [boards_of(each) for each in (verified, verified[::-1], verified)]
    assert len({markdown(each) for each in boards}) == 1
    assert len({page(each) for each in boards}) == 1
    rows = ranked(suite, verified)
    assert [row.ratio for row in rows] == sorted(row.ratio for row in rows)


def test_reference_has_no_difference_from_itself(tmp_path: Path) -> None:
    """The row of the reference policy has a difference of 0 and no wins."""
    suite = tiny_suite(tmp_path / "suite")
    (row,) = ranked(suite, [submitted(suite, tmp_path / "easy.zip", "easy")])
    assert (row.difference.value, row.difference.low, row.difference.high) == (0.0, 0.0, 0.0)
    assert row.wins == 0
    seals = suite.seals.values()
    mean = sum(seal.reference / seal.bound for seal in seals) / len(seals)
    assert row.ratio == pytest.approx(mean)


@pytest.mark.slow
def test_page_is_that_of_the_shipped_submissions() -> None:
    """The leaderboard of the documentation is what the command prints for verified submissions."""
    folder = ROOT / "scenarios" / "suites"
    # In a process, because its simulations are replays.
    done = command("benchmark", "leaderboard", folder, timeout_s=REPLAYS_S)
    assert done.out == PAGE.read_text(), done.err


def test_submissions_are_in_the_folder_of_their_suite() -> None:
    """Each shipped suite has submissions, all of them together in less than 2 MB."""
    files = [
        list((file.parent / SUBMISSIONS).glob(f"*{SUFFIX}")) for file in shipped_suites().values()
    ]
    assert all(files)
    assert sum(path.stat().st_size for of_suite in files for path in of_suite) < 2_000_000
