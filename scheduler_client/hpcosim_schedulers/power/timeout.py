"""Power managers that switch nodes off after an idle time, but for some, or by the clock."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from hpcosim_client.job import Ints
from hpcosim_client.view import View
from hpcosim_schedulers.power.features import DAY_S, WEEK_S
from hpcosim_schedulers.power.manager import IdleClock, Manager
from hpcosim_schedulers.power.settings import WEEKDAYS, WINDOW, OffAtNight, kept_on, without_kept


def timeout(timeout_s: float, wait_price_w: float | None = None) -> Manager:
    """Return the manager that switches a node off once it has been idle for `timeout_s`.

    `IdleClock` defines idle. The manager switches no node on: allocations (`wake_on_allocation`)
    and reservations do.

    Args:
        timeout_s: idle time, simulated seconds, >= 0.
        wait_price_w: price of a job's wait in J/s, > 0, see `PowerExchange.wait_price_w`; None: no
            job is delayed to save energy.
    """
    idle = IdleClock()

    def manage(view: View) -> float | None:
        if wait_price_w is not None:
            view.power_exchange.wait_price_w = wait_price_w
        idle.update(view)
        for node in idle.due(view.now_s, timeout_s).tolist():
            view.set_node_power(node, on=False)
        idle.update(view)
        return idle.next_due_s(view.now_s, timeout_s)

    return manage


def keep_idle(warm: int, timeout_s: float = 0.0) -> Manager:
    """Return the manager that keeps `warm` idle nodes on.

    If more than `warm` nodes are idle, those idle for `timeout_s` are switched off, the longest
    idle first, ties by number. If fewer than `warm` nodes are idle or boot without a job, sleeping
    nodes are switched on, in ascending order. Booting nodes do not count as idle when nodes are
    switched off.

    Args:
        warm: number of nodes, >= 0.
        timeout_s: idle time, simulated seconds, >= 0.
    """
    idle = IdleClock()

    def manage(view: View) -> float | None:
        idle.update(view)
        ready = int((~np.isnan(idle.since_s)).sum())
        coming = len(view.nodes.unused("switching_on"))
        spare, wanting = max(ready - warm, 0), max(warm - ready - coming, 0)
        for node in idle.due(view.now_s, timeout_s)[:spare].tolist():
            view.set_node_power(node, on=False)
        for node in view.nodes.unused("sleeping")[:wanting]:
            view.set_node_power(node, on=True)
        idle.update(view)
        return idle.next_due_s(view.now_s, timeout_s) if spare > 0 else None

    return manage


def off_at_night(rules: OffAtNight) -> Manager:
    """Return the manager that switches idle nodes off in windows of the week.

    In a window, a node is switched off when it is idle: at the begin of the window, or when its job
    ends. An allocation switches it on (`wake_on_allocation`): jobs start in the window as well,
    after the boot. At the end of a window, and at the start of the simulation outside the windows,
    all sleeping nodes are switched on.

    The manager raises `PolicyError` at its first call if a node of `keep_on` does not exist.
    """
    windows = [span_s for text in rules.off for span_s in spans_s(text)]
    idle = IdleClock()
    sets: list[tuple[Ints, int]] | None = None

    def manage(view: View) -> float | None:
        nonlocal sets
        if sets is None:
            sets = kept_on(rules.keep_on, "keep_on", view.platform)
        idle.update(view)
        off, next_s = at_clock(windows, view.now_s, rules.origin_s)
        if off:
            due = idle.is_due(view.now_s, 0.0)
            for node in without_kept(due, view.nodes.idle(), sets).nonzero()[0].tolist():
                view.set_node_power(node, on=False)
        else:
            for node in view.nodes.unused("sleeping"):
                view.set_node_power(node, on=True)
        idle.update(view)
        return next_s

    return manage


def spans_s(window: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of a window on each of its days, in seconds after Monday midnight.

    The end is after the begin, and may be in the next week.
    """
    parts = WINDOW.fullmatch(window)
    assert parts is not None, window  # the settings are checked
    first = WEEKDAYS.index(parts["first"] or WEEKDAYS[0])
    last = WEEKDAYS.index(parts["last"] or parts["first"] or WEEKDAYS[-1])
    begin_s, end_s = (
        3600 * int(parts[f"{side}_h"]) + 60 * int(parts[f"{side}_min"]) for side in ("from", "to")
    )
    for day in range(first, last + 1 if last >= first else last + 8):
        midnight_s = int(DAY_S) * (day % 7)
        yield midnight_s + begin_s, midnight_s + end_s + (int(DAY_S) if end_s <= begin_s else 0)


def at_clock(
    windows: Sequence[Sequence[int]] | Ints, now_s: float, origin_s: float
) -> tuple[bool, float]:
    """Return whether a time is in a window, and the next time at which a window begins or ends.

    A window includes its begin, not its end. The compiled engine compiles this function.

    Args:
        windows: begin and end, seconds after Monday midnight, as from `spans_s`; at least one.
        origin_s: second of the week at which the simulation starts.
    """
    week = math.floor((now_s + origin_s) / WEEK_S)
    off, next_s = False, math.inf
    # The weeks around too: windows reach over the end of a week, and the division is rounded.
    for each in (week - 1, week, week + 1):
        for place in range(len(windows)):
            begin_s = windows[place][0] + each * WEEK_S - origin_s
            end_s = windows[place][1] + each * WEEK_S - origin_s
            off = off or begin_s <= now_s < end_s
            if now_s < begin_s < next_s:
                next_s = begin_s
            elif now_s < end_s < next_s:
                next_s = end_s
    return off, next_s
