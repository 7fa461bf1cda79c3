"""The web service of a twin: answers, who sees what, and hostile clients."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hpcosim_twin.answers.questions import AnyQuestion
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.service.desk import DeskSettings
from hpcosim_twin.service.web import MAX_QUESTION_BYTES, decoded, openapi
from support.paths import ROOT
from support.twins import (
    ANN_TOKEN,
    BOB_TOKEN,
    OPERATOR_TOKEN,
    RunningTwin,
    StillSource,
    error_of,
    running_twin,
    two_users,
)

QUESTIONS: tuple[dict[str, Any], ...] = (
    {"ask": "queue"},
    {"ask": "queue", "job_id": 5},
    {"ask": "ways", "ways": ["-n 1 -t 10", "-n 2 -t 5"]},
    {"ask": "advice", "job_id": 5},
    {"ask": "map", "nodes": [1, 2], "hours": [1.0]},
    {"ask": "what-if", "change": {"drain": "node3"}, "days": 0.1},
    {"ask": "record"},
)


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTwin]:
    """A twin of a cluster with jobs of ann and bob; each sees the own ones."""
    with running_twin(tmp_path_factory.mktemp("twin"), StillSource(two_users())) as found:
        yield found


def test_each_type_of_question_has_an_example_here() -> None:
    """A new type of question is tested, too."""
    tags = {kind.__struct_config__.tag for kind in AnyQuestion.__args__}
    assert {each["ask"] for each in QUESTIONS} == tags


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each["ask"])
def test_questions_have_answers(twin: RunningTwin, question: dict[str, Any]) -> None:
    """All types, as JSON of the cluster's time; the record stands beside each answer."""
    reply = twin.ask(question)
    assert reply.status_code == 200, reply.text
    found = reply.json()
    assert found["at_s"] == two_users().now_s
    if question["ask"] == "record":
        assert found["started"] == 0
    else:
        assert found["record"] == "no answer of this twin could be compared with a start yet"
    assert twin.ask(question).json()["at_s"] == found["at_s"]


@pytest.mark.slow
def test_the_queue_has_ranges(twin: RunningTwin) -> None:
    """Each waiting job has its ranges, the wider ones around the narrower."""
    with twin.client() as client:
        rows = client.get("/queue").json()["jobs"]
    assert [row["job_id"] for row in rows] == [5, 6, 7, 8, 9, 10]
    for row in rows:
        (a, b), (c, d), (e, f) = (row["ranges"][each] for each in ("0.5", "0.8", "0.95"))
        assert e <= c <= a <= row["median_s"] <= b <= d <= f
        assert (row["low_s"], row["high_s"]) == (c, d)


@pytest.mark.slow
def test_a_user_sees_the_own_jobs_only(twin: RunningTwin) -> None:
    """Rows of others are left out; the own ones are as an operator sees them."""
    everybody = {row["job_id"]: row for row in twin.ask({"ask": "queue"}).json()["jobs"]}
    rows = twin.ask({"ask": "queue"}, ANN_TOKEN).json()["jobs"]
    assert [row["job_id"] for row in rows] == [6, 8, 10]
    assert all(row == everybody[row["job_id"]] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("ask", ["queue", "advice"])
def test_the_job_of_another_user_is_like_one_that_does_not_exist(
    twin: RunningTwin, ask: str
) -> None:
    """Status, headers and words are the same, apart from the number."""
    of_bob = twin.ask({"ask": ask, "job_id": 7}, ANN_TOKEN)
    unknown = twin.ask({"ask": ask, "job_id": 4242}, ANN_TOKEN)
    assert of_bob.status_code == unknown.status_code == 422
    assert error_of(of_bob) == error_of(unknown).replace("4242", "7") == "job 7 does not wait"
    assert set(of_bob.headers) == set(unknown.headers)
    assert twin.ask({"ask": ask, "job_id": 7}, BOB_TOKEN).status_code == 200


@pytest.mark.slow
def test_the_history_of_another_user_cannot_be_asked_for(twin: RunningTwin) -> None:
    """It would say what that user's jobs do."""
    question = {"ask": "ways", "ways": ["-n 1 -t 10"], "user": "bob"}
    assert error_of(twin.ask(question, ANN_TOKEN)) == "user: expected your own name, or none"
    assert twin.ask(question, BOB_TOKEN).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {OPERATOR_TOKEN}"}, 401),
        ({"authorization": f"Bearer {OPERATOR_TOKEN}", "host": "evil.example"}, 421),
        ({"authorization": f"Bearer {OPERATOR_TOKEN}", "origin": "http://evil.example"}, 403),
        ({"authorization": f"Bearer {OPERATOR_TOKEN}", "origin": "null"}, 403),
    ],
)
def test_strangers_and_other_web_sites_are_turned_away(
    twin: RunningTwin, headers: dict[str, str], status: int
) -> None:
    """Without a token, at another host name, or from the page of another site."""
    for path in ("/queue", "/metrics", "/openapi.json", "/", "/record", "/mcp"):
        assert httpx.get(f"{twin.url.rstrip('/')}{path}", headers=headers).status_code == status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"", 400, "expected a question"),
        (b"{", 400, "expected a question"),
        (b"[" * 50_000, 400, "expected a question"),
        (b'{"ask": "queue", "job_id": "5"}', 400, "expected a question"),
        (b'{"ask": "secrets"}', 400, "expected a question"),
        (b'{"ask": "queue", "sql": 1}', 400, "expected a question"),
        (b'{"ask": "ways", "ways": []}', 400, "expected a question"),
        (b'{"ask": "ways", "ways": ["' + b"x" * 2000 + b'"]}', 400, "expected a question"),
        (b'{"ask": "queue", "job_id": 99999999999999999999}', 422, "does not wait"),
        (b"\xff\xfe", 400, "expected a question"),
        (b" " * (MAX_QUESTION_BYTES + 1), 413, "expected a body of at most"),
        (b'{"ask": "ways", "ways": ["-p nowhere"]}', 422, "no partition 'nowhere'"),
        (b'{"ask": "ways", "ways": ["--wrap=id"]}', 422, "--wrap"),
        (b'{"ask": "ways", "ways": ["-n x"]}', 422, "-n"),
        (b'{"ask": "map", "partition": "nowhere"}', 422, "no partition 'nowhere'"),
        (b'{"ask": "advice"}', 422, "expected either job_id or way"),
        (b'{"ask": "what-if", "change": {}}', 422, "no change is given"),
        (b'{"ask": "what-if", "change": {"drain": "node99"}}', 422, "drain"),
        (b'{"ask": "what-if", "change": {"add": {"node0": 1000000000}}}', 400, "question"),
    ],
)
def test_bad_questions_are_errors_in_one_line(
    twin: RunningTwin, content: bytes, status: int, words: str
) -> None:
    """The twin says what it expects, and goes on."""
    with twin.client() as client:
        reply = client.post("/ask", content=content, headers={"content-type": "application/json"})
        assert reply.status_code == status, reply.text
        assert words in error_of(reply)
        assert client.get("/health").text == "ok\n"


