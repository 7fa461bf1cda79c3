"""Budgets of sessions: each refusal names its limit and its option."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgpack
import pytest

from hpcosim_protocol import Decisions, Hello
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import SourceCache, source_jobs
from hpcosim_scenarios.running.library import Library
from hpcosim_server.errors import SessionRefused
from hpcosim_server.service import memory
from hpcosim_server.service.admission import MIB, Admission
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.pace import EventRate
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_server.service.sessions import ClosedSessions, OpenSessions
from support.processes import SCENARIO

LOG = "; Version: 2\n" + "".join(
    f"{n} {n * 30} 0 60 1 -1 -1 1 90 -1 1 1 1 1 1 1 -1 -1\n" for n in range(1, 41)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small scenario."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.format(name="small", jobs=40))
    return path


def ask(service: Service, kind: str, **fields: Any) -> dict[str, Any]:
    """Return the reply to a message."""
    reply: dict[str, Any] = msgpack.unpackb(service.answer(msgpack.packb({"type": kind, **fields})))
    return reply


def not_loaded(_: Hello) -> Opened:
    """Fail, because nothing may be loaded."""
    raise AssertionError


def refusal(limits: Limits, hello: Hello, available: float = math.inf, used: float = 0) -> str:
    """Return why a hello is refused before anything is loaded."""
    admission = Admission(
        limits,
        OpenSessions(),
        Countdown(None),
        not_loaded,
        available=lambda: available,
        used=lambda: used,
    )
    with pytest.raises(SessionRefused) as refused:
        admission.open(hello)
    return refused.value.what


def test_jobs_of_an_override_count_before_they_are_drawn() -> None:
    """A hello with more jobs than the budget is refused before its workload is drawn."""
    hello = Hello(versions=[1], overrides={"workload.synthetic.jobs": 500})
    assert "limits.max_total_jobs" in refusal(Limits(total_jobs=499), hello)


def test_jobs_of_all_sessions_are_bounded(path: Path) -> None:
    """Sessions beyond the budget of jobs are refused until another one ends."""
    service = Service(Library([path]).open, Limits(total_jobs=100))
    first = ask(service, "hello", versions=[1])
    assert ask(service, "hello", versions=[1])["type"] == "welcome"
    refused = ask(service, "hello", versions=[1])
    assert refused["code"] == "too_many_sessions"
    assert "80 jobs" in refused["message"]
    ask(service, "bye", session=first["session"])
    assert ask(service, "hello", versions=[1])["type"] == "welcome"


def test_session_needs_available_memory() -> None:
    """A hello is refused while too little memory is available, or the process uses too much."""
    hello = Hello(versions=[1])
    limits = Limits(free_bytes=200 * MIB, memory_bytes=100 * MIB)
    assert "limits.min_free_mb" in refusal(limits, hello, available=199 * MIB)
    assert "limits.max_memory_mb" in refusal(limits, hello, used=101 * MIB)


def test_memory_of_the_machine_is_read() -> None:
    """The available and the used memory are positive numbers of bytes."""
    assert MIB < memory.available_bytes() < math.inf
    assert MIB < memory.used_bytes() < memory.available_bytes() * 1000


def test_container_limits_the_available_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a control group, what it leaves counts; its file cache can be freed."""
    for name, text in (
        ("memory.max", "1000"),
        ("memory.current", "900"),
        ("memory.stat", "anon 1\ninactive_file 50\n"),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory.available_bytes() == 150


def test_long_elapsed_time_is_refused(path: Path) -> None:
    """`elapsed_s` beyond the limit is an error that names the option; the session goes on."""
    service = Service(Library([path]).open)
    session = ask(service, "hello", versions=[1])["session"]
    words = {"session": session, "seq": 1, "decisions": [], "wake_on": []}
    refused = ask(service, "decisions", **words, elapsed_s=1e15)
    assert (refused["code"], refused["fatal"]) == ("invalid_message", False)
    assert "limits.max_elapsed_s" in refused["message"]
    assert ask(service, "decisions", **words, elapsed_s=10.0)["type"] != "error"


def test_simulated_time_is_bounded(path: Path) -> None:
    """A session that has simulated more than the limit ends with an error that names it."""
    service = Service(Library([path]).open, Limits(simulated_s=100.0))
    session = ask(service, "hello", versions=[1])["session"]
    for seq in range(1, 9):
        reply = ask(service, "decisions", session=session, seq=seq, decisions=[], elapsed_s=50.0)
        if reply["type"] == "error":
            break
    assert reply["fatal"]
    assert "limits.max_simulated_s" in reply["message"]


def test_events_per_second_are_bounded() -> None:
    """Replies wait so that a session gets no more events than the rate allows."""
    now_s, events = 0.0, 0
    rate = EventRate(10.0, lambda: events, lambda: now_s)
    events = 30
    assert rate.wait_s(0.0) == pytest.approx(2.0)
    now_s = 100.0
    assert rate.wait_s(0.0) == 0.0
    rate.sent(0.0)
    events = 60
    assert rate.wait_s(0.0) == pytest.approx(2.0)


def test_replies_wait_for_the_rate_of_events(path: Path) -> None:
    """A service with a limit of events per second holds replies back."""
    service = Service(Library([path]).open, Limits(events_per_s=0.001))
    session = ask(service, "hello", versions=[1])["session"]
    for seq in (1, 2, 3):
        data = {"type": "decisions", "session": session, "seq": seq, "decisions": []}
        if not service.answer(msgpack.packb(data)):
            break
    assert len(service.held) == 1


def test_last_replies_of_closed_sessions_are_bounded_in_bytes() -> None:
    """Beyond the bound, the oldest replies are dropped; the sessions are still known."""

    class Ended:
        """What is read of a session."""

        ended_because, seq, last_answer, address = "over", 3, b"x" * 40, b""

        def __init__(self, name: str) -> None:
            self.name = name

    closed = ClosedSessions(10, most_bytes=100)
    for name in "abc":
        closed.add(Ended(name))  # type: ignore[arg-type]
    asked = [Decisions(session=name, seq=3, decisions=[]) for name in "abc"]
    assert [closed.repeated_reply(request) for request in asked] == [None, b"x" * 40, b"x" * 40]
    assert "a" in closed
    for number in range(20):
        closed.add(Ended(str(number)))  # type: ignore[arg-type]
    assert "a" not in closed
    assert closed.repeated_reply(Decisions(session="19", seq=3, decisions=[]))


def test_log_is_read_once_for_sessions_with_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed or a load does not read the log again; a changed file does."""
    (tmp_path / "log.swf").write_text(LOG)
    path = tmp_path / "log.yaml"
    synthetic = SCENARIO[SCENARIO.index("  synthetic") : SCENARIO.index("  reference")]
    path.write_text(SCENARIO.replace(synthetic, "  swf: log.swf\n").format(name="log", jobs=0))
    reads: list[int] = []
    read = SourceCache.__module__ + ".source_jobs"

    def count(*arguments: Any) -> Any:
        reads.append(1)
        return source_jobs(*arguments)

    monkeypatch.setattr(read, count)
    library = Library([path])
    plain = library.open(Hello(versions=[1]))
    seeded = library.open(Hello(versions=[1], seed=9))
    library.open(Hello(versions=[1], overrides={"workload.load": 2.0}))
    assert len(reads) == 1
    assert seeded.run.workload_source == plain.run.workload_source
    (tmp_path / "log.swf").write_text(LOG + "41 9999 0 60 1 -1 -1 1 90 -1 1 1 1 1 1 1 -1 -1\n")
    assert library.open(Hello(versions=[1], seed=9)).jobs == 41
    assert len(reads) == 2


def test_cached_jobs_are_those_of_the_settings(path: Path) -> None:
    """Jobs from the cache are those that were drawn with the same seed, and the bound holds."""
    cache = SourceCache(1000, most_cached=100)
    for seed in (1, 2, 1, 3, 4, 2, 1):
        scenario = load_scenario(path, {"seed": seed})
        drawn = source_jobs(scenario, path.parent, 1000)
        assert cache.jobs(scenario, path.parent).submit_s.tolist() == drawn.submit_s.tolist()
        assert len(cache) <= 100


def test_allocation_of_millions_of_nodes_costs_what_the_platform_costs(path: Path) -> None:
    """Of a list of nodes that is longer than the platform, only so many are read."""
    service = Service(Library([path]).open)
    session = ask(service, "hello", versions=[1])["session"]
    ask(service, "decisions", session=session, seq=1, decisions=[])
    nodes = [0, 1, 2, 3, 4, 0, *[0] * 100]
    decision = {"type": "allocate_job", "job_id": 1, "nodes": nodes}
    reply = ask(service, "decisions", session=session, seq=2, decisions=[decision])
    rejected = next(event for event in reply["events"] if event["type"] == "decision_rejected")
    assert "node 0 occurs 2 times" in rejected["reason"]
