"""The power manager that switches off nodes after an idle time."""

from __future__ import annotations

from hpcosim_client.view import View
from hpcosim_schedulers.power.manager import IdleClock, Manager


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
