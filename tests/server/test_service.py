"""The service: valid and invalid messages, sessions, limits, resumption and fuzz tests."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hpcosim_client import Policy, View
from hpcosim_protocol import (
    Decisions,
    EventKind,
    Events,
    Hello,
    ServerMessage,
    SimulationEnded,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_server.service.status import Failure
from support.examples import examples

SCENARIO = """
name: small
seed: 3
platform:
  nodes:
    - count: 3
      processors: [{cores: 4, static_w: 100, dynamic_w: 5, idle_fraction: 0.5}]
    - count: 2
      processors: [{cores: 2, static_w: 30, dynamic_w: 7}, {cores: 1, static_w: 20, dynamic_w: 0}]
workload:
  synthetic: {model: poisson, jobs: 40, mean_interarrival_s: 90, cores: [1, 20], run_s: [10, 2000]}
scheduler: {name: easy}
"""
# Three jobs submitted together on four cores: 1 and 2 fit, 3 waits.
THREE_JOBS = """
name: three
platform: {nodes: [{count: 2, processors: [{cores: 2, static_w: 0, dynamic_w: 0}]}]}
workload: {json: three.jsonl}
"""
JOBS = "".join(
    json.dumps({"job_id": job_id, "submit_s": 0, "cores": cores, "run_s": run_s}) + "\n"
    for job_id, cores, run_s in ((1, 2, 10.0), (2, 1, 20.0), (3, 2, 30.0))
)
FILES = ("jobs.csv", "metrics.json", "nodes.csv", "run.json", "schedule.csv")
Map = dict[str, Any]


class Desk:
    """A service and helpers to send it messages."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "three.jsonl").write_text(JOBS)
        paths = [folder / "small.yaml", folder / "three.yaml"]
        for path, text in zip(paths, (SCENARIO, THREE_JOBS), strict=True):
            path.write_text(text)
        self.opened: list[Opened] = []
        self.opening_takes: Callable[[], None] = lambda: None
        limits = limits or Limits(jobs=1000)
        self._library = Library(paths, None, limits.jobs)
        self.out = folder / "out"
        self.service = Service(self._open, limits, self.out, clock=clock)

    def _open(self, hello: Hello) -> Opened:
        self.opening_takes()
        self.opened.append(self._library.open(hello))
        return self.opened[-1]

    def send(self, data: bytes) -> Map:
        """Return the reply to bytes, decoded by another msgpack library than the server's."""
        answer = self.service.answer(data)
        decode_server_message(answer)
        message: Map = msgpack.unpackb(answer)
        return message

    def ask(self, kind: str, **fields: Any) -> Map:
        """Return the reply to a message."""
        return self.send(msgpack.packb({"type": kind, **fields}))

    def hello(self, **fields: Any) -> str:
        """Open a session and return its name."""
        answer = self.ask("hello", **{"versions": [1], "client": "tester", **fields})
        assert answer["type"] == "welcome", answer
        return str(answer["session"])

    def decide(self, session: str, seq: int, *decisions: Map, **fields: Any) -> Map:
        """Send decisions."""
        return self.ask("decisions", session=session, seq=seq, decisions=list(decisions), **fields)

    def results(self, session: str) -> dict[str, bytes]:
        """Return the result files of a closed session by name."""
        self.service.tidy()
        self.service.tidy()  # the first call closes idle sessions, the second writes their results
        (folder,) = self.out.glob(f"*-{session[:8]}")
        return {file.name: file.read_bytes() for file in folder.iterdir()}


class Scheduler:
    """A correct scheduler, advanced step by step."""

    def __init__(self, desk: Desk, policy: str = "easy", session: str = "", **hello: Any) -> None:
        self._desk = desk
        self._policy: Policy = make_policy(policy) if policy else do_nothing
        fields = {"versions": [1], "client": policy, "session": session, **hello}
        welcome = self._send(Hello(**fields))
        assert isinstance(welcome, Welcome), welcome
        self.session = welcome.session
        self.seq = welcome.seq
        self.view = View(welcome.platform)
        self.view.apply(welcome.now_s, welcome.snapshot)
        if welcome.snapshot:
            self._policy(self.view)
        self.ended: SimulationEnded | None = None

    def step(self) -> None:
        """Decide once."""
        self.seq += 1
        view = self.view
        answer = self._send(Decisions(session=self.session, seq=self.seq, decisions=view.decisions))
        if isinstance(answer, SimulationEnded):
            self.ended = answer
            return
        assert isinstance(answer, Events), answer
        view.apply(answer.now_s, answer.events)
        self._policy(view)

    def finish(self) -> dict[str, bytes]:
        """Advance to the end and return the result files."""
        while self.ended is None:
            self.step()
        return self._desk.results(self.session)

    def _send(self, message: Hello | Decisions) -> ServerMessage:
        return decode_server_message(self._desk.service.answer(encode(message)))


def do_nothing(view: View) -> None:
    """Decide nothing."""


def seen(view: View) -> tuple[object, ...]:
    """Return the current state that a view shows."""
    return (
        view.now_s,
        view.no_more_jobs,
        [(job.job_id, job.submit_s, job.cores, job.requested_s) for job in view.queue.values()],
        {
            job.job_id: (
                job.start_s,
                job.allocation and (job.allocation.nodes.tolist(), list(job.allocation.tasks)),
            )
            for job in view.running.values()
        },
        view.nodes.free.tolist(),
        view.nodes.free_cores,
    )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A service with the scenarios `small` (40 jobs) and `three` (3 jobs)."""
    return Desk(tmp_path / "desk")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of `small` under easy on a service without other sessions."""
    results = Scheduler(Desk(tmp_path_factory.mktemp("undisturbed"))).finish()
    assert sorted(results) == sorted(FILES)
    return results


def valid(**changed: Any) -> bytes:
    """Return a valid message of decisions without a session, with some fields changed."""
    message = {"type": "decisions", "session": "0" * 16, "seq": 1, "decisions": []}
    return bytes(msgpack.packb(message | changed))


def deciding(**decision: Any) -> bytes:
    """Return a message of one decision."""
    return valid(decisions=[decision])