@pytest.mark.slow
def test_a_question_runs_no_code_and_reads_no_file(twin: RunningTwin, tmp_path: Path) -> None:
    """Schedulers are names, not files; forms of other sites have another content type."""
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    for change in (
        {"scheduler": f"{trap}:policy"},
        {"power": {"name": f"{trap}:manager"}},
        {"settings": {"file": str(trap)}},
    ):
        assert twin.ask({"ask": "what-if", "change": change}).status_code == 422
    assert not (tmp_path / "sprung").exists()
    with twin.client() as client:
        assert client.post("/ask", content=b'{"ask": "queue"}').status_code == 415
        for path in ("/..%2ftokens", "/tokens", "/state.json", "/%2e%2e/tokens", "/twin.py"):
            assert client.get(path).status_code == 404


@pytest.mark.slow
def test_metrics_are_those_of_prometheus(twin: RunningTwin) -> None:
    """The parser of Prometheus reads them."""
    with twin.client() as client:
        text = client.get("/metrics").text
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    pending = ("hpcosim_twin_jobs", ("partition", "main"), ("state", "pending"))
    assert found[pending] == 6.0
    assert found["hpcosim_twin_nodes",] == 4.0
    assert found["hpcosim_twin_picture_age_seconds",] < 30.0
    assert found["hpcosim_twin_checks_total",] >= 1.0
    waits = [name for name in found if name[0] == "hpcosim_twin_expected_wait_seconds"]
    assert len(waits) == 2


@pytest.mark.slow
def test_a_twin_has_each_metric_of_the_dashboard(twin: RunningTwin) -> None:
    """Apart from those that are there once an answer could be compared."""
    board = json.loads((ROOT / "deploy" / "grafana.json").read_text())
    wanted = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"hpcosim_twin_[a-z_]+", target["expr"])
    }
    assert len(wanted) > 10
    with twin.client() as client:
        families = list(text_string_to_metric_families(client.get("/metrics").text))
    kinds = {"counter": "_total"}
    names = {family.name + kinds.get(family.type, "") for family in families}
    assert wanted - names == {"hpcosim_twin_record_median_error_seconds"}


@pytest.mark.slow
def test_many_questions_at_once_wait_or_are_turned_away(tmp_path: Path) -> None:
    """Each of 300 different questions is answered or gets 429; metrics and follower go on."""
    desk = DeskSettings(futures=1, most_waiting=8, most_of_user=8, burst=1000)
    with running_twin(tmp_path, StillSource(two_users()), desk=desk) as twin:
        with twin.client() as client, ThreadPoolExecutor(100) as pool:
            polls = _polls(client)
            questions = ({"ask": "ways", "ways": [f"-n 1 -t {at + 1}"]} for at in range(300))
            asked = [pool.submit(client.post, "/ask", json=each) for each in questions]
            assert _polls(client) >= polls
            replies = [each.result() for each in asked]
            assert _polls(client) > polls
        statuses = [reply.status_code for reply in replies]
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= 7  # and one of the twin itself
        late = next(reply for reply in replies if reply.status_code == 429)
        assert int(late.headers["retry-after"]) >= 1
        assert "ask again in" in error_of(late)
        assert twin.ask({"ask": "queue"}).status_code == 200


def _polls(client: httpx.Client) -> float:
    text = client.get("/metrics").text
    (line,) = (each for each in text.splitlines() if each.startswith("hpcosim_twin_polls_total"))
    return float(line.split()[1])


def test_the_openapi_description_is_made_of_the_questions() -> None:
    """Its schema accepts the questions of these tests and no others."""
    found = json.loads(json.dumps(openapi()))
    schema = found["paths"]["/ask"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    whole = {**schema, "components": found["components"]}
    validator = jsonschema.Draft202012Validator(whole)
    for question in QUESTIONS:
        validator.validate(question)
    assert not validator.is_valid({"ask": "ways"})
    assert not validator.is_valid({"ask": "queue", "more": 1})
    assert set(schema["discriminator"]["mapping"]) == {each["ask"] for each in QUESTIONS}


@pytest.mark.parametrize("text", ["", "null", "[]", '{"ask": null}', '{"job_id": 3}'])
def test_what_is_no_question_is_refused(text: str) -> None:
    """The error names where the questions are described."""
    with pytest.raises(ForecastError, match=r"expected a question as in /openapi\.json"):
        decoded(text)
