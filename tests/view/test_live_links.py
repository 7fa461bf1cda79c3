"""The link between a worker and the process of the live page: messages, restarts, stuck pages."""

from __future__ import annotations

import asyncio
import base64
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import hpcosim_view.live.page_process
from hpcosim_scenarios.running.library import Library
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.pace import PaceState
from hpcosim_server.service.service import Service
from hpcosim_view.live.hub import GONE, Feed, Hub
from hpcosim_view.live.messages import (
    ChangePace,
    FrameMade,
    PaceChange,
    SessionCounted,
    SessionOpened,
    Stats,
    decode_command,
    decode_report,
    encode_command,
    encode_report,
)
from hpcosim_view.live.page_process import WorkerLink
from hpcosim_view.live.source import QUEUE
from hpcosim_view.live.web_server import WorkerReports
from hpcosim_view.run.frame import Frame, append, decode_frame
from hpcosim_view.run.recording import RecordingReader
from support.live_sessions import Player, scenario_in

SOON_S = 60.0


class Stage:
    """A worker with a link, and the process of the page that it finds; both in this process.

    Args:
        folder: folder for the socket and the scenario.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "live.sock"
        self.link = WorkerLink(self.path, 1, RecordingReader)
        library = Library([scenario_in(folder)])
        self.service = Service(library.open, watch=Watch(self.link.sources))
        self.hub = Hub()
        self._reports: WorkerReports | None = None

    async def open_page(self, before: int = 0) -> None:
        """Start another process of the page."""
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        self.hub = Hub(before=before)
        self._reports = WorkerReports(self.hub)
        await self._reports.serve(listener)

    async def kill_page(self) -> None:
        """Break all its connections."""
        if self._reports is not None:
            await self._reports.close()
        self._reports = None

    async def feed(self, player: Player) -> Feed:
        """Return the feed of a session, when it is there."""
        await until(lambda: player.label in self.hub.feeds)
        return self.hub.feeds[player.label]

    def look(self) -> bool:
        """Look at the sessions, as the loop of a worker does between requests."""
        return self.link.sources.ticked()


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a function returns a true value."""
    until_s = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < until_s
        await asyncio.sleep(0.002)


