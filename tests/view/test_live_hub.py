"""The hub of the live view: late, slow, returning and absent viewers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

import hpcosim_view.live.hub
import hpcosim_view.live.source
from hpcosim_scenarios.running.library import Library
from hpcosim_server.service.observer import Ticker, Watch
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_view.live.app import registry_of
from hpcosim_view.live.hub import Feed, History, Hub
from hpcosim_view.live.page_process import sources_of
from hpcosim_view.live.source import MAX_CLOSED, QUEUE
from hpcosim_view.run.frame import Frame, append, decode_frame, encode_frame, frame
from hpcosim_view.run.recording import RecordingReader
from support.live_sessions import Player, scenario_in

JOB = ("submit_s", "requested_s", "cores", "placement", "user", "group", "partition")


class Event:
    """One server-sent event."""

    def __init__(self, text: bytes) -> None:
        fields = dict(line.split(": ", 1) for line in text.decode().strip().split("\n"))
        self.kind = fields.get("event", "frame" if "data" in fields else "comment")
        self.number = int(fields.get("id", 0))
        self.data = fields.get("data", "")

    @property
    def frame(self) -> Frame:
        """The frame of the event."""
        return decode_frame(base64.b64decode(self.data))


async def next_event(events: AsyncGenerator[bytes, None]) -> Event:
    """Return the next event that is no comment."""
    while True:
        event = Event(await anext(events))
        if event.kind != "comment":
            return event


async def all_events(events: AsyncGenerator[bytes, None]) -> list[Event]:
    """Return the events up to the end of a session."""
    found = [Event(text) async for text in events]
    assert found[-1].kind == "end"
    return [event for event in found if event.kind != "comment"]


def frames_of(events: list[Event]) -> Frame:
    """Return the joined frames of events."""
    return append(event.frame for event in events if event.kind == "frame")


def in_loop(
    folder: Path,
    check: Callable[[Hub, Player, Feed], Coroutine[Any, Any, None]],
    reader: Callable[[Opened], Any] = RecordingReader,
) -> None:
    """Run a check with a hub, a session and its feed."""

    async def checked() -> None:
        hub = Hub()
        sources = sources_of(hub, asyncio.get_running_loop(), reader)
        service = Service(Library([scenario_in(folder)]).open, watch=Watch(sources))
        player = Player(service)
        await asyncio.sleep(0)
        await check(hub, player, hub.feeds[player.label])

    asyncio.run(checked())


def look(player: Player) -> bool:
    """Look at the sessions of a service, as its loop does between requests."""
    observer = player._service._observer
    assert observer is not None
    return observer.ticked()


def columns_of(whole: Frame) -> dict[str, list[Any]]:
    """Return the columns of a frame as lists, without those of unknown energies."""
    return {name: column.tolist() for name, column in whole.columns.items() if "energy" not in name}


def test_early_and_late_viewers_get_the_same_run(tmp_path: Path) -> None:
    """Viewers that come at the begin, in the middle and after the end have the same columns."""

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        early = asyncio.create_task(all_events(hub.events(feed, 0)))
        await asyncio.sleep(0)
        player.play(10)
        look(player)
        await asyncio.sleep(0.05)
        middle = asyncio.create_task(all_events(hub.events(feed, 0)))
        await asyncio.sleep(0)
        player.play()
        seen = [frames_of(await early), frames_of(await middle)]
        seen.append(frames_of(await all_events(hub.events(feed, 0))))
        assert columns_of(seen[0]) == columns_of(seen[1]) == columns_of(seen[2])
        assert len(seen[0].columns["end.job"]) == 30
        assert seen[0].about["complete"] is True
        assert seen[0].about["live"]["requests"] == player.simulation.requests
        assert feed.viewers == 0

    in_loop(tmp_path, check)


def test_a_late_viewer_gets_the_run_in_small_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is limited and asks for the next one; at the end the viewer has everything."""
    monkeypatch.setattr(hpcosim_view.live.source, "WORK", 3)

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        player.play(20)
        viewer = asyncio.create_task(all_events(hub.events(feed, 0)))
        await asyncio.sleep(0)
        assert look(player)
        assert look(player)
        player.play()
        events = await viewer
        assert len(events) > 10
        whole = RecordingReader(player.opened).frame()
        assert columns_of(frames_of(events)) == columns_of(whole)
        times_s = [event.frame.about["now_s"] for event in events if event.kind == "frame"]
        assert times_s == sorted(times_s)

    in_loop(tmp_path, check)


