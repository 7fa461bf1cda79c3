"""Keep some idle nodes on, ready for what may come."""

from __future__ import annotations

import numpy as np

from hpcosim_client.power.manager import IdleClock, Manager
from hpcosim_client.view import View
from hpcosim_protocol import PowerState


def keep_idle(warm: int, timeout_s: float = 0.0) -> Manager:
    """Return the manager that keeps so many nodes idle.

    Of the nodes idle beyond `warm`, those idle for `timeout_s` are switched off, the longest idle
    first, ties by number. While fewer than `warm` are idle or being switched on for nobody,
    sleeping nodes are switched on, the lowest-numbered first. A node on its way is not warm yet:
    for its sake no idle one is switched off.
    """
    idle = IdleClock()

    def manage(view: View) -> None:
        idle.update(view)
        ready = int((~np.isnan(idle.since_s)).sum())
        coming = len(_unused(view, "switching_on"))
        spare, wanting = max(ready - warm, 0), max(warm - ready - coming, 0)
        for node in idle.due(view.now_s, timeout_s)[:spare].tolist():
            view.set_node_power(node, on=False)
        for node in _unused(view, "sleeping")[:wanting]:
            view.set_node_power(node, on=True)
        idle.update(view)
        if spare > 0:
            idle.wake_at_next(view, timeout_s)

    return manage


def _unused(view: View, state: PowerState) -> list[int]:
    """Return the nodes in a power state other than `on` that are held for no job."""
    nodes = view.nodes
    off = np.flatnonzero(~nodes.on & (nodes.jobs == 0)).tolist()
    return [node for node in off if nodes.power[node] == state]
