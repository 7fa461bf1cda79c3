"""The journal of an instance: the requests of a scheduler, one JSON object a line.

A line has what a `decisions` message has: `decisions`, `wake_on` and `elapsed_s`; defaults are left
out. Every `CHECK_EVERY`-th line and the last one also have `replies`, a checksum of all replies up
to then: a simulation that replies otherwise is noticed at the next check.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import tee
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct, structs

from hpcosim_client import PolicyError, play
from hpcosim_experiments.benchmark.suite import BenchmarkError, SuiteFile
from hpcosim_protocol import Decision, EventKind
from hpcosim_protocol.requests import snake_case
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.running.library import LoadedScenario, open_loaded
from hpcosim_scenarios.running.policies import Chosen
from hpcosim_scenarios.running.run import opened_with
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Batch, Simulation
from hpcosim_sim.errors import SimulationStuck
from hpcosim_workloads.table import MAX_TIME_S

CHECK_EVERY = 64
"""Number of requests from one checksum of the replies to the next."""

CHECKSUM_DIGITS = 16
MAX_BYTES = 2**26
"""Maximum size of a journal, bytes."""
MAX_LINES = 2_000_000
"""Maximum number of requests in a journal."""
MAX_DECISIONS = 100_000
"""Maximum number of decisions in a request."""


class Line(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request.

    Attributes:
        decisions: as in `Decisions`.
        wake_on: as in `Decisions`.
        elapsed_s: as in `Decisions`.
        replies: checksum of the replies up to the one to this request; empty: none here.
    """

    decisions: Annotated[list[Decision], Meta(max_length=MAX_DECISIONS)] = []
    wake_on: Annotated[list[EventKind], Meta(max_length=100)] | None = None
    elapsed_s: Annotated[float, Meta(ge=0.0, le=MAX_TIME_S)] = 0.0
    replies: Annotated[str, Meta(max_length=CHECKSUM_DIGITS)] = ""


_decoder = msgspec.json.Decoder(Line)


def line_of(
    decisions: Iterable[Decision], wake_on: Iterable[EventKind] | None, elapsed_s: float
) -> Line:
    """Return the line of a request: the same for the same request on every transport."""
    kinds = None if wake_on is None else sorted(set(wake_on))  # clients keep them in sets
    line = Line(list(decisions), kinds)
    return structs.replace(line, elapsed_s=elapsed_s) if elapsed_s else line