BAD_MESSAGES = {
    "nothing": b"",
    "a byte of no meaning": b"\xc1",
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "json": b'{"type": "hello", "versions": [1]}',
    "trailing bytes": valid() + b"\x00",
    "two messages": valid() + valid(),
    "nil": msgpack.packb(None),
    "a list": msgpack.packb(["hello", [1]]),
    "a map without a type": msgpack.packb({"versions": [1]}),
    "an unknown type": msgpack.packb({"type": "welcome"}),
    "a type that is a number": msgpack.packb({"type": 1}),
    "keys that are numbers": msgpack.packb({1: "hello"}),
    "bytes for text": valid(session=b"0" * 16),
    "text that is not utf-8": valid(session="abc").replace(b"abc", b"\xff\xfe\xfd"),
    "an extension type": valid(session=msgpack.ExtType(5, b"x")),
    "half a list": b"\x81\xa9decisions\xdd\xff\xff\xff\xff",
    "half a text": b"\x81\xa4type\xdb\xff\xff\xff\xff",
    "a map of four billion": b"\xdf\xff\xff\xff\xff",
    "nested too deep": b"\x82\xa4type\xa5hello\xa1x" + b"\x91" * 100_000 + b"\xc0",
    "no session": msgpack.packb({"type": "decisions", "seq": 1}),
    "no seq": msgpack.packb({"type": "decisions", "session": ""}),
    "seq zero": valid(seq=0),
    "seq below zero": valid(seq=-1),
    "seq a float": valid(seq=1.5),
    "seq a truth": valid(seq=True),
    "seq too large": valid(seq=2**63),
    "a session's name too long": valid(session="x" * 201),
    "decisions a map": valid(decisions={}),
    "a decision that is none": valid(decisions=[7]),
    "an unknown decision": deciding(type="format_disk"),
    "an event for a decision": deciding(type="job_started", job_id=1),
    "a job below zero": deciding(type="kill_job", job_id=-1),
    "a job too large": deciding(type="kill_job", job_id=2**63),
    "a job that is text": deciding(type="kill_job", job_id="1"),
    "nodes that are one": deciding(type="allocate_job", job_id=1, nodes=0),
    "nodes that are floats": deciding(type="allocate_job", job_id=1, nodes=[0.5]),
    "no nodes": deciding(type="allocate_job", job_id=1),
    "an alarm at a text": deciding(type="set_alarm", at_s="noon"),
    "an unknown power state": deciding(type="set_node_power", node=0, state="on fire"),
    "an unknown placement": deciding(
        type="submit_job", job_id=1, cores=1, run_s=1.0, placement="anywhere"
    ),
    "an unknown event kind": valid(wake_on=["boredom"]),
    "too many event kinds": valid(wake_on=["alarm"] * 101),
    "time running backwards": valid(elapsed_s=-1.0),
    "versions that are text": msgpack.packb({"type": "hello", "versions": "1"}),
    "too many overrides": msgpack.packb(
        {"type": "hello", "versions": [1], "overrides": {str(i): i for i in range(101)}}
    ),
    "an override that is a list": msgpack.packb(
        {"type": "hello", "versions": [1], "overrides": {"platform.nodes": [1]}}
    ),
    "a seed below zero": msgpack.packb({"type": "hello", "versions": [1], "seed": -1}),
    "a client's name too long": msgpack.packb(
        {"type": "hello", "versions": [1], "client": "x" * 201}
    ),
}


@pytest.mark.parametrize("data", BAD_MESSAGES.values(), ids=BAD_MESSAGES.keys())
def test_an_invalid_message_is_an_error_and_affects_no_session(
    desk: Desk, undisturbed: dict[str, bytes], data: bytes
) -> None:
    """An invalid message gets an error; another session has the same results as without it."""
    good = Scheduler(desk)
    while good.ended is None:
        answer = desk.send(data)
        assert (answer["type"], answer["code"]) == ("error", "invalid_message")
        assert not answer["fatal"]
        assert answer["message"]
        good.step()
    assert good.finish() == undisturbed


def test_a_truncated_message_is_an_error_and_changes_nothing(
    desk: Desk, undisturbed: dict[str, bytes]
) -> None:
    """A truncated message gets an error and leaves the session and its seq unchanged."""
    good = Scheduler(desk)
    whole = encode(Decisions(session=good.session, seq=1))
    for length in range(len(whole)):
        assert desk.send(whole[:length])["code"] == "invalid_message"
    assert good.finish() == undisturbed


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (deciding(type="kill_job", job_id=-1), "$.decisions[0].job_id"),
        (valid(seq="1"), "$.seq"),
        (valid(decisions=[{"type": "cancel_alarm"}, {"type": "x"}]), "$.decisions[1].type"),
    ],
)
def test_an_error_names_the_invalid_field(desk: Desk, data: bytes, where: str) -> None:
    """The error reply contains the path of the invalid field."""
    assert desk.send(data)["where"] == where


def test_a_field_of_a_later_version_is_ignored(desk: Desk) -> None:
    """The server ignores an unknown field of a message."""
    answer = desk.ask("hello", versions=[1], client="tester", later={"a": [1, 2]})
    assert answer["type"] == "welcome"


def test_a_message_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    """The server accepts a message of the maximum size and rejects one byte more."""
    desk = Desk(tmp_path / "desk", Limits(message_bytes=2000))
    hello = {"type": "hello", "versions": [1], "padding": b"x" * 1000}
    missing = 2000 - len(msgpack.packb(hello))
    exact = msgpack.packb(hello | {"padding": b"x" * (1000 + missing)})
    assert len(exact) == 2000
    assert desk.send(exact)["type"] == "welcome"
    answer = desk.send(exact + b"x")
    assert answer["code"] == "message_too_large"
    assert "2000" in answer["message"]
    assert "2001" in answer["message"]
    assert "(limits.max_message_bytes)" in answer["message"]


# Seq


def test_the_same_seq_again_gets_the_same_bytes_again(
    desk: Desk, undisturbed: dict[str, bytes]
) -> None:
    """A request sent three times is carried out once."""
    good = Scheduler(desk)
    while good.ended is None:
        request = encode(
            Decisions(session=good.session, seq=good.seq + 1, decisions=good.view.decisions)
        )
        first = desk.service.answer(request)
        assert desk.service.answer(request) == first
        good.step()
    assert good.finish() == undisturbed


def test_other_decisions_under_the_last_seq_change_nothing(
    desk: Desk, undisturbed: dict[str, bytes]
) -> None:
    """Other decisions under a seq that has a reply are ignored."""
    good = Scheduler(desk)
    while good.ended is None:
        good.step()
        everything = [{"type": "kill_job", "job_id": job_id} for job_id in range(1, 41)]
        desk.decide(good.session, good.seq, *everything)
    assert good.finish() == undisturbed


