"""The power manager that keeps some idle nodes on."""

from __future__ import annotations

import numpy as np

from hpcosim_client.view import View
from hpcosim_schedulers.power.manager import IdleClock, Manager


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