def encode(lines: Iterable[Line]) -> bytes:
    """Return the bytes of a journal."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def decode(data: bytes) -> Iterator[Line]:
    """Yield the lines of a journal, each decoded when it is wanted.

    Raises:
        BenchmarkError: there are too many lines, or a line is no request; names it.
    """
    if not data.endswith(b"\n"):
        raise BenchmarkError("the journal has no lines, or its last line is cut off")
    if (count := count_lines(data)) > MAX_LINES:
        raise BenchmarkError(f"the journal has {count} lines; expected at most {MAX_LINES}")
    start = 0
    for number in range(1, count + 1):
        end = data.index(b"\n", start)
        try:
            yield _decoder.decode(memoryview(data)[start:end])
        except (msgspec.DecodeError, RecursionError) as error:
            raise BenchmarkError(f"line {number} of the journal is no request: {error}") from None
        start = end + 1


def count_lines(data: bytes) -> int:
    """Return the number of lines of a journal."""
    return data.count(b"\n")


def sealed(opened: Opened, lines: Sequence[Line], allowed: Collection[str]) -> list[Line]:
    """Return the lines with checksums of the replies, from a simulation that they end.

    Raises:
        BenchmarkError: as `carry_out`.
    """
    return [
        structs.replace(line, replies=checksum if _is_checked(number, len(lines)) else "")
        for number, (line, checksum) in enumerate(
            zip(lines, carry_out(opened, lines, allowed), strict=True), start=1
        )
    ]


def check(opened: Opened, data: bytes, allowed: Collection[str]) -> None:
    """Carry out a journal line by line, and compare the replies with its checksums.

    Raises:
        BenchmarkError: a line is no request, a reply differs, or as `carry_out`.
    """
    checked, count = 0, count_lines(data)
    lines, again = tee(decode(data))
    for number, checksum in enumerate(carry_out(opened, lines, allowed), start=1):
        if next(again).replies != (checksum if _is_checked(number, count) else ""):
            raise BenchmarkError(
                f"the replies to the requests of lines {checked + 1} to {number} of the journal "
                f"differ, at the simulated time {opened.simulation.now_s:g} s at the latest"
            )
        if _is_checked(number, count):
            checked = number


def carry_out(opened: Opened, lines: Iterable[Line], allowed: Collection[str]) -> Iterator[str]:
    """Carry out the requests of a journal, and yield the checksum of the replies after each.

    Raises:
        BenchmarkError: a decision is of a kind that is not allowed, the simulation is stuck, or
            it ends before or after the journal.
    """
    simulation, replies = opened.simulation, hashlib.sha256()
    ended = False
    for number, line in enumerate(lines, start=1):
        if ended:
            raise BenchmarkError(f"the simulation is over before line {number} of the journal")
        for decision in line.decisions:
            if (kind := _name_of(type(decision))) not in allowed:
                raise BenchmarkError(
                    f"line {number} of the journal has a decision {kind}; expected one of "
                    f"{', '.join(allowed)}"
                )
        try:
            batch = simulation.advance(
                line.decisions, wake_on=line.wake_on, elapsed_s=line.elapsed_s, seq=number
            )
        except SimulationStuck as stuck:
            raise BenchmarkError(f"line {number} of the journal: {stuck}") from None
        ended = batch.ended
        replies.update(_essence(batch))
        yield replies.hexdigest()[:CHECKSUM_DIGITS]
    if not ended:
        raise BenchmarkError(
            f"the journal ends at the simulated time {simulation.now_s:g} s, with "
            f"{opened.jobs - simulation.recording.over} of {opened.jobs} jobs not over"
        )
    opened.complete()


@cache
def _name_of(kind: type) -> str:
    """Return the name of a kind of decisions or events, as in the protocol."""
    return snake_case(kind.__name__)


def _is_checked(number: int, count: int) -> bool:
    return number % CHECK_EVERY == 0 or number == count


def _essence(batch: Batch) -> bytes:
    """Return what a reply says, without texts for people: times, kinds, jobs and nodes."""
    events = [
        (
            _name_of(type(event)),
            event.time_s,
            getattr(event, "job_id", None),
            getattr(event, "node", None),
        )
        for event in batch.events
    ]
    return msgspec.msgpack.encode((batch.now_s, events))


class Recorded(NamedTuple):
    """A recorded run of an instance."""

    journal: bytes
    requests: int
    decision_s: float
    longest_s: float


class Stopwatch:
    """Measures the time that a scheduler takes between a reply and its next request."""

    def __init__(self) -> None:
        self.total_s = self.longest_s = 0.0
        self._since_s = time.perf_counter()

    def start(self) -> None:
        """Note that the scheduler has a reply."""
        self._since_s = time.perf_counter()

    def stop(self) -> None:
        """Note that the scheduler has sent a request."""
        took_s = time.perf_counter() - self._since_s
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)


def record(suite: SuiteFile, name: str, loaded: LoadedScenario, chosen: Chosen) -> Recorded:
    """Run an instance with a policy in this process.

    Raises:
        RunError: the policy failed.
        BenchmarkError: it decided what the suite does not allow.
        PolicyError, OracleError: the policy cannot be made.
    """
    with opened_with(chosen, loaded) as (opened, policy):
        link = _RecordingLink(opened.simulation)
        try:
            play(
                policy,
                opened.simulation.cluster.platform,
                link,
                seed=opened.run.seed,
                wake_on_allocation=opened.simulation.rules.wake_on_allocation,
            )
        except (SimulationStuck, PolicyError) as error:
            raise RunError(f"{name}: {error}") from error
    return recorded(suite, name, loaded, link.lines, link.stopwatch)


def recorded(
    suite: SuiteFile,
    name: str,
    loaded: LoadedScenario,
    lines: Sequence[Line],
    stopwatch: Stopwatch,
) -> Recorded:
    """Return the requests of a scheduler as a journal with checksums.

    Raises:
        BenchmarkError: the requests do not complete the instance, or contain decisions that the
            suite does not allow.
    """
    allowed: Collection[str] = suite.decisions
    try:
        complete = sealed(open_loaded(loaded, ""), lines, allowed)
    except BenchmarkError as error:
        raise BenchmarkError(f"{name}: {error}") from None
    return Recorded(encode(complete), len(lines), stopwatch.total_s, stopwatch.longest_s)


class _RecordingLink:
    """Passes decisions to a simulation, and keeps them."""

    def __init__(self, simulation: Simulation) -> None:
        self.lines: list[Line] = []
        self.stopwatch = Stopwatch()
        self._simulation = simulation

    def __call__(
        self,
        decisions: Sequence[Decision],
        wake_on: Collection[EventKind] | None,
        elapsed_s: float,
    ) -> Batch:
        self.stopwatch.stop()
        self.lines.append(line_of(decisions, wake_on, elapsed_s))
        batch = self._simulation.advance(
            decisions, wake_on=wake_on, elapsed_s=elapsed_s, seq=len(self.lines)
        )
        self.stopwatch.start()
        return batch
