"""Answers the questions of many people at once, beside the follower and never in its way."""

from __future__ import annotations

import asyncio
import math
import os
import resource
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from hpcosim_experiments.executors import ExecutorError
from hpcosim_experiments.executors.calls import ONE_THREAD, ChildProcess
from hpcosim_protocol.errors import HpcosimError
from hpcosim_twin.answers.questions import (
    AnyQuestion,
    Effort,
    Picture,
    QueueQuestion,
    RecordQuestion,
    answer,
)
from hpcosim_twin.answers.record import Record
from hpcosim_twin.cluster.follow import Follower, Snapshot
from hpcosim_twin.cluster.observation import ForecastError, Observation
from hpcosim_twin.cluster.queue_state import adopted
from hpcosim_twin.futures.compiled import compile_engine
from hpcosim_twin.futures.reference import end_of_time
from hpcosim_twin.service.access import Viewer

MOST_CACHED = 256
"""Number of answers of one picture that are kept."""
MANY_WAITING = 50
"""Number of waiting jobs from which on the compiled engine is worth its compilation."""
STOP_S = 0.25
"""Longest time until a process ends that is no longer wanted, s."""
NICE = 10
"""Niceness of a compilation: questions go first."""
OWN = "the twin"
"""The user of the twin's own questions."""
MOST_USERS = 10_000
"""Number of users whose rates are remembered."""


class DeskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How questions are answered.

    Attributes:
        workers: number of processes that simulate.
        futures: number of simulations of each question.
        timeout_s: longest time that one may take, s.
        memory_mb: largest memory of a process, MiB.
        most_waiting: number of questions that wait for a process or are with one; more are turned
            away.
        most_of_user: number of these that may be of one user.
        rate_per_s: questions of one user per second, in the long run.
        burst: number of questions that one user may ask at once.
    """

    workers: int = 1
    futures: int = 50
    seed: int = 0
    timeout_s: float = 120.0
    memory_mb: int = 4096
    most_waiting: int = 64
    most_of_user: int = 32
    rate_per_s: float = 10.0
    burst: int = 200


class BusyError(HpcosimError):
    """Too many questions; `retry_after_s` says when to ask again, s."""

    def __init__(self, what: str, retry_after_s: int) -> None:
        super().__init__(f"{what}; ask again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class NoPictureError(HpcosimError):
    """The cluster has not been read yet."""


class WorkerError(HpcosimError):
    """A question could not be answered, for example because memory ran out."""


class Rates:
    """The questions of each user, as buckets of tokens that fill with time."""

    def __init__(
        self, rate_per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate_per_s, self._burst, self._clock = rate_per_s, float(burst), clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, user: str) -> float:
        """Count a question; return the time until the user may ask again, s; 0: now."""
        now_s = self._clock()
        left, at_s = self._left.pop(user, (self._burst, now_s))
        left = min(left + (now_s - at_s) * self._rate_per_s, self._burst)
        wait_s = 0.0 if left >= 1.0 else (1.0 - left) / self._rate_per_s
        self._left[user] = (left if wait_s else left - 1.0, now_s)
        if len(self._left) > MOST_USERS:
            self._left.popitem(last=False)
        return wait_s


class _Key(NamedTuple):
    version: int
    question: AnyQuestion


class Desk:
    """Answers questions, in the event loop of its `with` block.

    Identical questions about one picture are computed once. What a user may not see is taken out
    of the answer, not of the computation, so no question changes the answer to another.

    Args:
        prepared: returns a picture as it is simulated, such as with what a calibration has found;
            None: as it is.

    Attributes:
        asked: number of questions by their type.
        turned_away: number of questions that were too many.
    """

    def __init__(
        self,
        follower: Follower,
        record: Record,
        settings: DeskSettings = DeskSettings(),  # noqa: B008 (immutable)
        prepared: Callable[[Observation], Observation] | None = None,
    ) -> None:
        self._follower, self._record, self._settings = follower, record, settings
        self._prepared = prepared
        self._rates = Rates(settings.rate_per_s, settings.burst)
        self._cache: OrderedDict[_Key, asyncio.Task[dict[str, Any]]] = OrderedDict()
        self._cached_version = 0
        self._waiting: Counter[str] = Counter()
        self._processes = [_Process(settings.memory_mb) for _ in range(settings.workers)]
        self._slots: SimpleQueue[_Process] = SimpleQueue()
        self._encoded: tuple[int, bytes] = (0, b"")
        self._compiler: ChildProcess | None = None
        self.asked: Counter[str] = Counter()
        self.turned_away = 0

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(self._settings.workers, "twin-desk")
        for each in self._processes:
            self._slots.put(each)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._processes:
            each.end()
        self._threads.shutdown(cancel_futures=True)
        for each in self._processes:
            each.stop()
        if self._compiler is not None:
            self._compiler.stop()

    @property
    def waiting(self) -> int:
        """Number of questions that wait for a process or are with one."""
        return self._waiting.total()

    async def ask(self, question: AnyQuestion, viewer: Viewer = Viewer()) -> dict[str, Any]:  # noqa: B008
        """Return the answer as the viewer may see it, with the record of the twin.

        Raises:
            ForecastError: the question does not fit the cluster.
            BusyError: there are too many questions.
            NoPictureError: the cluster has not been read yet.
            WorkerError: the answer could not be computed.
        """
        self.asked[type(question).__struct_config__.tag] += 1  # type: ignore[index]
        wait_s = self._rates.take(viewer.user)
        if wait_s:
            raise self._busy(
                f"more than {self._settings.rate_per_s:g} questions per second", wait_s
            )
        found = self._follower.snapshot
        if found is None:
            why = self._follower.failure or "it is being read for the first time"
            raise NoPictureError(f"the twin has no picture of the cluster yet: {why}")
        state = found.observation.state
        now_s = state.at_s
        if isinstance(question, RecordQuestion):
            return {"at_s": now_s, **self._record.summary(now_s)}
        view = viewer.view(state)
        view.check(question, state)
        result = await self._answer(question, found, viewer.user)
        if isinstance(question, QueueQuestion):
            self._record.note(result, is_own=False)
        return {
            **view.of(result),
            "picture_age_s": round(self._follower.age_s, 1),
            "record": self._record.short(now_s),
        }

    async def own(self, question: AnyQuestion) -> dict[str, Any] | None:
        """Answer a question of the twin itself; None: there is no picture.

        Raises:
            HpcosimError: the answer could not be computed.
        """
        found = self._follower.snapshot
        if found is None:
            return None
        result = await self._answer(question, found, OWN)
        if isinstance(question, QueueQuestion):
            self._record.note(result)
        return result

    async def _answer(self, question: AnyQuestion, found: Snapshot, user: str) -> dict[str, Any]:
        """Return the answer from the cache, or compute it."""
        if found.version != self._cached_version:
            self._cache.clear()
            self._cached_version = found.version
        key = _Key(found.version, question)
        try:
            task = self._cache.get(key)
        except TypeError:  # a question with a dictionary has no hash
            key = _Key(found.version, msgspec.json.encode(question))  # type: ignore[arg-type]
            task = self._cache.get(key)
        if task is None:
            self._admit(user)
            task = asyncio.create_task(self._computed(question, found, user))
            self._cache[key] = task
            task.add_done_callback(partial(self._drop_failed, key))
            if len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)
        return await asyncio.shield(task)

    def _admit(self, user: str) -> None:
        if self.waiting >= self._settings.most_waiting:
            raise self._busy(f"{self.waiting} questions wait", 10.0)
        if self._waiting[user] >= self._settings.most_of_user:
            raise self._busy(f"{self._waiting[user]} questions of {user[:40]!r} wait", 10.0)
        self._waiting[user] += 1

    def _busy(self, what: str, wait_s: float) -> BusyError:
        self.turned_away += 1
        return BusyError(what, max(math.ceil(wait_s), 1))

    def _drop_failed(self, key: _Key, task: asyncio.Task[dict[str, Any]]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._cache.pop(key, None)

    async def _computed(self, question: AnyQuestion, found: Snapshot, user: str) -> dict[str, Any]:
        try:
            loop = asyncio.get_running_loop()
            text = await loop.run_in_executor(self._threads, self._compute, question, found)
        finally:
            self._waiting[user] -= 1
            if not self._waiting[user]:
                del self._waiting[user]
        result: dict[str, Any] = msgspec.json.decode(text)
        if isinstance(question, QueueQuestion):
            result = self._record.calibrated(result)
        return result

    def _compute(self, question: AnyQuestion, found: Snapshot) -> bytes:
        """Let a process compute an answer, as JSON."""
        slot = self._slots.get()
        try:
            effort = (self._settings.futures, self._settings.seed)
            version, data = self._encoded
            if version != found.version:  # once for each picture
                data = msgspec.msgpack.encode(self._as_simulated(found.observation))
                self._encoded = (found.version, data)
                self._compile(found.observation, data)
            work = _Work(msgspec.json.encode(question), *effort, found.version, data)
            return slot.answer(work, self._settings.timeout_s)
        finally:
            self._slots.put(slot)

    def _compile(self, seen: Observation, picture: bytes) -> None:
        """Let a process compile the engine, for minutes, once; no question waits for it."""
        waiting = sum(job.state == "pending" for job in seen.state.jobs.values())
        if self._compiler is None and waiting >= MANY_WAITING:
            self._compiler = ChildProcess(_compile, (), ONE_THREAD)
            with suppress(OSError):
                self._compiler.connection.send(picture)

    def _as_simulated(self, seen: Observation) -> Observation:
        return seen if self._prepared is None else self._prepared(seen)


class _Work(NamedTuple):
    """A question to a process.

    Attributes:
        question: as JSON.
        picture: as MessagePack; empty: the process has it.
    """

    question: bytes
    futures: int
    seed: int
    version: int
    picture: bytes


class _Process:
    """A process that computes answers and keeps the last picture. It starts when it is needed."""

    def __init__(self, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._child: ChildProcess | None = None
        self._version = 0
        self._is_over = False

    def answer(self, work: _Work, timeout_s: float) -> bytes:
        """Return an answer as JSON.

        Raises:
            ForecastError: the question does not fit the cluster.
            WorkerError: the process has ended or failed, or took too long.
        """
        if self._is_over:
            raise WorkerError("the twin ends")
        child = self._child
        if child is None:
            child = self._child = ChildProcess(_serve, (self._memory_mb,), ONE_THREAD)
            self._version = 0
        if self._version == work.version:
            work = work._replace(picture=b"")
        outcome = self._outcome(child, work, timeout_s)
        if outcome is None:
            raise WorkerError(f"the answer could not be computed: a process {self.stop()}")
        self._version = work.version
        is_answer, data = outcome
        if not is_answer:
            raise ForecastError(data.decode())
        return data

    def _outcome(
        self, child: ChildProcess, work: _Work, timeout_s: float
    ) -> tuple[bool, bytes] | None:
        """Return whether there is an answer, and it or the error; None: the process has ended."""
        with suppress(OSError):  # it has ended
            child.connection.send(tuple(work))
        try:
            child.starts()
        except ExecutorError as error:
            self.stop()
            raise WorkerError(f"the answer could not be computed: {error}") from None
        until_s = time.monotonic() + timeout_s
        while not connection.wait(child.signs(), STOP_S):
            if self._is_over or time.monotonic() > until_s:
                self.stop()
                raise WorkerError(f"the answer takes more than {timeout_s:g} s; ask for less")
        found: tuple[bool, bytes] | None = child.receive()
        return found

    def stop(self) -> str:
        """End the process, and return how it ended."""
        child, self._child = self._child, None
        return "has ended" if child is None else child.stop()

    def end(self) -> None:
        """Let the thread that waits for an answer end the process soon; no other starts."""
        self._is_over = True


def _compile(calls: connection.Connection) -> None:
    """Compile the engine for a picture, and for questions about changes, at low priority."""
    os.nice(NICE)
    seen = msgspec.msgpack.decode(calls.recv(), type=Observation)
    with suppress(HpcosimError):  # a question about this picture tells the error
        state = adopted(seen).state
        compile_engine(state)
        compile_engine(state, end_of_time(state, (), state.now_s))


def _serve(calls: connection.Connection, memory_mb: int) -> None:
    """Answer questions until the parent closes the connection."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mb << 20, resource.RLIM_INFINITY))
    version, picture = 0, None
    while True:
        work = _Work(*calls.recv())
        try:
            if work.picture:
                seen = msgspec.msgpack.decode(work.picture, type=Observation)
                version, picture = work.version, Picture(seen, adopted(seen))
            assert picture is not None
            assert version == work.version
            question = msgspec.json.decode(work.question, type=AnyQuestion)
            found = answer(question, picture, Effort(work.futures, work.seed))
            calls.send((True, msgspec.json.encode(found)))
        except HpcosimError as error:
            calls.send((False, " ".join(str(error).split()).encode()))
