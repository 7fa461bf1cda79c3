"""The desk of a twin: caching, bounds, and the processes that compute answers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from hpcosim_twin.answers.changes import Change
from hpcosim_twin.answers.questions import AnyQuestion, ChangeQuestion, WaysQuestion
from hpcosim_twin.answers.record import Record
from hpcosim_twin.cluster.follow import Follower, FollowSettings, Snapshot
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.service.access import Viewer
from hpcosim_twin.service.desk import (
    BusyError,
    Desk,
    DeskSettings,
    NoPictureError,
    Rates,
    WorkerError,
)
from support.twin_sources import FakeSource
from support.twins import two_users

ANN = Viewer("ann", "own")


def ways(minutes: int) -> WaysQuestion:
    """Return a question."""
    return WaysQuestion((f"-n 1 -t {minutes}",))


class CountingDesk(Desk):
    """A desk whose answers are computed when a test says so.

    Attributes:
        computed: the questions that were computed.
    """

    computed: list[AnyQuestion]
    gate: asyncio.Event
    failure: Exception | None = None

    def _compute(self, question: AnyQuestion, found: Snapshot) -> bytes:
        self.computed.append(question)
        if self.failure is not None:
            raise self.failure
        return msgspec.json.encode({"at_s": found.observation.state.at_s, "jobs": []})


def counting_desk(**settings: Any) -> tuple[CountingDesk, FakeSource, Follower]:
    """Return a desk with the source and the follower of its cluster."""
    source = FakeSource(two_users())
    follower = Follower(source, FollowSettings(fresh_s=1e9))
    desk = CountingDesk(follower, Record(), DeskSettings(**settings))
    desk.computed = []
    return desk, source, follower


def run(scene: Callable[[], Coroutine[Any, Any, None]], desk: Desk) -> None:
    """Run a scene with an open desk."""

    async def whole() -> None:
        with desk:
            await scene()

    asyncio.run(whole())


def test_identical_questions_about_one_picture_are_computed_once() -> None:
    """At once or later; a change of the cluster makes a new answer."""
    desk, source, follower = counting_desk()
    follower.step()

    async def scene() -> None:
        first = await asyncio.gather(*(desk.ask(ways(5)) for _ in range(20)))
        assert all(each == first[0] for each in first)
        await desk.ask(ways(5))
        await desk.ask(ways(6))
        assert desk.computed == [ways(5), ways(6)]
        source.cluster.submit(run_s=1000.0)
        follower.step()
        await desk.ask(ways(5))
        assert len(desk.computed) == 3
        for _ in range(2):
            await desk.ask(ChangeQuestion(Change(settings={"a": 1})))
        assert len(desk.computed) == 4

    run(scene, desk)


def test_errors_are_not_kept() -> None:
    """The next one who asks has a new try."""
    desk, _, follower = counting_desk()
    follower.step()

    async def scene() -> None:
        desk.failure = ForecastError("no")
        with pytest.raises(ForecastError):
            await desk.ask(ways(5))
        desk.failure = None
        assert (await desk.ask(ways(5)))["jobs"] == []
        assert desk.waiting == 0

    run(scene, desk)


def test_questions_beyond_the_bounds_are_turned_away() -> None:
    """Of one user, and of all together; others are served."""
    desk, _, follower = counting_desk(most_waiting=3, most_of_user=2)
    follower.step()

    async def scene() -> None:
        asked = [asyncio.create_task(desk.ask(ways(at), ANN)) for at in range(1, 4)]
        asked += [asyncio.create_task(desk.ask(ways(at))) for at in range(11, 14)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        kinds = [isinstance(each, BusyError) for each in found]
        assert kinds == [False, False, True, False, True, True]
        assert str(found[2]) == "2 questions of 'ann' wait; ask again in 10 s"
        assert str(found[5]) == "3 questions wait; ask again in 10 s"
        assert desk.turned_away == 3
        await desk.ask(ways(3), ANN)

    run(scene, desk)


def test_a_desk_without_a_picture_says_why() -> None:
    """Such as a controller that does not answer from the start."""
    desk, source, follower = counting_desk()
    source.is_down = True
    follower.step()

    async def scene() -> None:
        with pytest.raises(NoPictureError, match="Unable to contact slurm controller"):
            await desk.ask(ways(5))

    run(scene, desk)


def test_rates_fill_with_time() -> None:
    """A burst, then so many per second, for each user."""
    now_s = 0.0
    rates = Rates(2.0, 3, lambda: now_s)
    assert [rates.take("ann") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert rates.take("bob") == 0.0
    now_s = 0.5
    assert [rates.take("ann") for _ in range(2)] == [0.0, 0.5]
    now_s = 1000.0
    assert [rates.take("ann") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


@pytest.mark.slow
def test_a_process_that_is_killed_or_too_slow_costs_one_answer() -> None:
    """The next question starts a new one."""
    source = FakeSource(two_users())
    follower = Follower(source)
    follower.step()
    quick = Desk(follower, Record(), DeskSettings(futures=1))

    async def scene() -> None:
        await quick.ask(ways(5))
        child = quick._processes[0]._child
        assert child is not None
        pid = child._process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerError, match="killed by SIGKILL"):
            await quick.ask(ways(6))
        assert (await quick.ask(ways(6)))["samples"] == 1

    run(scene, quick)
    slow = Desk(follower, Record(), DeskSettings(futures=10_000, timeout_s=0.5))

    async def too_slow() -> None:
        with pytest.raises(WorkerError, match=r"takes more than 0\.5 s"):
            await slow.ask(ways(5))

    run(too_slow, slow)