@pytest.mark.parametrize("offset", [-2, -1, 2, 3, 2**40])
def test_a_seq_out_of_order_is_an_error_and_changes_nothing(
    desk: Desk, undisturbed: dict[str, bytes], offset: int
) -> None:
    """A seq out of order gets an error that contains the expected seq."""
    good = Scheduler(desk)
    for _ in range(5):
        good.step()
    answer = desk.decide(good.session, good.seq + offset, {"type": "kill_job", "job_id": 1})
    assert (answer["type"], answer["code"]) == ("error", "out_of_order")
    assert answer["seq"] == good.seq + offset
    assert f"expected {good.seq + 1}," in answer["message"]
    assert not answer["fatal"]
    assert good.finish() == undisturbed


def test_the_first_seq_is_one(desk: Desk) -> None:
    """The first seq of a session is 1; seq 2 gets an error."""
    session = desk.hello()
    assert desk.decide(session, 2)["code"] == "out_of_order"
    assert desk.decide(session, 1)["type"] == "events"


# Limits


def test_too_many_decisions_are_an_error(tmp_path: Path) -> None:
    """A message with too many decisions gets an error and leaves state and seq unchanged."""
    desk = Desk(tmp_path / "desk", Limits(decisions=2))
    session = desk.hello(scenario="three")
    desk.decide(session, 1)
    start = {"type": "allocate_job", "job_id": 1, "nodes": [0]}
    answer = desk.decide(session, 2, start, start, start)
    assert answer["code"] == "too_many_decisions"
    assert "(limits.max_decisions)" in answer["message"]
    assert not answer["fatal"]
    answer = desk.decide(session, 2, start)
    assert [event["type"] for event in answer["events"]] == ["job_started", "job_completed"]


def test_too_many_sessions_are_an_error_until_one_ends(tmp_path: Path) -> None:
    """A session above the limit gets an error; after another session ends, it opens."""
    desk = Desk(tmp_path / "desk", Limits(sessions=2))
    first, _ = desk.hello(), desk.hello()
    assert desk.ask("hello", versions=[1])["code"] == "too_many_sessions"
    desk.ask("bye", session=first)
    desk.hello()
    assert desk.ask("hello", versions=[1])["code"] == "too_many_sessions"


def test_a_full_server_replies_to_a_repeated_hello(tmp_path: Path) -> None:
    """A repeated hello gets its welcome even if the server is at its session limit."""
    desk = Desk(tmp_path / "desk", Limits(sessions=1))
    session = desk.hello(nonce="once")
    assert desk.hello(nonce="once") == session
    assert desk.hello(session=session) == session


# Hello


def test_a_hello_sent_twice_opens_one_session(desk: Desk) -> None:
    """A repeated hello gets the same bytes, also after the session has advanced."""
    hello = encode(Hello(versions=[1], nonce="once"))
    first = desk.service.answer(hello)
    assert desk.service.answer(hello) == first
    assert len(desk.opened) == 1


def test_hellos_without_or_with_other_nonces_open_sessions_of_their_own(desk: Desk) -> None:
    """Hellos without a nonce or with different nonces open different sessions."""
    names = {desk.hello(nonce=nonce) for nonce in ("a", "b", "", "")}
    assert len(names) == 4


def test_a_welcome_contains_version_platform_and_limits(desk: Desk) -> None:
    """The welcome contains the version, the platform and the limits."""
    answer = desk.ask("hello", versions=[7, 1], scenario="three")
    assert answer["version"] == 1
    assert (answer["scenario"], answer["seq"], answer["snapshot"]) == ("three", 0, [])
    assert [group["count"] for group in answer["platform"]["nodes"]] == [2]
    assert answer["options"]["max_decisions"] == 100_000
    assert answer["options"]["max_message_bytes"] == 16 * 2**20
    assert not answer["options"]["dynamic_jobs"]


def test_the_name_of_a_session_cannot_be_guessed(desk: Desk) -> None:
    """Session names are long and distinct."""
    names = {desk.hello() for _ in range(20)}
    assert len(names) == 20
    assert min(map(len, names)) >= 16


@pytest.mark.parametrize("versions", [[], [2], [0, 2, 3], list(range(2, 100))])
def test_an_unsupported_version_is_an_error_with_the_supported_one(
    desk: Desk, versions: list[int]
) -> None:
    """A hello with unsupported versions gets an error that names the supported version."""
    for fields in ({}, {"nonce": 5, "scenario": {"later": "a map"}}):
        answer = desk.ask("hello", versions=versions, **fields)
        assert answer["code"] == "unsupported_version"
        assert "this server supports 1" in answer["message"]
        assert all(str(version) in answer["message"] for version in versions)


def test_an_unknown_scenario_is_an_error_with_the_available_ones(desk: Desk) -> None:
    """A hello for an unknown scenario gets an error that lists the available ones."""
    answer = desk.ask("hello", versions=[1], scenario="smal")
    assert answer["code"] == "unknown_scenario"
    assert "small, three" in answer["message"]


def test_a_hello_without_a_scenario_gets_the_first(desk: Desk) -> None:
    """A hello without a scenario gets the first scenario."""
    assert desk.ask("hello", versions=[1])["scenario"] == "small"


# Policy


def test_policy_in_the_hello_is_recorded(desk: Desk) -> None:
    """run.json has the policy of the hello that opened the session, not of one that resumes it."""
    policy = {"name": "easy", "settings": {"window_s": 60.0}}
    session = desk.hello(policy=policy)
    desk.ask("hello", versions=[1], session=session, policy={"name": "fcfs"})
    desk.decide(session, 1)
    desk.ask("bye", session=session)
    assert json.loads(desk.results(session)["run.json"])["policy"] == policy


# Overrides


def test_a_seed_in_the_hello_counts(desk: Desk, undisturbed: dict[str, bytes]) -> None:
    """The seed of the hello changes the jobs and is recorded in run.json."""
    results = Scheduler(desk, seed=4).finish()
    assert json.loads(results["run.json"])["seed"] == 4
    assert results["jobs.csv"] != undisturbed["jobs.csv"]


def test_an_override_counts_for_its_session_only(desk: Desk, undisturbed: dict[str, bytes]) -> None:
    """An override affects the session of its hello only."""
    changed = Scheduler(desk, overrides={"workload.load": 2.0, "kill_at_walltime": True})
    plain = Scheduler(desk)
    results = changed.finish()
    assert results["jobs.csv"] != undisturbed["jobs.csv"]
    assert plain.finish() == undisturbed


