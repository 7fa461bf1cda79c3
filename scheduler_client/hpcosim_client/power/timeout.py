"""Switch off nodes that have been idle for some time."""

from __future__ import annotations

from hpcosim_client.power.manager import IdleClock, Manager
from hpcosim_client.view import View


def timeout(timeout_s: float, wait_price_w: float | None = None) -> Manager:
    """Return the manager that switches a node off once it has been idle for `timeout_s`.

    Idle is as `IdleClock` has it: a node held for a job that waits for others to boot is not. A
    node is switched off at the instant its time is up; there is no limit to how many at once. It
    switches nothing on: that is left to allocations (`wake_on_allocation`) and reservations.

    Args:
        timeout_s: it.
        wait_price_w: see `View.wait_price_w`, J/s; None: no job waits longer to save energy.
    """
    idle = IdleClock()

    def manage(view: View) -> None:
        if wait_price_w is not None:
            view.wait_price_w = wait_price_w
        idle.update(view)
        for node in idle.due(view.now_s, timeout_s).tolist():
            view.set_node_power(node, on=False)
        idle.update(view)
        idle.wake_at_next(view, timeout_s)

    return manage
