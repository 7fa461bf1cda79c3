"""Tokens of a twin, and what their users see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol.errors import HpcosimError
from hpcosim_slurm.state import ClusterState
from hpcosim_twin.answers.questions import QueueQuestion, WaysQuestion
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.service.access import OPERATOR, Viewer, Visible, read_tokens
from support.twins import two_users


def test_a_file_of_tokens_is_created_with_one_of_an_operator(tmp_path: Path) -> None:
    """Only its owner can read it, and the next start reads the same."""
    path = tmp_path / "twin" / "tokens"
    found = read_tokens(path)
    assert list(found.values()) == [OPERATOR]
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_tokens(path) == found


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "expected at least one line"),
        ("# only a comment\n", "expected at least one line"),
        ("0123456789abcdef\n", "tokens:1: expected a token and the name of its user"),
        ("a b c\n", "tokens:1: expected a token"),
        ("short ann\n", "expected at least 16 letters"),
    ],
)
def test_a_file_of_another_form_is_an_error(tmp_path: Path, content: str, error: str) -> None:
    """The line is named; the token is not told."""
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(HpcosimError, match=error) as raised:
        read_tokens(path)
    assert "0123456789abcdef" not in str(raised.value)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """It says how to mend it."""
    path = tmp_path / "tokens"
    path.write_text("0123456789abcdef ann\n")
    path.chmod(0o640)
    with pytest.raises(ForecastError, match="chmod 600"):
        read_tokens(path)


def state() -> ClusterState:
    """Jobs 1 to 10 of bob and ann, by turns; 11 is of cy in ann's account."""
    cluster = two_users()
    number = cluster.submit()
    cluster.jobs[number] = replace(cluster.jobs[number], user="cy", account="of-ann")
    return cluster.state()


@pytest.mark.parametrize(
    ("viewer", "jobs"),
    [
        (Viewer("ann", "own"), {2, 4, 6, 8, 10}),
        (Viewer("ann", "account"), {2, 4, 6, 8, 10, 11}),
        (Viewer("cy", "account"), {2, 4, 6, 8, 10, 11}),
        (Viewer("dee", "account"), set()),
        (Viewer("ann", "all"), set(range(1, 12))),
        (Viewer(OPERATOR, "own"), set(range(1, 12))),
    ],
)
def test_rows_of_jobs_that_are_not_seen_are_left_out(viewer: Viewer, jobs: set[int]) -> None:
    """At any depth of an answer."""
    rows = [{"job_id": number, "behind": [{"job_id": 1}]} for number in range(1, 12)]
    found = viewer.view(state()).of({"at_s": 1.0, "deep": {"jobs": rows}})
    shown = found["deep"]["jobs"]
    assert {row["job_id"] for row in shown} == jobs
    assert all(row["behind"] == ([{"job_id": 1}] if 1 in jobs else []) for row in shown)


def test_figures_of_other_accounts_are_left_out() -> None:
    """Those of all accounts together stay."""
    rows: list[dict[str, Any]] = [{"account": each} for each in ("all", "of-ann", "of-bob")]
    found = Viewer("ann", "own").view(state()).of({"waits": rows})
    assert found == {"waits": [{"account": "all"}, {"account": "of-ann"}]}


@pytest.mark.parametrize(
    ("visible", "user", "is_seen"),
    [("own", "ann", True), ("own", "cy", False), ("account", "cy", True), ("all", "bob", True)],
)
def test_users_may_be_asked_about_who_are_seen(visible: Visible, user: str, is_seen: bool) -> None:
    """The user of a question says whose history counts."""
    view = Viewer("ann", visible).view(state())
    question = WaysQuestion(("-n 1",), user)
    if is_seen:
        view.check(question, state())
        return
    with pytest.raises(ForecastError, match="expected your own name"):
        view.check(question, state())


def test_a_job_that_runs_does_not_wait() -> None:
    """For its owner and for everybody else the error is the same."""
    for viewer in (Viewer("ann", "own"), Viewer("bob", "own"), Viewer()):
        with pytest.raises(ForecastError, match="job 2 does not wait"):
            viewer.view(state()).check(QueueQuestion(2), state())