def test_an_override_shows_in_the_options(desk: Desk) -> None:
    """The welcome contains an option that the hello overrides."""
    changes = {"kill_at_walltime": True, "dynamic_jobs": True}
    options = desk.ask("hello", versions=[1], overrides=changes)["options"]
    assert options["kill_at_walltime"]
    assert options["dynamic_jobs"]


@pytest.mark.parametrize(
    "overrides",
    [
        {"workload.swf": "/etc/passwd"},
        {"workload.json": "/etc/passwd"},
        {"workload.trace": "nasa-ipsc"},
        {"name": "../../up"},
    ],
)
def test_a_client_may_not_name_files_of_the_server(desk: Desk, overrides: Map) -> None:
    """An override of a file path gets an error and opens no session."""
    answer = desk.ask("hello", versions=[1], overrides=overrides)
    assert answer["code"] == "invalid_scenario"
    assert "only the server can set it" in answer["message"]
    assert not desk.opened


@pytest.mark.parametrize(
    "overrides",
    [
        {"": 1},
        {".": 1},
        {"workload..": 1},
        {"seed.x": 1},
        {"platform.nodes": 1},
        {"platform.nodes.0.count": 1},
        {"workload.inline.0.cores": 1},
        {"platform.nodes[0].count": 1},
        {"workload": "none"},
        {"workload": 7},
        {"workload.lod": 1.0},
        {"workload.load": "much"},
        {"workload.load": 0},
        {"workload.load": -1.0},
        {"workload.load": math.nan},
        {"workload.load": True},
        {"workload.synthetic": 1},
        {"workload.synthetic.model": "lublin"},
        {"workload.synthetic.jobs": 0},
        {"workload.synthetic.jobs": 1001},
        {"workload.synthetic.jobs": 2**60},
        {"workload.synthetic.mean_interarrival_s": math.inf},
        {"workload.synthetic.overestimate": math.inf},
        {"workload.placement": "anywhere"},
        {"scheduler": 7},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": 2**63},
        {"scheduler.name": ""},
    ],
    ids=repr,
)
def test_an_invalid_override_is_an_error(desk: Desk, overrides: Map) -> None:
    """An invalid override gets an error and opens no session."""
    answer = desk.ask("hello", versions=[1], overrides=overrides)
    assert (answer["type"], answer["code"]) == ("error", "invalid_scenario")
    assert not desk.opened


