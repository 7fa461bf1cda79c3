"""The application of `hpcosim top`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.coordinate import Coordinate
from textual.css.query import NoMatches
from textual.widgets import DataTable, Footer, Label, Sparkline, Static

from hpcosim_view.live.top.figures import Histories, figures_of
from hpcosim_view.live.top.source import FACTOR, Source
from hpcosim_view.live.top.tables import RUNNING, WAITING, Order, Rows, running_rows, waiting_rows
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.moment import Moment, moment
from hpcosim_view.runs import clean, printable
from hpcosim_view.terminal.text import duration
from hpcosim_view.units import POWER_UNITS, with_unit

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
