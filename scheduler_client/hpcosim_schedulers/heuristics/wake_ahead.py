"""Switching of nodes for reservations: nodes are on when a reservation begins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.profiles import Reservation
from hpcosim_client.view import View
from hpcosim_schedulers.heuristics.awareness import Awareness
from hpcosim_schedulers.heuristics.power_aware import a_moment_after


class WakeAhead:
    """Keeps the nodes of reservations on and, if `planned`, switches them on in time."""

    def __init__(self, awareness: Awareness) -> None:
        self._wakes = awareness == "planned"
        self._alarm = PolicyAlarm()  # next time at which a node must be switched on

    def follow(
        self,
        view: View,
        reservations: Sequence[Reservation],
        uncertain: Sequence[Reservation] = (),
    ) -> None:
        """Apply the reservations that remain after all starts of a call.

        Args:
            view: the view.
            reservations: reservations.
            uncertain: further ones that an event will move: no alarm is set for their nodes.
        """
        _leave_on(view, [*reservations, *uncertain])
        if self._wakes:
            next_s = _wake_ahead(view, reservations)
            _wake_ahead(view, uncertain)
            self._alarm.set_or_cancel(view, next_s)


def _wake_ahead(view: View, reservations: Iterable[Reservation]) -> float:
    """Switch on the nodes whose reservations begin within their boot time.

    Returns:
        Simulated second at which the next node must be switched on; infinity: there is none.
    """
    nodes, next_s = view.nodes, math.inf
    for start_s, allocation, _ in reservations:
        assert allocation is not None
        for node in allocation.nodes.tolist():
            if nodes.power[node] != "sleeping":
                continue
            wake_s = start_s - float(nodes.switch_on_s[node])
            if wake_s <= a_moment_after(view.now_s):
                view.set_node_power(node, on=True)
            else:
                next_s = min(next_s, wake_s)
    return next_s


def _leave_on(view: View, reservations: Iterable[Reservation]) -> None:
    """Mark the nodes of reservations as planned, so that power managers leave them on.

    Nodes that can be switched off and on again before the reservation begins are not marked.
    """
    nodes, planned = view.nodes, view.power_exchange.planned
    planned[:] = False
    back_s = view.now_s + nodes.switch_off_s + nodes.switch_on_s
    back_s = np.maximum(back_s, math.nextafter(a_moment_after(view.now_s), math.inf))
    for start_s, allocation, _ in reservations:
        assert allocation is not None
        planned[allocation.nodes[start_s < back_s[allocation.nodes]]] = True