@pytest.mark.parametrize(
    "overrides",
    [
        {"workload.load": 5e-324},
        {"workload.load": math.inf},
        {"workload.synthetic.mean_interarrival_s": 1e308},
        {"workload.reference_clock_ghz": math.inf},
        {"workload.reference_clock_ghz": 1e308},
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # in a server, they go to the log
def test_an_extreme_override_causes_no_internal_error(desk: Desk, overrides: Map) -> None:
    """A workload with extreme numbers never causes an internal error."""
    answer = desk.ask("hello", versions=[1], overrides=overrides)
    session = str(answer.get("session"))
    for seq in range(1, 200):
        if answer["type"] not in ("welcome", "events"):
            break
        answer = desk.decide(session, seq)
    assert answer["type"] in ("error", "simulation_ended")
    assert answer.get("code") in (None, "invalid_scenario", "simulation_stuck")


@pytest.mark.parametrize("cores", [2**63, 2**64 - 1])
def test_a_core_limit_beyond_int64_is_an_error(desk: Desk, cores: int) -> None:
    """A core limit beyond NumPy's integers is an invalid scenario, not an internal error."""
    answer = desk.ask("hello", versions=[1], overrides={"workload.max_cores": cores})
    assert answer["type"] == "welcome" or answer["code"] == "invalid_scenario"


# Other sessions and closed sessions


@pytest.mark.parametrize("session", ["", "x", "0" * 16, "../../etc", "\x00", "é" * 200])
def test_an_unknown_session_is_an_error(
    desk: Desk, undisturbed: dict[str, bytes], session: str
) -> None:
    """A message to an unknown session gets an error and has no effect on open sessions.

    The error has the label of the session, which is no secret.
    """
    good = Scheduler(desk)
    unknown = desk.decide(session, 1)
    assert unknown["code"] == "unknown_session"
    assert unknown["message"].startswith(f"unknown session {session[:8]!r};")
    assert desk.ask("bye", session=session)["code"] == "unknown_session"
    if session:
        answer = desk.ask("hello", versions=[1], session=session)
        assert answer["code"] == "unknown_session"
    assert good.finish() == undisturbed


def test_a_decision_for_a_job_of_another_session_is_rejected(
    desk: Desk, undisturbed: dict[str, bytes]
) -> None:
    """Sessions with equal job ids have independent jobs."""
    good = Scheduler(desk)
    vandal = desk.hello()
    answer = desk.decide(vandal, 1)
    for seq in itertools.count(2):
        came = [event["job_id"] for event in answer["events"] if event["type"] == "job_submitted"]
        answer = desk.decide(vandal, seq, *({"type": "reject_job", "job_id": i} for i in came))
        if answer["type"] == "simulation_ended":
            break
        if good.ended is None:
            good.step()
    assert good.finish() == undisturbed
    metrics = json.loads(desk.results(vandal)["metrics.json"])
    assert metrics["jobs_rejected"] == 40


def test_bye_ends_a_session_and_writes_what_was_recorded(desk: Desk) -> None:
    """A bye before the end gets a goodbye and writes incomplete results."""
    good = Scheduler(desk)
    for _ in range(10):
        good.step()
    assert desk.ask("bye", session=good.session) == {"type": "goodbye"}
    results = desk.results(good.session)
    run = json.loads(results["run.json"])
    assert (run["complete"], run["ended_because"]) == (False, "the client left")
    assert sorted(results) == sorted(FILES)
    assert desk.service.failures == [Failure("client_left", "the client left")]


def test_a_message_to_a_closed_session_is_an_error_with_the_reason(desk: Desk) -> None:
    """Decisions and a resumption after a bye get an error with the reason of the end."""
    session = desk.hello()
    desk.ask("bye", session=session)
    answers = [desk.decide(session, 1), desk.ask("hello", versions=[1], session=session)]
    for answer in answers:
        assert answer["code"] == "unknown_session"
        assert f"the session '{session[:8]}' is closed: the client left" in answer["message"]


def test_a_bye_sent_twice_gets_a_goodbye_twice(desk: Desk) -> None:
    """A repeated bye gets a goodbye again."""
    session = desk.hello()
    assert desk.ask("bye", session=session)["type"] == "goodbye"
    assert desk.ask("bye", session=session)["type"] == "goodbye"


def test_the_last_reply_is_repeated_after_the_end(desk: Desk) -> None:
    """The last request, repeated after the end of the session, gets the same bytes."""
    good = Scheduler(desk)
    good.finish()
    request = encode(Decisions(session=good.session, seq=good.seq))
    assert decode_server_message(desk.service.answer(request)) == good.ended
    assert desk.service.answer(request) == desk.service.answer(request)
    for seq in (good.seq - 1, good.seq + 1):
        assert desk.decide(good.session, seq)["code"] == "unknown_session"


def test_the_metrics_on_the_wire_are_those_in_the_results(desk: Desk) -> None:
    """`simulation_ended` and `metrics.json` contain the same metrics, and the run is complete."""
    good = Scheduler(desk)
    results = good.finish()
    assert good.ended is not None
    assert good.ended.metrics == json.loads(results["metrics.json"])
    assert good.ended.metrics["jobs"] == 40
    run = json.loads(results["run.json"])
    assert (run["complete"], run["ended_because"]) == (True, "every job is over")
    assert desk.service.failures == []


def test_the_metrics_of_the_longest_run_are_finite(tmp_path: Path) -> None:
    """The longest possible run has finite metrics, also in the result files."""
    desk = Desk(tmp_path, Limits(jobs=1000, elapsed_s=1e15))
    session = desk.hello()
    desk.decide(session, 1)
    desk.decide(session, 2, elapsed_s=1e15)
    rejections = [{"type": "reject_job", "job_id": job_id} for job_id in range(1, 41)]
    desk.decide(session, 3, *rejections)
    answer = desk.decide(session, 4)
    assert answer["type"] == "simulation_ended"
    assert all(math.isfinite(value) for value in answer["metrics"].values())
    assert answer["metrics"] == json.loads(desk.results(session)["metrics.json"])


class Clock:
    """Replacement of the service's clock."""

    now_s = 1000.0

    def __call__(self) -> float:
        """Return the time, s."""
        return self.now_s

    def pass_s(self, duration_s: float, service: Service) -> None:
        """Let time pass for a service that runs, and is called at least every second."""
        until_s = self.now_s + duration_s
        while self.now_s < until_s:
            self.now_s = min(until_s, self.now_s + 1.0)
            service.tidy()


@pytest.fixture
def clock() -> Clock:
    """A clock for the service that the test sets."""
    return Clock()


def test_an_idle_session_is_closed_with_its_results(tmp_path: Path, clock: Clock) -> None:
    """A session without messages is closed after the timeout, and its results are written."""
    desk = Desk(tmp_path / "desk", Limits(idle_s=60.0), clock)
    silent = Scheduler(desk)
    silent.step()
    clock.pass_s(61.0, desk.service)
    results = desk.results(silent.session)
    run = json.loads(results["run.json"])
    assert not run["complete"]
    assert run["ended_because"] == "no message from the client for more than 60 s"
    assert sorted(results) == sorted(FILES)
    answer = desk.decide(silent.session, 2)
    assert answer["code"] == "unknown_session"
    assert "no message from the client" in answer["message"]


def test_a_session_with_messages_stays_open(
    tmp_path: Path, clock: Clock, undisturbed: dict[str, bytes]
) -> None:
    """Decisions and resumptions reset the idle timeout of their own session only."""
    desk = Desk(tmp_path / "desk", Limits(idle_s=60.0), clock)
    good, silent, returning = Scheduler(desk), desk.hello(), desk.hello()
    while good.ended is None:
        clock.pass_s(59.0, desk.service)
        good.step()
        desk.service.tidy()
        desk.hello(session=returning)
    assert good.finish() == undisturbed
    assert desk.decide(silent, 1)["code"] == "unknown_session"


def test_time_in_which_the_server_is_busy_is_not_idle_time(tmp_path: Path, clock: Clock) -> None:
    """Time in which the server is busy does not count towards the idle timeout."""
    desk = Desk(tmp_path / "desk", Limits(idle_s=60.0), clock)
    patient = desk.hello()
    desk.opening_takes = lambda: setattr(clock, "now_s", clock.now_s + 600.0)
    desk.hello()
    desk.service.tidy()
    assert desk.decide(patient, 1)["type"] == "events"


def test_time_in_which_the_server_is_stopped_is_not_idle_time(tmp_path: Path, clock: Clock) -> None:
    """A server that was stopped for longer than the idle timeout closes no session at once."""
    desk = Desk(tmp_path / "desk", Limits(idle_s=60.0), clock)
    first, second = desk.hello(), desk.hello()
    clock.now_s += 3600.0  # SIGSTOP and SIGCONT; the messages of both wait
    assert desk.decide(first, 1)["type"] == "events"
    desk.service.tidy()
    assert desk.decide(second, 1)["type"] == "events"
    clock.pass_s(61.0, desk.service)
    assert desk.decide(first, 2)["code"] == "unknown_session"


def test_a_stuck_simulation_is_an_error_and_writes_results(desk: Desk) -> None:
    """A scheduler that starts no job gets a fatal error, also for a repeated request."""
    session = desk.hello(scenario="three")
    desk.decide(session, 1)
    request = encode(Decisions(session=session, seq=2))
    first = desk.service.answer(request)
    answer: Map = msgpack.unpackb(first)
    assert (answer["code"], answer["fatal"], answer["seq"]) == ("simulation_stuck", True, 2)
    assert "3 jobs wait (1, 2, 3), the first since 0.0 s" in answer["message"]
    assert desk.service.answer(request) == first
    run = json.loads(desk.results(session)["run.json"])
    assert (run["complete"], run["ended_because"]) == (False, answer["message"])
    assert desk.service.failures == [Failure("simulation_stuck", answer["message"])]


def test_a_scheduler_with_only_rejected_decisions_is_stuck(desk: Desk) -> None:
    """Requests that contain only rejected decisions at one instant end as a stuck simulation."""
    session = desk.hello(scenario="three")
    desk.decide(session, 1)
    answer: Map = {}
    for seq in range(2, 1100):
        answer = desk.decide(session, seq, {"type": "kill_job", "job_id": 9})
        if answer["type"] != "events":
            break
    assert answer["code"] == "simulation_stuck"
    assert "rejected" in answer["message"]


def test_a_service_that_closes_writes_every_open_session(desk: Desk) -> None:
    """`close` ends all open sessions and writes their results."""
    sessions = [desk.hello(), desk.hello(scenario="three")]
    desk.service.close("it was time")
    for session in sessions:
        run = json.loads(desk.results(session)["run.json"])
        assert run["ended_because"] == "it was time"


@pytest.mark.parametrize(
    "client", ["../../up", "/etc/cron.d/x", "a\x00b", "con\nsole", "é" * 200, "", ".", "..", "-rf"]
)
def test_the_name_of_a_client_is_no_path(desk: Desk, client: str) -> None:
    """Any client name gives one results folder inside the output folder."""
    session = desk.hello(client=client)
    desk.decide(session, 1)
    desk.ask("bye", session=session)
    results = desk.results(session)
    assert json.loads(results["run.json"])["scheduler"] == client
    assert [path.is_dir() for path in desk.out.iterdir()] == [True]
    beside = {path.name for path in desk.out.parent.iterdir()}
    assert beside == {"out", "small.yaml", "three.yaml", "three.jsonl"}


def test_results_that_cannot_be_written_are_a_failure(
    desk: Desk, undisturbed: dict[str, bytes]
) -> None:
    """Results that cannot be written are reported as a failure; other sessions continue."""
    desk.out.write_text("in the way")
    lost = desk.hello()
    desk.decide(lost, 1)
    good = Scheduler(desk)
    desk.ask("bye", session=lost)
    desk.service.tidy()
    assert "results_not_written" in [failure.cause for failure in desk.service.failures]
    desk.out.unlink()
    assert good.finish() == undisturbed


def test_an_exception_in_one_session_does_not_affect_another(
    desk: Desk, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception in a session closes it with its results and gets an internal error."""
    good = Scheduler(desk)
    broken = desk.hello()

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(desk.opened[1].simulation, "advance", fail)
    answer = desk.decide(broken, 1)
    assert (answer["code"], answer["fatal"]) == ("internal_error", True)
    assert "of all things" not in answer["message"]
    assert "ZeroDivisionError" in json.loads(desk.results(broken)["run.json"])["ended_because"]
    assert desk.decide(broken, 1)["code"] == "unknown_session"
    assert good.finish() == undisturbed


# Resumption


@pytest.mark.parametrize("policy", ["fcfs", "easy", "sjf"])
@pytest.mark.parametrize("every", [1, 7])
def test_a_resumed_session_has_the_same_results(
    desk: Desk, tmp_path: Path, policy: str, every: int
) -> None:
    """A resumed session continues from the same state and has the same results."""
    alone = Scheduler(Desk(tmp_path / "alone"), policy).finish()
    before = Scheduler(desk, policy)
    while before.ended is None:
        for _ in range(every):
            if before.ended is None:
                before.step()
        if before.ended is None:
            after = Scheduler(desk, policy, session=before.session)
            asked = list(before.view.decisions)
            assert after.view.decisions == asked
            assert seen(after.view) == seen(before.view)
            before = after
    assert before.finish() == alone


def test_a_session_resumed_before_the_first_decision_is_at_its_start(
    desk: Desk,
) -> None:
    """A session resumed before its first decision is at its start."""
    session = desk.hello()
    answer = desk.ask("hello", versions=[1], session=session)
    assert (answer["session"], answer["seq"]) == (session, 0)
    assert [event["type"] for event in answer["snapshot"]] == ["simulation_began"]
    assert Scheduler(desk, session=session).finish()


def test_a_snapshot_contains_the_effects_of_a_lost_reply(
    desk: Desk, undisturbed: dict[str, bytes]
) -> None:
    """The snapshot contains the effects of a request whose reply was lost."""
    good = Scheduler(desk)
    for _ in range(12):
        good.step()
    request = Decisions(session=good.session, seq=13, decisions=good.view.decisions)
    desk.service.answer(encode(request))  # the client ends before the reply arrives
    back = Scheduler(desk, session=good.session)
    assert back.seq == 13
    assert back.finish() == undisturbed


# Invalid decisions

START_1 = {"type": "allocate_job", "job_id": 1, "nodes": [0]}
START_2 = {"type": "allocate_job", "job_id": 2, "nodes": [1]}


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        ({"type": "allocate_job", "job_id": 2**63 - 1, "nodes": [0]}, "unknown_job"),
        ({"type": "allocate_job", "job_id": 1, "nodes": [0]}, "job_not_waiting"),
        ({"type": "allocate_job", "job_id": 3, "nodes": []}, "bad_allocation"),
        ({"type": "allocate_job", "job_id": 3, "nodes": [2**64 - 1]}, "unknown_node"),
        ({"type": "allocate_job", "job_id": 3, "nodes": [-(2**63)]}, "unknown_node"),
        ({"type": "allocate_job", "job_id": 3, "nodes": [0]}, "node_busy"),
        (
            {"type": "allocate_job", "job_id": 3, "nodes": [1], "cores": [2**64 - 1]},
            "bad_allocation",
        ),
        ({"type": "kill_job", "job_id": 3}, "job_not_running"),
        ({"type": "set_node_power", "node": 0, "state": "sleeping"}, "not_allowed"),
        ({"type": "set_node_power", "node": 2**63 - 1, "state": "on"}, "unknown_node"),
        ({"type": "set_alarm", "at_s": -0.0}, "bad_time"),
        ({"type": "set_alarm", "at_s": math.nan}, "bad_time"),
        ({"type": "set_alarm", "at_s": -math.inf}, "bad_time"),
        ({"type": "cancel_alarm", "alarm_id": 5}, "unknown_alarm"),
        ({"type": "submit_job", "job_id": 9, "cores": 1, "run_s": 1.0}, "not_allowed"),
    ],
    ids=str,
)
def test_an_invalid_decision_is_rejected_and_the_others_are_carried_out(
    desk: Desk, decision: Map, code: str
) -> None:
    """An invalid decision is rejected with index, code and reason; the others are carried out."""
    session = desk.hello(scenario="three")
    desk.decide(session, 1)
    answer = desk.decide(session, 2, START_1, START_2, decision, {"type": "set_alarm", "at_s": 5.0})
    assert answer["type"] == "events"
    assert answer["now_s"] == 0.0
    started, rejected = answer["events"][:2], answer["events"][2:]
    assert [event["type"] for event in started] == ["job_started"] * 2
    assert [event["type"] for event in rejected] == ["decision_rejected"]
    assert (rejected[0]["seq"], rejected[0]["index"]) == (2, 2)
    assert (rejected[0]["decision"], rejected[0]["code"]) == (decision["type"], code)
    assert rejected[0]["job_id"] == decision.get("job_id")
    assert rejected[0]["reason"]
    answer = desk.decide(session, 3)
    assert (answer["now_s"], answer["events"][0]["type"]) == (5.0, "alarm")
    answer = desk.decide(session, 4)
    assert (answer["now_s"], answer["events"][0]["job_id"]) == (10.0, 1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"cores": -(2**63)}, "bad_job"),
        ({"run_s": math.nan}, "bad_job"),
        ({"run_s": -math.inf}, "bad_job"),
        ({"requested_s": math.inf}, "bad_job"),
        ({"requested_s": 0.0}, "bad_job"),
        ({"job_id": 1}, "job_exists"),
    ],
    ids=str,
)
def test_an_invalid_job_is_not_submitted(desk: Desk, change: Map, code: str) -> None:
    """An invalid submit_job is rejected; a valid one in the same message is carried out."""
    session = desk.hello(scenario="three", overrides={"dynamic_jobs": True})
    desk.decide(session, 1)
    good = {"type": "submit_job", "job_id": 9, "cores": 1, "run_s": 1.0}
    answer = desk.decide(session, 2, good | change, good | {"job_id": 10})
    assert [event["type"] for event in answer["events"]] == ["decision_rejected", "job_submitted"]
    assert answer["events"][0]["code"] == code
    assert answer["events"][1]["job_id"] == 10


def test_a_submitted_job_larger_than_the_platform_gets_an_event(desk: Desk) -> None:
    """A submit_job that exceeds the platform gets an event."""
    session = desk.hello(scenario="three", overrides={"dynamic_jobs": True})
    desk.decide(session, 1)
    job = {"type": "submit_job", "job_id": 9, "cores": 5, "run_s": 1.0}
    events = desk.decide(session, 2, START_1, job)["events"]
    assert [event for event in events if event.get("job_id") == 9]


def test_a_session_cannot_have_more_jobs_than_allowed(tmp_path: Path) -> None:
    """The job limit of a session includes jobs that the scheduler submits."""
    desk = Desk(tmp_path / "desk", Limits(jobs=42))
    session = desk.hello(scenario="three", overrides={"dynamic_jobs": True})
    submissions = [
        {"type": "submit_job", "job_id": job_id, "cores": 1, "run_s": 1.0}
        for job_id in range(100, 150)
    ]
    events = desk.decide(session, 1, *submissions)["events"]
    rejected = [event for event in events if event["type"] == "decision_rejected"]
    assert len(rejected) == 50 - (42 - 3)
    assert {event["code"] for event in rejected} == {"not_allowed"}


@pytest.mark.parametrize("elapsed_s", [math.nan, math.inf, -math.inf, -1.0, -5e-324])
def test_an_invalid_elapsed_s_is_an_error(
    desk: Desk, undisturbed: dict[str, bytes], elapsed_s: float
) -> None:
    """An invalid `elapsed_s` gets an error and leaves the seq unchanged."""
    good = Scheduler(desk)
    good.step()
    answer = desk.decide(good.session, 2, elapsed_s=elapsed_s)
    assert (answer["code"], answer["where"]) == ("invalid_message", "$.elapsed_s")
    assert good.finish() == undisturbed


def test_extreme_elapsed_s_causes_no_internal_error(desk: Desk) -> None:
    """Extreme values of `elapsed_s` never cause an internal error."""
    session = desk.hello(scenario="three")
    for seq in range(1, 4):
        answer = desk.decide(session, seq, elapsed_s=1e308)
        assert answer.get("code") in (None, "simulation_stuck", "invalid_message"), answer
        if answer["type"] == "error":
            break


def test_elapsed_s_of_negative_zero_is_zero(desk: Desk, undisturbed: dict[str, bytes]) -> None:
    """An `elapsed_s` of -0.0 is treated as 0.0."""
    good = Scheduler(desk)
    good.step()
    decisions = [msgspec.to_builtins(decision) for decision in good.view.decisions]
    answer = desk.decide(good.session, 2, *decisions, elapsed_s=-0.0)
    assert answer["type"] == "events"
    good.step()  # its repetition
    assert good.finish() == undisturbed


# Fuzz

ODD_TEXTS = st.sampled_from(["", "hello", "decisions", "small", "three", "nope", "\x00", "é" * 300])
ODD_NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 2**31, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, math.nan, math.inf, -1e308]
)
ODD_VALUES = st.recursive(
    st.none() | st.booleans() | ODD_NUMBERS | ODD_TEXTS | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
PATTERNS: list[Map] = [
    {"type": "hello", "versions": [1], "client": "c", "nonce": "n", "scenario": "", "seed": 1},
    {"type": "hello", "versions": [1], "overrides": {"workload.load": 1.5}, "session": ""},
    {
        "type": "decisions",
        "session": "?",
        "seq": 1,
        "decisions": [
            {"type": "allocate_job", "job_id": 1, "nodes": [0, 1], "cores": [1, 1]},
            {"type": "set_alarm", "at_s": 10.0, "alarm_id": 3},
            {"type": "submit_job", "job_id": 1, "cores": 1, "run_s": 1.0, "requested_s": None},
        ],
        "wake_on": ["job_submitted", "alarm"],
        "elapsed_s": 0.5,
    },
    {"type": "bye", "session": "?"},
]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A service shared by all examples of a fuzz test."""
    return Desk(tmp_path_factory.mktemp("fuzzed"), Limits(jobs=50, sessions=8))


def still_serves(desk: Desk) -> None:
    """Check that a service opens a session and advances it."""
    assert desk.decide(desk.hello(scenario="three"), 1)["type"] == "events"


@examples(300)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_get_an_error(fuzzed: Desk, data: bytes) -> None:
    """Arbitrary bytes get an error reply."""
    answer = fuzzed.send(data)
    assert (answer["type"], answer["code"]) == ("error", "invalid_message")


@examples(200)
@given(
    pattern=st.sampled_from(PATTERNS),
    edits=st.lists(
        st.tuples(
            st.sampled_from(["flip", "cut", "insert", "drop"]),
            st.integers(0, 10_000),
            st.integers(1, 255),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_damaged_messages_get_a_reply(
    fuzzed: Desk, pattern: Map, edits: list[tuple[str, int, int]]
) -> None:
    """A message with changed, removed or added bytes gets a reply other than an internal error."""
    fuzzed.service.close("next example")
    session = fuzzed.hello(scenario="three")
    data = bytearray(msgpack.packb(pattern | ({"session": session} if "seq" in pattern else {})))
    for what, place, byte in edits:
        place %= len(data) + 1
        if what == "flip" and place < len(data):
            data[place] ^= byte
        elif what == "cut":
            del data[place:]
        elif what == "insert":
            data.insert(place, byte)
        else:
            del data[place : place + 1]
    assert fuzzed.send(bytes(data)).get("code") != "internal_error"
    still_serves(fuzzed)


def _holes(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    return [path, *(hole for key, value in items for hole in _holes(value, (*path, key)))]


def _with(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    if isinstance(tree, dict):
        return tree | {path[0]: _with(tree[path[0]], path[1:], value)}
    changed = list(tree)
    changed[path[0]] = _with(tree[path[0]], path[1:], value)
    return changed


@examples(300)
@given(data=st.data())
def test_messages_with_replaced_values_get_a_reply(fuzzed: Desk, data: st.DataObject) -> None:
    """A message with one replaced value gets a reply other than an internal error."""
    fuzzed.service.close("next example")  # a previous example may have ended early
    pattern: Map = data.draw(st.sampled_from(PATTERNS))
    session = fuzzed.hello(scenario="three")
    fuzzed.decide(session, 1)
    if "seq" in pattern:
        pattern = pattern | {"session": session, "seq": 2}
    hole = data.draw(st.sampled_from(_holes(pattern)))
    message = _with(pattern, hole, data.draw(ODD_VALUES))
    assert fuzzed.send(msgpack.packb(message)).get("code") != "internal_error"
    still_serves(fuzzed)


JOB_IDS = st.integers(0, 12)
NODES = st.lists(st.integers(-1, 5), max_size=4)
TIMES = st.sampled_from([-1.0, 0.0, 0.5, 30.0, 1e4, 1e9, math.nan, math.inf])
DECISIONS = st.one_of(
    st.builds(
        lambda job_id, nodes, cores: {
            "type": "allocate_job",
            "job_id": job_id,
            "nodes": nodes,
            **({"cores": cores} if cores else {}),
        },
        JOB_IDS,
        NODES,
        st.lists(st.integers(-1, 5), max_size=3),
    ),
    # Most decisions above are rejected; these are carried out.
    st.builds(
        lambda job_id, first: {"type": "allocate_job", "job_id": job_id, "nodes": [first]},
        JOB_IDS,
        st.integers(0, 4),
    ),
    st.builds(lambda job_id: {"type": "reject_job", "job_id": job_id}, JOB_IDS),
    st.builds(lambda job_id: {"type": "kill_job", "job_id": job_id}, JOB_IDS),
    st.builds(
        lambda after_s, alarm_id: {"type": "set_alarm", "at_s": after_s, "alarm_id": alarm_id},
        TIMES,
        st.integers(0, 2),
    ),
    st.builds(lambda alarm_id: {"type": "cancel_alarm", "alarm_id": alarm_id}, st.integers(0, 2)),
    st.builds(
        lambda job_id, cores, run_s, placement: {
            "type": "submit_job",
            "job_id": job_id + 35,
            "cores": cores,
            "run_s": run_s,
            "placement": placement,
        },
        JOB_IDS,
        st.integers(-1, 25),
        TIMES,
        st.sampled_from(["cores", "one_node", "whole_nodes"]),
    ),
)
KINDS: list[EventKind] = ["job_submitted", "job_completed", "job_started", "no_more_jobs"]
STEPS = st.lists(
    st.tuples(
        st.lists(DECISIONS, max_size=5),
        st.none() | st.lists(st.sampled_from(KINDS), max_size=3),
        st.sampled_from([0.0, 0.0, 0.25, 100.0, 1e5]),
    ),
    max_size=15,
)


@examples(120, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=STEPS,
    placement=st.sampled_from(["cores", "one_node", "whole_nodes"]),
    kill=st.booleans(),
    speed=st.sampled_from([None, 2.0]),
)
def test_any_decisions_keep_the_invariants(
    fuzzed: Desk,
    steps: list[tuple[list[Map], list[EventKind] | None, float]],
    placement: str,
    kill: bool,
    speed: float | None,
) -> None:
    """Any decisions keep the invariants, and a client's view equals the server's state."""
    overrides: Map = {
        "dynamic_jobs": True,
        "kill_at_walltime": kill,
        "workload.placement": placement,
    }
    if speed is not None:
        overrides["workload.reference_clock_ghz"] = speed
    fuzzed.service.close("next example")
    mirror = Scheduler(fuzzed, "", overrides=overrides)
    simulation = fuzzed.opened[-1].simulation
    now_s = 0.0
    for seq, (decisions, wake_on, elapsed_s) in enumerate(steps, start=1):
        fields = {"wake_on": wake_on, "elapsed_s": elapsed_s}
        answer = fuzzed.decide(mirror.session, seq, *decisions, **fields)
        simulation.validate()
        if answer["type"] != "events":
            assert answer.get("code") in (None, "simulation_stuck")
            return
        assert answer["now_s"] >= now_s
        times = [event["time_s"] for event in answer["events"]]
        assert times == sorted(times)
        assert all(now_s <= time_s <= answer["now_s"] for time_s in times)
        now_s = answer["now_s"]
        message = decode_server_message(msgpack.packb(answer))
        assert isinstance(message, Events)
        mirror.view.apply(message.now_s, message.events)
        assert seen(Scheduler(fuzzed, "", session=mirror.session).view) == seen(mirror.view)


def test_a_stopped_service_replies_with_shutting_down(desk: Desk) -> None:
    """After `stop`, every message gets `shutting_down` with the reason."""
    session = desk.hello()
    assert desk.service.stop("it was time")
    answer = desk.ask("decisions", session=session, seq=1)
    assert (answer["code"], answer["message"]) == ("shutting_down", "it was time")
    assert answer["fatal"]


def test_another_request_under_the_last_seq_is_an_error(desk: Desk) -> None:
    """A different request under the last seq gets an error."""
    session = desk.hello()
    first = desk.ask("decisions", session=session, seq=1)
    assert desk.ask("decisions", session=session, seq=1) == first
    answer = desk.ask("decisions", session=session, seq=1, elapsed_s=1.0)
    assert answer["code"] == "out_of_order"