def test_the_run_so_far_is_read_to_the_present(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One frame of the run has all that several limited looks read."""
    monkeypatch.setattr(hpcosim_view.live.source, "WORK", 3)

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        player.play(20)
        coming = asyncio.create_task(feed.whole(30.0))
        await asyncio.sleep(0)
        while not coming.done():
            look(player)
            await asyncio.sleep(0)
        now = RecordingReader(player.opened).frame()
        whole = decode_frame(await coming)
        assert columns_of(whole) == columns_of(now)
        assert whole.about["now_s"] == player.simulation.now_s

    in_loop(tmp_path, check)


def test_a_ticker_comes_early_while_it_is_asked_to() -> None:
    """The next call leaves as much time as the last one took, and then the whole interval."""
    at_s = [0.0]
    calls: list[float] = []

    def call() -> bool:
        calls.append(at_s[0])
        at_s[0] += 0.0625
        return len(calls) < 3

    ticker = Ticker(call, lambda: at_s[0])
    while at_s[0] < 1.0:
        ticker.tick()
        at_s[0] += 2**-10
    assert calls[:4] == pytest.approx([0.0, 0.125, 0.25, 0.5], abs=0.01)


def test_a_returning_viewer_gets_only_what_is_new(tmp_path: Path) -> None:
    """With the number of its last frame a viewer goes on after it, without a restart."""

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        first = hub.events(feed, 0)
        coming = asyncio.create_task(next_event(first))
        await asyncio.sleep(0)
        player.play(10)
        look(player)
        before = await coming
        await first.aclose()
        player.play()
        after = await all_events(hub.events(feed, before.number))
        assert "restart" not in [event.kind for event in after]
        jobs = frames_of([before, *after]).columns["job.id"].tolist()
        assert jobs == sorted(set(jobs))
        assert len(jobs) == 30
        assert len(after[0].frame.columns["job.id"]) < 30

    in_loop(tmp_path, check)


@pytest.mark.parametrize("number", [99, 10**12])
def test_a_viewer_with_an_unknown_frame_starts_again(tmp_path: Path, number: int) -> None:
    """The page is told to begin anew if the server does not know what it has."""

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        player.play()
        events = await all_events(hub.events(feed, number))
        assert events[0].kind == "restart"
        assert len(frames_of(events).columns["job.id"]) == 30

    in_loop(tmp_path, check)


def test_without_viewers_no_frame_is_made(tmp_path: Path) -> None:
    """Without viewers the simulation makes neither a frame nor a reader."""

    def reader(_: Opened) -> Any:
        raise AssertionError("a frame is made")

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        player.play(20)
        look(player)
        await asyncio.sleep(0)
        assert feed.stats.requests == player.simulation.requests
        assert not feed.over

    in_loop(tmp_path, check, reader)


def test_the_queue_is_bounded_and_loses_nothing(tmp_path: Path) -> None:
    """While the event loop is busy the simulation goes on, and the next frame has everything."""

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        viewer = asyncio.create_task(all_events(hub.events(feed, 0)))
        await asyncio.sleep(0)
        for _ in range(3 * QUEUE):  # the loop does not run in between
            player.play(1)
            look(player)
        await asyncio.sleep(0)
        assert feed.stats.skipped >= QUEUE
        player.play()
        jobs = frames_of(await viewer).columns["job.id"].tolist()
        assert jobs == sorted(set(jobs))
        assert len(jobs) == 30

    in_loop(tmp_path, check)


def test_a_failing_view_does_not_end_the_simulation(tmp_path: Path) -> None:
    """An error in the live view is logged; the session goes on without it."""

    def reader(_: Opened) -> Any:
        raise ValueError("a bug")

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        viewer = asyncio.create_task(all_events(hub.events(feed, 0)))
        await asyncio.sleep(0)
        look(player)
        player.play()
        assert player.ended
        assert "failed" in (await viewer)[-1].data

    in_loop(tmp_path, check, reader)


def test_a_server_that_ends_lets_viewers_read_to_the_end(tmp_path: Path) -> None:
    """Draining ends the streams of open sessions after their frames."""

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        events = hub.events(feed, 0)
        coming = asyncio.create_task(next_event(events))
        await asyncio.sleep(0)
        player.play(10)
        look(player)
        drained = asyncio.create_task(hub.drain(30.0))
        seen = [await coming]
        while seen[-1].kind == "frame":
            seen.append(await next_event(events))
        assert len(frames_of(seen).columns["job.id"]) == len(player.simulation.recording)
        assert seen[-1].kind == "closing"
        await events.aclose()
        await drained

    in_loop(tmp_path, check)


def test_a_server_does_not_wait_for_a_viewer_that_does_not_read(tmp_path: Path) -> None:
    """Draining ends after its timeout."""

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        stuck = hub.events(feed, 0)
        await anext(stuck)
        await asyncio.wait_for(hub.drain(0.1), 30.0)
        assert hub.viewers == 1
        await stuck.aclose()

    in_loop(tmp_path, check)


def test_old_closed_sessions_are_forgotten_but_counted(tmp_path: Path) -> None:
    """The memory for closed sessions is bounded; the counters keep their sum."""

    async def check(hub: Hub, player: Player, feed: Feed) -> None:
        player.play()
        await asyncio.sleep(0)
        feed.stats = feed.stats._replace(skipped=7)
        requests = player.simulation.requests
        for at in range(MAX_CLOSED + 3):
            other = Player(player._service, f"other {at}")
            await asyncio.sleep(0)
            other.play()
        await asyncio.sleep(0)
        assert len(hub.feeds) == MAX_CLOSED + 1
        assert player.label not in hub.feeds
        total = hub.retired.requests + sum(f.stats.requests for f in hub.feeds.values())
        assert total == requests * (MAX_CLOSED + 4)
        assert "hpcosim_frames_skipped_total 7.0" in generate_latest(registry_of(hub)).decode()

    in_loop(tmp_path, check)


def test_a_long_history_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged frames have the same rows; a viewer within them starts again."""
    monkeypatch.setattr(hpcosim_view.live.hub, "MAX_ENTRIES", 4)
    history = History()
    for job in range(6):
        one = frame({"now_s": float(job)}, {"job.id": [job]} | {f"job.{name}": [0] for name in JOB})
        history.add(encode_frame(one))
        if older := history.older_half():
            history.replace(older, hpcosim_view.live.hub.merged(older))
    assert len(history.entries) <= 5
    assert history.last == 6
    whole = decode_frame(hpcosim_view.live.hub.merged(history.entries))
    assert whole.columns["job.id"].tolist() == list(range(6))
    within = history.entries[0]
    assert within.last > 1
    assert history.after(1) == within
    following = history.after(within.last)
    assert following is not None
    assert following.first == within.last + 1
