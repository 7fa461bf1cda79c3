"""`hpcosim show top`: a run in the terminal, played back or live."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from hpcosim_view.live.client import LiveView
from hpcosim_view.run.frame import frame
from hpcosim_view.run.moment import moment
from hpcosim_view.terminal.run_source import Following, Playback
from hpcosim_view.terminal.top import Order, running_rows, waiting_rows
from support.frames_by_hand import HOSTILE, small_run
from support.live_app import LiveServer
from support.processes import SOON_S

pytest.importorskip("textual", reason="needs textual")
from hpcosim_view.terminal.top import Top

Pilot = Any


def played(scene: Callable[[Pilot, Top], Awaitable[None]], source: Any, **options: Any) -> None:
    """Run a scene in the application; time passes only by `tick`."""

    async def play() -> None:
        top = Top(source, refresh_s=3600)
        async with top.run_test(**options) as pilot:
            await scene(pilot, top)

    asyncio.run(play())


async def until(pilot: Pilot, top: Top, condition: Callable[[], bool]) -> None:
    """Update the application until a condition holds."""
    async with asyncio.timeout(SOON_S):
        while not condition():
            top.show()
            await pilot.pause(0.01)


def text_of(top: Top, name: str) -> str:
    """Return the text of a widget."""
    return str(top.query_one(f"#{name}").render())


def cells(top: Top, name: str) -> list[list[str]]:
    """Return the cells of a table."""
    table: Any = top.query_one(f"#{name}")
    return [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]


def test_a_playback_shows_the_cluster_and_its_jobs() -> None:
    """The figures and tables are those of the run at the time that is shown."""

    async def scene(pilot: Pilot, top: Top) -> None:
        for _ in range(4):  # to the submission of job 4
            await pilot.press("n")
        assert text_of(top, "head").startswith("0:20  playback, 1.83333 s/s, paused  small, easy")
        assert text_of(top, "nodes") == "nodes    1 allocated, 1 mixed, 1 idle"
        assert text_of(top, "cores").startswith("cores    7 of 10, 70.0 %")
        assert text_of(top, "power").startswith("power    101 W")
        assert text_of(top, "queue").startswith("queue    1 waiting")
        assert cells(top, "running")[0] == [
            *("1", "ann", "5", "0:15", "1:45", "2", "node[0-1]"),
        ]
        assert cells(top, "waiting") == [["4", "", "2", "0:00", "0:30", "", "Priority"]]

    played(scene, Playback(small_run()), size=(120, 40))


def test_the_power_after_the_last_event_is_that_of_its_nodes_or_unknown() -> None:
    """The last power of a results folder is not held when all jobs have ended."""
    run = small_run(now_s=100.0)
    before = {name: run.columns[name][:-2] for name in run.columns if name.startswith("watts.")}
    folder = run._replace(columns={**run.columns, **before})

    async def scene(pilot: Pilot, top: Top, power: str) -> None:
        await pilot.pause()
        assert text_of(top, "power") == f"power    {power}"

    for shown, at_s, power in ((run, 100, "100 W"), (folder, 99, "130 W"), (folder, 100, "-")):
        source = Playback(shown, speed=1)
        source.advance(at_s)
        played(partial(scene, power=power), source, size=(120, 40))


def test_a_terminal_of_80_columns_shows_all_keys() -> None:
    """The footer is not cut off."""

    async def scene(pilot: Pilot, top: Top) -> None:
        await pilot.pause()
        keys: list[Any] = list(top.query("FooterKey"))
        assert {"q", "tab", "space", "n", "+", "-", "s", "r"} == {key.key_display for key in keys}
        assert max(key.region.right for key in keys) <= 80
        await pilot.press("tab")
        assert top.focused is top.query_one("#waiting")

    played(scene, Playback(small_run()), size=(80, 24))


def test_keys_set_the_pace_of_a_playback() -> None:
    """+ doubles the speed, - halves it, space pauses, n goes to the next event."""
    source = Playback(small_run(), speed=10)

    async def scene(pilot: Pilot, top: Top) -> None:
        await pilot.press("+", "+", "-")
        assert source.status() == "playback, 20 s/s"
        source.advance(2)
        assert source.now_s() == 40
        await pilot.press("n")
        assert (source.now_s(), source.status()) == (60, "playback, 20 s/s, paused")
        source.advance(2)
        assert source.now_s() == 60
        await pilot.press("space")
        source.advance(60)
        assert (source.now_s(), source.status()) == (110, "playback, 20 s/s, end of the run")
        await pilot.press("space")
        assert source.now_s() == 0

    played(scene, source)


def test_tables_are_sorted_by_keys_and_headers() -> None:
    """S sorts by the next column, r reverses, and a click on a header sorts by it."""
    source = Playback(small_run())
    source.advance(15)

    async def scene(pilot: Pilot, top: Top) -> None:
        top.query_one("#running").focus()
        await pilot.press("s", "r")
        assert text_of(top, "running-title") == "running jobs: 2, by JOBID down"
        assert [row[0] for row in cells(top, "running")] == ["2", "1"]
        await pilot.click("#running", offset=(8, 0))
        assert text_of(top, "running-title") == "running jobs: 2, by USER"

    played(scene, source, size=(120, 40))


def test_rows_are_sorted_by_each_column() -> None:
    """Unknown values come last in both directions."""
    run = small_run()
    then = moment(run, 25.0)
    assert [row[0] for row in waiting_rows(run, then, Order(1)).cells] == ["6", "4"]
    assert [row[0] for row in waiting_rows(run, then, Order(4, True)).cells] == ["4", "6"]
    assert [row[0] for row in waiting_rows(run, then, Order(6)).cells] == ["6", "4"]
    assert [row[0] for row in running_rows(run, then, Order(2)).cells] == ["2", "1"]


def test_a_table_has_a_limited_number_of_rows() -> None:
    """The title states how many jobs there are."""
    count = 1000
    unknown = dict.fromkeys(("job.user", "job.group", "job.partition"), [-1] * count)
    run = frame(
        {"scenario": "x", "scheduler": "y", "seed": 0, "start_s": 0, "now_s": 9, "nodes": []},
        {
            **{f"job.{name}": [0] * count for name in ("submit_s", "requested_s", "placement")},
            **unknown,
            "job.id": range(count),
            "job.cores": [1] * count,
        },
    )
    rows = waiting_rows(run, moment(run, 5.0), Order(0, True))
    assert (rows.total, len(rows.cells), rows.cells[0][0]) == (1000, 200, "999")


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (300, 80)])
def test_hostile_names_do_nothing_at_any_size(size: tuple[int, int]) -> None:
    """Markup is text, control characters are replaced, and a small terminal is no error."""
    run = small_run(
        scenario="[red]a[/nothing]" + HOSTILE,
        users=["[@click=app.quit]x[/]", HOSTILE],
        reasons=["[bold", "\x1b]0;title\x07" + "\u202e" * 300],
    )
    source = Playback(run)
    source.advance(13.7)

    async def scene(pilot: Pilot, top: Top) -> None:
        await pilot.pause()
        assert next(row[1] for row in cells(top, "running")) == "[@click=app.quit]x[/]"
        texts = [text_of(top, "head"), *(cell for row in cells(top, "waiting") for cell in row)]
        assert all(text.isprintable() and len(text) < 300 for text in texts)
        assert "[red]a[/nothing]" in texts[0]
        assert top.is_running

    played(scene, source, size=size)


def test_a_run_that_goes_on_while_it_is_shown_is_no_error() -> None:
    """A time after the frame at hand, or before it, is shown as the nearest one it has."""
    source = Playback(small_run())

    async def scene(pilot: Pilot, top: Top) -> None:
        for at_s, shown in ((1e9, "1:50"), (-1.0, "0:00")):
            source.now_s = lambda at_s=at_s: at_s  # type: ignore[method-assign, misc]
            top.show()
            assert text_of(top, "head").startswith(shown)

    played(scene, source, size=(120, 40))


def test_a_tick_while_the_application_ends_is_no_error() -> None:
    """The widgets go before the timer."""

    async def scene(pilot: Pilot, top: Top) -> None:
        await top.query("*").remove()
        top.tick()
        await pilot.pause()
        assert top.is_running

    played(scene, Playback(small_run()))


def test_a_live_session_grows_until_its_end() -> None:
    """Frames appear when they arrive; the end is shown with its reason."""
    with LiveServer() as server:
        first = small_run(ended_because="", now_s=10.0, live={"speed": 3600, "paused": False})
        server.add("one", first)
        source = Following(LiveView(server.url), "one")

        async def scene(pilot: Pilot, top: Top) -> None:
            await until(pilot, top, lambda: "live, 3,600 s/s" in text_of(top, "head"))
            server.add("one", frame({"now_s": 25.0, "ended_because": ""}, {}))
            await until(pilot, top, lambda: text_of(top, "head").startswith("0:25"))
            assert [row[0] for row in cells(top, "waiting")] == ["4", "6"]
            server.add("one", frame({"now_s": 110.0, "ended_because": "done"}, {}))
            await until(pilot, top, lambda: "over: over" in text_of(top, "head"))

        played(scene, source, size=(120, 40))


def test_keys_set_the_pace_of_a_live_session() -> None:
    """The server receives the changes that keys ask for."""
    with LiveServer() as server:
        live: dict[str, Any] = {"speed": None, "paused": False}
        server.add("one", small_run(ended_because="", live=live))
        source = Following(LiveView(server.url), "one")

        async def scene(pilot: Pilot, top: Top) -> None:
            await until(pilot, top, lambda: "full speed" in text_of(top, "head"))
            for number, key in enumerate(("+", "space", "n", "-"), -1):
                await pilot.press(key)
                await until(pilot, top, partial(more_than, server.changes, number))
            server.add("one", frame({"now_s": 111.0, "live": {"speed": 8.0, "paused": True}}, {}))
            await until(pilot, top, lambda: "8 s/s, paused" in text_of(top, "head"))
            for number, key in enumerate(("n", "space", "+"), 3):
                await pilot.press(key)
                await until(pilot, top, partial(more_than, server.changes, number))

        played(scene, source, size=(120, 40))
        assert [change for _, change in server.changes] == [
            *({"paused": True}, {"paused": True}, {"speed": 86_400.0}),
            *({"step": 1}, {"paused": False}, {"speed": 16.0}),
        ]


def test_a_server_that_goes_away_is_shown_and_tried_again() -> None:
    """The application stays, with the last state; keys do nothing."""
    server = LiveServer()
    with server:
        server.add("one", small_run(ended_because=""))
        source = Following(LiveView(server.url), "one", retry_s=0.01)

        async def scene(pilot: Pilot, top: Top) -> None:
            await until(pilot, top, lambda: bool(cells(top, "waiting")))
            server.stop()
            await until(pilot, top, lambda: "connection lost" in text_of(top, "head"))
            await pilot.press("space", "n", "+", "-")
            assert cells(top, "waiting")
            assert top.is_running

        server.stop = once(server.stop)  # type: ignore[method-assign]
        played(scene, source, size=(120, 40))


def more_than(items: Sequence[object], count: int) -> bool:
    """Return whether there are more items than a count."""
    return len(items) > count


def once(action: Callable[[], None]) -> Callable[[], None]:
    """Return an action that does nothing the second time."""
    left = [action]
    return lambda: left.pop()() if left else None


def test_frames_that_are_damaged_end_the_source() -> None:
    """What a server sends cannot end the application."""
    with LiveServer() as server:
        server.add(
            "one",
            frame({"now_s": 1.0}, {"start.job": [7], "start.time_s": [0.5], "start.boxes": [1]}),
        )
        source = Following(LiveView(server.url), "one")

        async def scene(pilot: Pilot, top: Top) -> None:
            await until(pilot, top, lambda: "the run is damaged" in text_of(top, "head"))
            assert top.is_running

        played(scene, source, size=(120, 40))
