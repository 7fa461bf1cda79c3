"""A session with a server under test: what the server told, and a plain policy to make progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_protocol import DEFAULT_WAKE_ON

Map = dict[str, Any]
FoundT = TypeVar("FoundT")

MOST_REQUESTS = 3000  # to reach a state; a scenario that takes more is too long for the checks


def of_kind(events: Sequence[Map], kind: str) -> list[Map]:
    """Return the events of a kind."""
    return [event for event in events if event["type"] == kind]


def rejection_codes(events: Sequence[Map]) -> list[str]:
    """Return the codes of the rejected decisions."""
    return [event["code"] for event in of_kind(events, "decision_rejected")]


@dataclass(slots=True)
class OpenSession:
    """A session, and what is known of it.

    Attributes:
        ask: returns the server's answer to a message.
        welcome: the answer to the hello.
        seq: of the last request answered.
        now_s: simulated time.
        waiting: the jobs that wait, as they were submitted, by number.
        running: the cores by node that a job holds or will hold, by its number.
        free: free cores by node.
        metrics: of the simulation; None: it has not ended.
        log: all events so far.
    """

    ask: Callable[[Map], Map]
    welcome: Map
    seq: int = 0
    now_s: float = 0.0
    waiting: dict[int, Map] = field(default_factory=dict)
    running: dict[int, dict[int, int]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    metrics: Map | None = None
    log: list[Map] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now_s = self.welcome.get("now_s", 0.0)
        self.free = self.capacity

    @property
    def name(self) -> str:
        """Its name."""
        name: str = self.welcome["session"]
        return name

    @property
    def options(self) -> Map:
        """Its options."""
        options: Map = self.welcome["options"]
        return options

    @property
    def capacity(self) -> list[int]:
        """Cores of each node."""
        return [
            sum(processor["cores"] for processor in group["processors"])
            for group in self.welcome["platform"]["nodes"]
            for _ in range(group["count"])
        ]

    # Requests and answers

    def request(self, *decisions: Map, **fields: Any) -> Map:
        """Return the next request, not sent yet."""
        named = {"type": "decisions", "session": self.name, "seq": self.seq + 1}
        return named | {"decisions": list(decisions)} | fields

    def decide(self, *decisions: Map, **fields: Any) -> list[Map]:
        """Send decisions and return the events of the answer; none: the simulation ended.

        Raises:
            BrokenRuleError: the answer is of another type, or its events are not in order.
        """
        answer = self.ask(self.request(*decisions, **fields))
        return self.take(answer, by_default=not fields)

    def take(self, answer: Map, *, by_default: bool = False) -> list[Map]:
        """Read the answer to the next request and return its events.

        Args:
            answer: the answer.
            by_default: the request had no `wake_on` and no `elapsed_s`.

        Raises:
            BrokenRuleError: the answer is of another type, or its events are not in order.
        """
        kind = answer["type"]
        what = f"it answered {kind} {answer.get('code', '')}: {answer.get('message', '')}"
        expect(kind in ("events", "simulation_ended"), "R-in-order", what)
        self.seq += 1
        what = f"it answered seq {answer['seq']}, not {self.seq}"
        expect(answer["seq"] == self.seq, "R-answered-seq", what)
        expect(answer["now_s"] >= self.now_s, "R-time", f"now_s fell to {answer['now_s']}")
        self.now_s = answer["now_s"]
        if kind == "simulation_ended":
            self.metrics = answer["metrics"]
            return []
        events: list[Map] = answer["events"]
        self._check_events(events, by_default=by_default)
        for event in events:
            self._apply(event)
        self.log += events
        return events

    def _check_events(self, events: Sequence[Map], *, by_default: bool) -> None:
        expect(bool(events), "R-never-empty", "it answered with no events")
        times = [event["time_s"] for event in events]
        expect(times == sorted(times), "R-time", f"its events are of {times} s, in this order")
        expect(times[-1] <= self.now_s, "R-time", f"an event is after {self.now_s} s")
        if by_default:
            late = [e for e in events if e["type"] in DEFAULT_WAKE_ON and e["time_s"] < self.now_s]
            expect(not late, "R-wake-on", f"at {self.now_s} s it first told of {late[:1]}")

    def _apply(self, event: Map) -> None:
        if event["type"] == "job_submitted":
            self.waiting[event["job_id"]] = event
        elif event["type"] == "job_completed":
            self.waiting.pop(event["job_id"], None)
            for node, cores in self.running.pop(event["job_id"], {}).items():
                self.free[node] += cores

    # First come, first served

    def step(self) -> list[Map]:
        """Start waiting jobs, first come, first served, and return the events that follow."""
        decisions = []
        for job_id, job in list(self.waiting.items()):
            place = self._place(job)
            if place is None:
                break
            for node, cores in place.items():
                self.free[node] -= cores
            del self.waiting[job_id]
            self.running[job_id] = place
            decisions.append(_allocate(job, place))
        return self.decide(*decisions)

    def allocation(self) -> Map | None:
        """Return the decision that starts the first waiting job with room; None: there is none."""
        for job in self.waiting.values():
            place = self._place(job)
            if place is not None:
                return _allocate(job, place)
        return None

    def _place(self, job: Map) -> dict[int, int] | None:
        """Return the cores that a job would hold on the first nodes with room; None: no room."""
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

    def until(self, find: Callable[[], FoundT | None], what: str, *, idle: bool = False) -> FoundT:
        """Make progress until a function finds something, and return it.

        Args:
            find: returns what it finds, or None.
            what: the state that is looked for, in words.
            idle: start no jobs meanwhile.

        Raises:
            NotTriedError: the scenario does not get there.
        """
        for _ in range(MOST_REQUESTS):
            found = find()
            if found is not None:
                return found
            if self.metrics is not None:
                raise NotTriedError(f"the scenario has no time at which {what}")
            if idle:
                self.decide()
            else:
                self.step()
        raise NotTriedError(f"{what} not within {MOST_REQUESTS} requests")

    def until_a_job_can_start(self) -> Map:
        """Make progress until a job can start, and return the decision that starts it."""
        return self.until(self.allocation, "a job waits that could start")


def _allocate(job: Map, place: dict[int, int]) -> Map:
    return {"type": "allocate_job", "job_id": job["job_id"], "nodes": list(place)}