def on_stage(folder: Path, check: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """Run a check with a stage."""

    async def checked() -> None:
        stage = Stage(folder)
        try:
            await asyncio.wait_for(check(stage), SOON_S)
        finally:
            await stage.kill_page()
            await asyncio.to_thread(stage.link.end, SOON_S, all_frames=False)

    asyncio.run(checked())


async def seen(hub: Hub, feed: Feed) -> Frame:
    """Return all frames of a session, once it is over."""
    events = [event async for event in hub.events(feed, 0) if event.startswith(b"id: ")]
    data = [base64.b64decode(event.partition(b"\ndata: ")[2]) for event in events]
    return append(map(decode_frame, data))


def is_whole(frame: Frame, player: Player) -> bool:
    """Return whether a frame has the whole run of a player.

    Boxes and states of power may differ between frames, see `RecordingReader`.
    """
    whole = RecordingReader(player.opened).frame()
    names = [name for name in whole.columns if name.startswith(("job.", "start.", "end."))]
    same = (frame.columns[name].tobytes() == whole.columns[name].tobytes() for name in names)
    return all(same) and frame.about["ended_because"] == "every job is over"


def test_a_frame_between_processes_stays_as_it_is(tmp_path: Path) -> None:
    """Columns, facts and flags are those that were sent."""
    player = Player(Service(Library([scenario_in(tmp_path)]).open))
    player.play()
    made = FrameMade("a", RecordingReader(player.opened).frame(), is_behind=True, is_last=False)
    read = decode_report(encode_report(made))
    assert isinstance(read, FrameMade)
    assert (read.label, read.is_behind, read.is_last) == ("a", True, False)
    assert read.frame.about == made.frame.about
    for name, column in made.frame.columns.items():
        assert read.frame.columns[name].dtype == column.dtype
        assert read.frame.columns[name].tobytes() == column.tobytes()


@pytest.mark.parametrize("change", [PaceChange(speed=None), PaceChange(step=3)])
def test_a_change_of_pace_between_processes_has_one_field(change: PaceChange) -> None:
    """A speed of None is not the same as no speed."""
    command = ChangePace("a", change)
    assert decode_command(encode_command(command)) == command


def test_a_viewer_in_another_process_gets_the_run(tmp_path: Path) -> None:
    """The page shows a session of a worker from its begin to its end."""

    async def check(stage: Stage) -> None:
        await stage.open_page()
        player = Player(stage.service)
        feed = await stage.feed(player)
        viewer = asyncio.create_task(seen(stage.hub, feed))
        await asyncio.sleep(0)
        player.play(10)
        stage.look()
        await until(lambda: feed.stats.requests == player.simulation.requests)
        player.play()
        assert is_whole(await viewer, player)
        assert feed.over == "every job is over"

    on_stage(tmp_path, check)


def test_a_change_of_pace_reaches_a_paused_session_without_a_look(tmp_path: Path) -> None:
    """The controls of the page work at once, not with the next look."""

    async def check(stage: Stage) -> None:
        await stage.open_page()
        player = Player(stage.service)
        feed = await stage.feed(player)
        feed.change_pace(PaceChange(paused=True))
        assert feed.live()["paused"] is True
        (source,) = stage.link.sources._all.values()
        await until(lambda: source.pace.state.paused)

    on_stage(tmp_path, check)


def test_the_next_process_of_the_page_gets_the_sessions_from_their_begin(tmp_path: Path) -> None:
    """Sessions that are open, or closed and not seen, are sent again."""

    async def check(stage: Stage) -> None:
        await stage.open_page()
        closed, player = Player(stage.service, "closed"), Player(stage.service)
        closed.play()
        player.play(10)
        feed = await stage.feed(player)
        feed.add_viewer()
        await until(lambda: stage.look() or feed.history.entries)
        await stage.kill_page()
        player.play(10)
        await stage.open_page(before=10**6)
        feed = await stage.feed(player)
        assert feed.history.last == 10**6
        viewer = asyncio.create_task(seen(stage.hub, feed))
        await asyncio.sleep(0)
        player.play()
        assert is_whole(await viewer, player)
        assert is_whole(await seen(stage.hub, await stage.feed(closed)), closed)

    on_stage(tmp_path, check)


def test_without_a_page_sessions_go_on(tmp_path: Path) -> None:
    """A worker that finds no process of the page plays its sessions, and sends them later."""

    async def check(stage: Stage) -> None:
        player = Player(stage.service)
        player.play()
        assert player.ended
        await stage.open_page()
        assert is_whole(await seen(stage.hub, await stage.feed(player)), player)

    on_stage(tmp_path, check)


def test_a_page_that_hangs_holds_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames and counters that are not taken are bounded; later the page has everything."""
    monkeypatch.setattr(hpcosim_view.live.page_process, "MOST_COUNTS", 20)

    async def check(stage: Stage) -> None:
        await stage.open_page()
        player = Player(stage.service)
        feed = await stage.feed(player)
        viewer = asyncio.create_task(seen(stage.hub, feed))
        await asyncio.sleep(0)
        (source,) = stage.link.sources._all.values()
        await until(lambda: source._is_watched)
        for _ in range(100):  # the loop of the page does not run in between
            if not player.ended:
                player.play(1)
            stage.look()
        assert source._made <= QUEUE
        assert source._stats.skipped > 0
        player.play()
        assert is_whole(await viewer, player)

    on_stage(tmp_path, check)


def test_a_worker_that_leaves_sends_what_nobody_watched(tmp_path: Path) -> None:
    """A late viewer gets a session whose worker has ended for want of sessions."""

    async def check(stage: Stage) -> None:
        await stage.open_page()
        player = Player(stage.service)
        player.play()
        feed = await stage.feed(player)
        await asyncio.to_thread(stage.link.end, SOON_S, all_frames=True)
        await until(lambda: feed.complete)
        assert is_whole(await seen(stage.hub, feed), player)

    on_stage(tmp_path, check)


@pytest.mark.parametrize("restores", [True, False])
def test_a_session_of_a_killed_worker_is_shown_again_or_ends(
    tmp_path: Path, restores: bool
) -> None:
    """A viewer starts again if the next worker has the session, otherwise learns of its end."""

    async def check(stage: Stage) -> None:
        await stage.open_page()
        player = Player(stage.service)
        feed = await stage.feed(player)
        feed.add_viewer()
        await until(lambda: stage.look() or feed.history.entries)
        number = feed.history.last
        connection = stage.link._socket
        assert connection is not None
        if not restores:
            stage.link.sources._all.clear()
        stage.link._disconnect(connection)
        stage.link.note_restored()
        if not restores:
            await until(lambda: feed.over)
            assert feed.over == GONE
            return
        await until(lambda: stage.look() or feed.history.last > number + 1)
        assert feed.history.after(number) is feed.history.entries[0]
        assert feed.history.entries[0].first > number + 1
        assert not feed.over

    on_stage(tmp_path, check)


def test_a_feed_ignores_reports_of_a_process_that_it_no_longer_has() -> None:
    """Counters of a killed worker that arrive late do not replace those of the next one."""
    hub = Hub()
    opened = SessionOpened("a", "s", "p", 1, PaceState(None, False), "")
    old, new = (lambda _: None), (lambda _: None)
    for obey in (old, new):
        hub.take(opened, obey)
    hub.take(SessionCounted("a", Stats(requests=2), PaceState(None, False)), new)
    hub.take(SessionCounted("a", Stats(requests=9), PaceState(None, False)), old)
    assert hub.feeds["a"].stats.requests == 2
    assert hub.sessions == 1
