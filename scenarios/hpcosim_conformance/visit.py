"""A session with a server under test: what it told, and a plain policy to get on with."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from hpcosim_conformance import rules
from hpcosim_conformance.probe import Map, Probe, expect
from hpcosim_conformance.verdict import BrokenRuleError, NotTriedError
from hpcosim_protocol import DEFAULT_WAKE_ON

MOST_REQUESTS = 3000  # to get somewhere; a scenario that takes more is too long to be tried with


@dataclass(slots=True)
class Visit:
    """A session, and what is known of it.

    Attributes:
        probe: the socket.
        welcome: the answer to the hello.
        session: its name.
        seq: of the last request answered.
        now_s: simulated time.
        waiting: jobs that wait, as they were submitted, by number.
        running: jobs that run or are to, by number: the cores they hold by node.
        free: free cores by node.
        metrics: of the simulation, once it has ended.
        log: all events so far.
    """

    probe: Probe
    welcome: Map
    session: str
    seq: int = 0
    now_s: float = 0.0
    waiting: dict[int, Map] = field(default_factory=dict)
    running: dict[int, dict[int, int]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    metrics: Map | None = None
    log: list[Map] = field(default_factory=list)

    @property
    def capacity(self) -> list[int]:
        """Cores of each node."""
        return [
            sum(processor["cores"] for processor in group["processors"])
            for group in self.welcome["platform"]["nodes"]
            for _ in range(group["count"])
        ]

    @property
    def options(self) -> Map:
        """What holds in the session."""
        options: Map = self.welcome["options"]
        return options

    def request(self, *decisions: Map, **fields: Any) -> Map:
        """Return the next request, not yet sent."""
        named = {"type": "decisions", "session": self.session, "seq": self.seq + 1}
        return named | {"decisions": list(decisions)} | fields

    def decide(self, *decisions: Map, **fields: Any) -> list[Map]:
        """Send decisions and return the events that come of them; none: the simulation ended.

        Raises:
            BrokenRuleError: the answer is another, or not in order.
        """
        answer = self.probe.ask(self.request(*decisions, **fields))
        return self.take(answer, told=not fields)

    def take(self, answer: Map, *, told: bool = False) -> list[Map]:
        """Take in an answer to the next request and return its events.

        Args:
            answer: it.
            told: the request asked for no other events than by default.

        Raises:
            BrokenRuleError: it is none, or not in order.
        """
        kind = answer["type"]
        what = f"it answered {kind} {answer.get('code', '')}: {answer.get('message', '')}"
        expect(kind in ("events", "simulation_ended"), rules.IN_ORDER, what)
        self.seq += 1
        expect(
            answer["seq"] == self.seq,
            rules.ANSWERED,
            f"it answered seq {answer['seq']}, not {self.seq}",
        )
        expect(answer["now_s"] >= self.now_s, rules.TIME, f"now_s fell to {answer['now_s']}")
        self.now_s = answer["now_s"]
        events: list[Map] = answer.get("events", [])
        if kind == "simulation_ended":
            self.metrics = answer["metrics"]
        self._check_times(events, told=told)
        for event in events:
            self._apply(event)
        self.log += events
        return events

    def _check_times(self, events: Sequence[Map], *, told: bool) -> None:
        times = [event["time_s"] for event in events]
        expect(times == sorted(times), rules.TIME, f"its events are of {times} s, in this order")
        expect(
            not times or times[-1] <= self.now_s, rules.TIME, f"an event is after {self.now_s} s"
        )
        if told:
            late = [e for e in events if e["type"] in DEFAULT_WAKE_ON and e["time_s"] < self.now_s]
            what = f"at {self.now_s} s it first told of {late[:1]}"
            expect(not late, rules.DEFAULT_WAKE, what)

    def _apply(self, event: Map) -> None:
        kind = event["type"]
        if kind == "job_submitted":
            self.waiting[event["job_id"]] = event
        elif kind == "job_completed":
            self.waiting.pop(event["job_id"], None)
            for node, cores in self.running.pop(event["job_id"], {}).items():
                self.free[node] += cores

    # Getting on

    def allocation(self, job: Map) -> Map | None:
        """Return the decision to start a waiting job on the first nodes with room, if there are."""
        place = self._place(job)
        return None if place is None else _allocate(job, place)

    def _place(self, job: Map) -> dict[int, int] | None:
        """Return the cores that a job would hold of the first nodes with room, if there are."""
        placement, missing = job.get("placement", "cores"), job["cores"]
        held = {}
        for node, (free, cores) in enumerate(zip(self.free, self.capacity, strict=True)):
            whole = placement == "whole_nodes"
            if not free or (whole and free < cores) or (placement == "one_node" and free < missing):
                continue
            held[node] = free if whole else min(free, missing)
            missing -= held[node]
            if missing <= 0:
                return held
        return None

    def step(self) -> list[Map]:
        """Start what can be, first come, first served, and return what happens."""
        decisions = []
        while self.waiting:
            job = next(iter(self.waiting.values()))
            place = self._place(job)
            if place is None:
                break
            for node, cores in place.items():
                self.free[node] -= cores
            del self.waiting[job["job_id"]]
            self.running[job["job_id"]] = place
            decisions.append(_allocate(job, place))
        return self.decide(*decisions)

    def until(self, there: Callable[[Visit], object], what: str, *, idle: bool = False) -> None:
        """Go on until something is so.

        Args:
            there: tells whether it is.
            what: it, for people.
            idle: start no jobs meanwhile.

        Raises:
            NotTriedError: the scenario does not get there.
        """
        for _ in range(MOST_REQUESTS):
            if there(self):
                return
            if self.metrics is not None:
                raise NotTriedError(f"the scenario has no time at which {what}")
            if idle:
                self.decide()
            else:
                self.step()
        raise NotTriedError(f"{what} not within {MOST_REQUESTS} requests")

    def until_a_job_waits(self) -> Map:
        """Go on until a job waits that could start now, and return it."""
        self.until(lambda visit: visit._startable(), "a job waits that could start")
        job = self._startable()
        assert job is not None
        return job

    def _startable(self) -> Map | None:
        """Return a waiting job for which there is room, if there is one."""
        return next((job for job in self.waiting.values() if self.allocation(job)), None)


def _allocate(job: Map, place: dict[int, int]) -> Map:
    return {"type": "allocate_job", "job_id": job["job_id"], "nodes": list(place)}


@dataclass(frozen=True, slots=True)
class Bench:
    """What every check of a server is given.

    Attributes:
        probe: a socket to it.
        scenario: which of its scenarios; empty: its first.
    """

    probe: Probe
    scenario: str = ""

    def hello(self, **fields: Any) -> Map:
        """Return a hello, not yet sent."""
        named = {"type": "hello", "versions": [1], "client": "conformance"}
        return named | {"scenario": self.scenario, "nonce": secrets.token_hex(8)} | fields

    def welcome(self, hello: Map) -> Map:
        """Return the welcome that answers a hello.

        Raises:
            BrokenRuleError: another message does.
        """
        answer = self.probe.ask(hello)
        what = f"it answered {answer['type']} {answer.get('code', '')}: {answer.get('message', '')}"
        expect(answer["type"] == "welcome", rules.HELLO, what)
        return answer

    @contextmanager
    def visit(self, **fields: Any) -> Iterator[Visit]:
        """Open a session for the time of the block."""
        visit = self.entered(self.welcome(self.hello(**fields)))
        try:
            yield visit
        finally:
            self.leave(visit.session)

    def entered(self, welcome: Map) -> Visit:
        """Return the visit that begins with a welcome."""
        visit = Visit(self.probe, welcome, welcome["session"], now_s=welcome.get("now_s", 0.0))
        visit.free = visit.capacity
        return visit

    def leave(self, session: str) -> None:
        """Say bye, whatever comes of it."""
        with suppress(BrokenRuleError, NotTriedError):
            self.probe.ask({"type": "bye", "session": session})
