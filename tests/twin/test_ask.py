"""The command `hpcosim ask`, on recorded queues and of running twins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcosim_twin.answers.changes import Change
from hpcosim_twin.answers.questions import (
    KINDS,
    AdviceQuestion,
    AnyQuestion,
    ChangeQuestion,
    MapQuestion,
    QueueQuestion,
    RecordQuestion,
    WaysQuestion,
)
from hpcosim_twin.cluster.observation import EndedJob, ForecastError, Observation, write_observation
from hpcosim_twin.service.asking import question_in
from support.commands import invoke
from support.twin_sources import platform_of
from support.twins import ANN_TOKEN, OPERATOR_TOKEN, StillSource, running_twin, two_users


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recorded queue of ann's and bob's jobs."""
    cluster = two_users()
    history = tuple(EndedJob("ann", 3600.0, 100.0 * at) for at in range(1, 30))
    seen = Observation(state=cluster.state(), platform=platform_of(4), settings={}, history=history)
    path = tmp_path / "queue.json"
    write_observation(seen, path)
    return path


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (("queue",), QueueQuestion()),
        (("queue", "job_id=17"), QueueQuestion(17)),
        (("ways", "-n 16 -t 2:00:00", "-n 8"), WaysQuestion(("-n 16 -t 2:00:00", "-n 8"))),
        (("ways", "--mem=4G", "user=ann"), WaysQuestion(("--mem=4G",), "ann")),
        (("advice", "-n 16"), AdviceQuestion(way="-n 16")),
        (("map", "gpu", "nodes=[1, 2]"), MapQuestion("gpu", (1, 2))),
        (("map", "hours=[1e1]"), MapQuestion(hours=(10.0,))),
        (
            ("what-if", "change={drain: node3}", "days=2"),
            ChangeQuestion(Change(drain="node3"), 2.0),
        ),
        (("record",), RecordQuestion()),
    ],
)
def test_words_are_questions(words: tuple[str, ...], question: AnyQuestion) -> None:
    """Fields by name, and other words as the first text or list."""
    assert question_in(words[0], words[1:]) == question


def test_the_help_names_every_type_of_question() -> None:
    """Also those that are added later."""
    shown = invoke("ask", "--help").out
    assert not [name for name in KINDS if f"{name}: " not in shown]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("when",), "no question 'when'; there are advice, map, queue"),
        (("queue", "17"), r"queue: expected FIELD=VALUE, got '17'"),
        (("queue", "job_id=x"), "queue: Expected `int | null`, got `str`"),
        (("queue", "job_id=[1"), "job_id: expected a YAML value, such as"),
        (("what-if", "change=&a {power: *a}"), "change: expected a YAML value, such as"),
        (("map", "hours=[.inf]"), "map: Expected `float` <= 100000.0"),
        (("map", "colour=red"), "map: Object contains unknown field `colour`; its fields: par"),
        (("ways",), "ways: Object missing required field `ways`"),
    ],
)
def test_words_that_are_no_question(words: tuple[str, ...], error: str) -> None:
    """The error says what is expected."""
    with pytest.raises(ForecastError) as raised:
        question_in(words[0], words[1:])
    assert str(raised.value).startswith(error)


def test_a_recorded_queue_answers(recorded: Path) -> None:
    """As a table, and as the same JSON for the same seed."""
    options = ("--state", recorded, "--futures", "1")
    result = invoke("ask", "queue", *options)
    assert result.status == 0
    head, *rows = result.out.splitlines()
    assert head.split()[:3] == ["JOBID", "USER", "MEDIAN"]
    assert len(rows) == 6
    one = json.loads(invoke("ask", "queue", "--job", "7", *options, "--json").out)
    assert [row["job_id"] for row in one["jobs"]] == [7]
    assert invoke("ask", "queue", *options).out == result.out


def test_options_of_sbatch_are_words(recorded: Path) -> None:
    """Though they begin with a hyphen."""
    result = invoke(
        "ask", "ways", "-n 1 -t 10", "-n 2 -t 5 -p main", "--state", recorded, "--futures", "1"
    )
    assert result.status == 0, result.err
    assert "-n 2 -t 5 -p main" in result.out


def test_a_job_that_is_impossible_is_an_error(recorded: Path) -> None:
    """It says what is asked for in vain."""
    words = ("ways", "-n 1000 -t 5", "-n 1 -t 5")
    result = invoke("ask", *words, "--state", recorded, "--futures", "1")
    assert result.error.startswith("'-n 1000 -t 5' can never start: ")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("ways", "-p nowhere"), "no partition 'nowhere'; the cluster has main"),
        (("queue", "--job", "4242"), "job 4242 does not wait"),
        (("record",), "there is no record; a twin keeps one: ask it with --twin URL"),
        (("queue", "--twin", "http://127.0.0.1:9"), "do not apply with --twin"),
    ],
)
def test_errors_are_one_line(recorded: Path, words: tuple[str, ...], error: str) -> None:
    """They name what is wrong."""
    result = invoke("ask", *words, "--state", recorded, "--futures", "1")
    assert result.status == 2
    assert error in result.err
    assert len(result.err.splitlines()) == 1 or "Usage" in result.err


def test_a_file_that_is_no_queue_is_an_error(tmp_path: Path) -> None:
    """And so is one that does not exist."""
    path = tmp_path / "torn.json"
    path.write_text('{"format": "hpcosim forecast 1", "state":')
    assert (
        "expected a file of `hpcosim ask --save`" in invoke("ask", "queue", "--state", path).error
    )


def test_a_twin_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how to start one."""
    monkeypatch.setenv("HPCOSIM_TWIN_TOKEN", OPERATOR_TOKEN)
    result = invoke("ask", "queue", "--twin", "http://127.0.0.1:9")
    assert result.status == 1
    assert result.error.endswith("Connection refused; start one with `hpcosim twin`")
    assert "expected the URL of a twin" in invoke("ask", "queue", "--twin", "file:///etc").error


@pytest.mark.slow
def test_a_twin_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the token of the environment; its errors are those of the command."""
    monkeypatch.setenv("HPCOSIM_TWIN_TOKEN", ANN_TOKEN)
    with running_twin(tmp_path, StillSource(two_users())) as twin:
        found = json.loads(invoke("ask", "queue", "--twin", twin.url, "--json").out)
        assert [row["job_id"] for row in found["jobs"]] == [6, 8, 10]
        assert "started: 0" in invoke("ask", "record", "--twin", twin.url).out
        assert invoke("ask", "queue", "--job", "7", "--twin", twin.url).error == (
            "job 7 does not wait"
        )
        monkeypatch.setenv("HPCOSIM_TWIN_TOKEN", "x" * 16)
        assert "status 401" in invoke("ask", "queue", "--twin", twin.url).error


@pytest.mark.parametrize("option", ["--save", "--earlier"])
def test_files_of_one_question_are_none_of_assistants(recorded: Path, option: str) -> None:
    """A second question would find the file, or another question would be asked."""
    found = invoke("ask", "--mcp", "--state", recorded, option, "file.json")
    assert found.status == 2
    assert "--save and --earlier are for one question" in found.err
