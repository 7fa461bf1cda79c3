"""The application of `hpcosim show top`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.coordinate import Coordinate
from textual.css.query import NoMatches
from textual.widgets import DataTable, Footer, Label, Sparkline, Static

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_view.run.extracts import (
    POWER_UNITS,
    Floats,
    clean,
    power_of,
    printable,
    queue_of,
    used_cores_of,
    with_unit,
)
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.moment import Moment, RunningJobs, moment
from hpcosim_view.terminal.run_source import FACTOR, Source
from hpcosim_view.terminal.slurm_tables import duration, node_list, node_names

# The rows of the tables of running and waiting jobs.

ROWS = 200
"""Maximum number of rows of a table."""
WIDTH = 24
"""Maximum number of characters of a name."""

RUNNING = ("JOBID", "USER", "CORES", "TIME", "LEFT", "NODES", "NODELIST")
WAITING = ("JOBID", "USER", "CORES", "WAITED", "LIMIT", "START", "REASON")


SUSPENDED = "suspended on "


class Rows(NamedTuple):
    """The first rows of a table."""

    cells: Sequence[Sequence[str]]
    total: int


class Order(NamedTuple):
    """The order of a table.

    Attributes:
        column: number of the column; -1: the order of the queue, or of the starts.
        descending: whether the highest value is first.
    """

    column: int = -1
    descending: bool = False


def running_rows(frame: Frame, then: Moment, order: Order) -> Rows:
    """Return the rows of `RUNNING`, unknown values last; suspended jobs follow the running ones."""
    running, rests = _with_suspended(then), len(then.running.job)
    widths = np.array([sum(b - a + 1 for a, b in each) for each in running.nodes], np.int64)
    first = np.array([each[0][0] if each else -1 for each in running.nodes], np.int64)
    keys = [*_keys(frame, running.job), running.used_s, running.left_s, widths, first]
    chosen = _sorted(keys, order)
    users = _names(frame, "users", "job.user", running.job[chosen])
    names = node_names(frame)
    cells = [
        (
            *_first(frame, int(running.job[index]), user),
            duration(running.used_s[index]),
            duration(running.left_s[index]),
            str(widths[index]),
            f"{SUSPENDED if index >= rests else ''}{node_list(running.nodes[index][:20], names)}",
        )
        for index, user in zip(chosen.tolist(), users, strict=True)
    ]
    return Rows(cells, len(running.job))


def _with_suspended(then: Moment) -> RunningJobs:
    running, suspended = then.running, then.suspended
    nodes = [*running.nodes, *suspended.nodes]
    numbers = zip(running[:-1], suspended[:-1], strict=True)
    job, start_s, used_s, left_s = (np.concatenate(pair) for pair in numbers)
    return RunningJobs(job, start_s, used_s, left_s, nodes)


def waiting_rows(frame: Frame, then: Moment, order: Order) -> Rows:
    """Return the rows of `WAITING`, unknown values last."""
    waiting = then.waiting
    columns = frame.columns
    waited_s = then.at_s - columns["job.submit_s"][waiting.job]
    requested_s = columns["job.requested_s"][waiting.job]
    left_s = waiting.expected_start_s - then.at_s
    reasons = _ranks(frame.about["reasons"])[waiting.reason]
    keys = [*_keys(frame, waiting.job), waited_s, requested_s, left_s, reasons]
    chosen = _sorted(keys, order)
    users = _names(frame, "users", "job.user", waiting.job[chosen])
    names = [*(_name(name) for name in frame.about["reasons"]), ""]
    cells = [
        (
            *_first(frame, int(waiting.job[index]), user),
            duration(waited_s[index]),
            duration(requested_s[index]),
            "" if np.isnan(left_s[index]) else f"in {duration(left_s[index])}",
            names[waiting.reason[index]],
        )
        for index, user in zip(chosen.tolist(), users, strict=True)
    ]
    return Rows(cells, len(waiting.job))


def _keys(frame: Frame, jobs: NDArray[np.int64]) -> list[NDArray[Any]]:
    columns = frame.columns
    users = _ranks(frame.about["users"])[columns["job.user"][jobs]]
    return [columns["job.id"][jobs], users, columns["job.cores"][jobs]]


def _sorted(keys: Sequence[NDArray[Any]], order: Order) -> NDArray[np.int64]:
    """Return the indices of the first `ROWS` rows."""
    if order.column < 0:
        return np.arange(min(len(keys[0]), ROWS))
    key = np.asarray(keys[order.column], float)
    return np.argsort(-key if order.descending else key, kind="stable")[:ROWS]


def _ranks(names: Iterable[object]) -> NDArray[np.float64]:
    """Return the place of each name in their order; the last element is for unknown ones."""
    texts = list(map(str, names))
    ranks = np.full(len(texts) + 1, np.nan)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks


def _names(frame: Frame, key: str, column: str, jobs: NDArray[np.int64]) -> list[str]:
    names = frame.about[key]
    return [
        _name(names[index]) if index >= 0 else "" for index in frame.columns[column][jobs].tolist()
    ]


def _name(name: object) -> str:
    text = printable(clean(name)[: WIDTH + 1])
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _first(frame: Frame, job: int, user: str) -> tuple[str, str, str]:
    columns = frame.columns
    return str(columns["job.id"][job]), user, str(columns["job.cores"][job])


# The figures above the tables: nodes by state, cores, power and queue, with their histories.

POINTS = 60
"""Number of points of a history."""


class Histories:
    """Power, queue length and cores in use of a run over time."""

    def __init__(self, frame: Frame) -> None:
        self._start_s = float(frame.about["start_s"])
        self._power = [power_of(frame, state) for state in NODE_STATES]
        self._queue, self._cores = queue_of(frame), used_cores_of(frame)
        self._power_until_s = _power_until_s(frame)

    def power_is_known(self, at_s: float) -> bool:
        """Return whether the run has the power at a time.

        The periods of a results folder end at the end of the run, so the power after the last
        event is not among them.
        """
        return at_s < self._power_until_s

    def at(self, now_s: float) -> Mapping[str, Floats]:
        """Return `POINTS` values from the begin of the run to a time, by name.

        Returns:
            `cores`: cores that jobs hold. `power`: power of all nodes, W. `queue`: waiting jobs.
        """
        times_s = np.linspace(self._start_s, now_s, POINTS)
        return {
            "cores": self._cores.at(times_s),
            "power": sum((each.at(times_s) for each in self._power), np.zeros(POINTS)),
            "queue": self._queue.at(times_s),
        }


class Figures(NamedTuple):
    """Figures of a moment.

    Attributes:
        nodes: number of nodes by state: `allocated`, `mixed`, `idle`, or a power state.
        cores: number of cores, and of those that jobs hold.
    """

    nodes: Mapping[str, int]
    cores: tuple[int, int]


def figures_of(then: Moment) -> Figures:
    """Return the figures of a moment."""
    nodes = then.nodes
    is_on = nodes.power == POWER_STATES.index("on")
    full, empty = nodes.allocated >= nodes.cores, nodes.allocated == 0
    counts: dict[str, NDArray[np.bool_]] = {
        "allocated": is_on & full & ~empty,
        "mixed": is_on & ~full & ~empty,
        "idle": is_on & empty,
        **{name: nodes.power == POWER_STATES.index(name) for name in POWER_STATES if name != "on"},
    }
    found = {name: int(chosen.sum()) for name, chosen in counts.items()}
    return Figures(found, (int(nodes.cores.sum()), int(nodes.allocated.sum())))


def _power_until_s(frame: Frame) -> float:
    """Return the time from which the power is unknown, s: never, or the end of the run."""
    columns, end_s = frame.columns, frame.about["now_s"]
    changes = ("start.time_s", "pause.time_s", "end.time_s", "power.time_s")
    changed = any((columns[name] == end_s).any() for name in changes)
    recorded = (columns["watts.time_s"] == end_s).any()
    over = bool(frame.about.get("ended_because"))
    return float(end_s) if over and changed and not recorded else math.inf


REFRESH_S = 0.5
TITLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "running": ("running jobs", RUNNING),
    "waiting": ("waiting jobs", WAITING),
}
"""Title and columns of each table."""


class Top(App[None]):
    """A run: its cluster, and its running and waiting jobs.

    Args:
        source: the run; the application closes it.
        refresh_s: time between two updates, s.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head, #nodes { height: 1; }
    .figure { height: 1; }
    .figure Label { width: 34; }
    .figure Sparkline { width: 1fr; height: 1; }
    .title { height: 1; text-style: bold; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause", priority=True),
        Binding("q", "quit", "Quit"),
        Binding("n", "step", "Next"),
        Binding("plus,equals_sign", "speed(1)", "Faster", key_display="+"),
        Binding("minus", "speed(-1)", "Slower", key_display="-"),
        Binding("tab", "app.focus_next", "Table", priority=True),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
    ]

    def __init__(self, source: Source, refresh_s: float = REFRESH_S) -> None:
        super().__init__()
        self._source = source
        self._refresh_s = refresh_s
        self._orders = {name: Order() for name in TITLES}
        self._histories: Histories | None = None
        self._seen: Frame | None = None
        self._last_s = time.monotonic()

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        yield Static(id="head", markup=False)
        yield Static(id="nodes", markup=False)
        for name in ("cores", "power", "queue"):
            with Horizontal(classes="figure"):
                yield Label(id=name, markup=False)
                yield Sparkline(id=f"{name}-history")
        for name, (_, columns) in TITLES.items():
            yield Static(id=f"{name}-title", classes="title", markup=False)
            table: DataTable[Text] = DataTable(id=name, cursor_type="row", zebra_stripes=True)
            table.add_columns(*columns)
            yield table
        yield Footer()

    def on_mount(self) -> None:
        """Begin to update."""
        self._last_s = time.monotonic()
        self.set_interval(self._refresh_s, self.tick)
        self.show()

    def on_unmount(self) -> None:
        """Close the source."""
        self._source.close()

    def tick(self) -> None:
        """Let the wall time since the last tick pass, and update."""
        now_s = time.monotonic()
        elapsed_s, self._last_s = now_s - self._last_s, now_s
        self._source.advance(elapsed_s)
        with suppress(NoMatches):  # when the application ends, widgets go before the timer
            self.show()

    def show(self) -> None:
        """Update all widgets."""
        frame = self._source.frame()
        status = printable(self._source.status())
        if frame is None:
            self.query_one("#head", Static).update(Text(status))
            return
        about = frame.about
        # A live run may have gone on, or begun again, since the line above.
        at_s = min(max(self._source.now_s(), about["start_s"]), about["now_s"])
        name = printable(f"{clean(about['scenario'])[:40]}, {clean(about['scheduler'])[:40]}")
        head = f"{duration(at_s)}  {status}  {name}"
        self.query_one("#head", Static).update(Text(head, no_wrap=True, overflow="ellipsis"))
        then = moment(frame, at_s)
        self._show_figures(frame, then)
        tables = {
            "running": running_rows(frame, then, self._orders["running"]),
            "waiting": waiting_rows(frame, then, self._orders["waiting"]),
        }
        for table, rows in tables.items():
            self._show_table(table, rows)

    def _show_figures(self, frame: Frame, then: Moment) -> None:
        if frame is not self._seen or self._histories is None:
            self._seen, self._histories = frame, Histories(frame)
        history = self._histories.at(then.at_s)
        figures = figures_of(then)
        nodes = ", ".join(
            f"{count:,} {state.replace('_', ' ')}"
            for state, count in figures.nodes.items()
            if count
        )
        self.query_one("#nodes", Static).update(Text(f"nodes    {nodes}", no_wrap=True))
        power = "-"
        if self._histories.power_is_known(then.at_s):
            power = with_unit(history["power"][-1], POWER_UNITS)
        cores, used = figures.cores
        texts = {
            "cores": f"cores    {used:,} of {cores:,}, {100 * used / max(cores, 1):.1f} %",
            "power": f"power    {power}",
            "queue": f"queue    {history['queue'][-1]:,.0f} waiting",
        }
        for name, text in texts.items():
            self.query_one(f"#{name}", Label).update(Text(text))
            self.query_one(f"#{name}-history", Sparkline).data = history[name].tolist()

    def _show_table(self, name: str, rows: Rows) -> None:
        """Show rows; the cursor and the scroll position stay."""
        title, columns = TITLES[name]
        order = self._orders[name]
        by = f", by {columns[order.column]}{' down' if order.descending else ''}"
        more = f", the first {len(rows.cells)}" if rows.total > len(rows.cells) else ""
        text = f"{title}: {rows.total:,}{by if order.column >= 0 else ''}{more}"
        self.query_one(f"#{name}-title", Static).update(Text(text))
        table = self._table(name)
        with self.batch_update():
            for extra in list(table.rows)[len(rows.cells) :]:
                table.remove_row(extra)
            for number, cells in enumerate(rows.cells):
                if number >= table.row_count:
                    table.add_row(*map(Text, cells))
                    continue
                before = table.get_row_at(number)
                for column, cell in enumerate(cells):
                    if before[column].plain != cell:
                        place = Coordinate(number, column)
                        table.update_cell_at(place, Text(cell), update_width=True)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort a table by a column; by the same one again: reverse it."""
        name = event.data_table.id or ""
        order = self._orders[name]
        same = order.column == event.column_index
        self._orders[name] = Order(event.column_index, same and not order.descending)
        self.show()

    def action_pause(self) -> None:
        """Pause, or go on."""
        self._source.toggle_pause()
        self.show()

    def action_step(self) -> None:
        """Go to the next event."""
        self._source.step()
        self.show()

    def action_speed(self, direction: int) -> None:
        """Go faster (1) or slower (-1)."""
        self._source.change_speed(FACTOR**direction)
        self.show()

    def action_sort(self) -> None:
        """Sort the table with the focus by its next column."""
        name = self._focused_table()
        order = self._orders[name]
        last = len(TITLES[name][1]) - 1
        self._orders[name] = Order(-1 if order.column == last else order.column + 1)
        self.show()

    def action_reverse(self) -> None:
        """Reverse the order of the table with the focus."""
        name = self._focused_table()
        order = self._orders[name]
        self._orders[name] = Order(max(order.column, 0), not order.descending)
        self.show()

    def _focused_table(self) -> str:
        name = self.focused.id if self.focused else None
        return name if name and name in TITLES else "running"

    def _table(self, name: str) -> DataTable[Text]:
        table: DataTable[Text] = self.query_one(f"#{name}", DataTable)
        return table
