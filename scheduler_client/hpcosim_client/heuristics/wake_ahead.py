"""Nodes that are on when reservations begin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.heuristics.awareness import Awareness
from hpcosim_client.heuristics.power_aware import a_moment_after
from hpcosim_client.heuristics.reservation import Reservation
from hpcosim_client.view import View


class WakeAhead:
    """Keeps nodes on for reservations and, if `planned`, switches them on in time."""

    def __init__(self, awareness: Awareness) -> None:
        self._wakes = awareness == "planned"
        self._alarm = PolicyAlarm()  # for when a node is to be switched on for a reservation

    def follow(self, view: View, reservations: Sequence[Reservation]) -> None:
        """Take in the reservations that are left after all starts of a call."""
        _leave_on(view, reservations)
        if self._wakes:
            self._alarm.set_or_cancel(view, _wake_ahead(view, reservations))


def _wake_ahead(view: View, reservations: Iterable[Reservation]) -> float:
    """Switch on the nodes whose reservations begin when they have booted.

    Returns:
        When the next node is to be switched on; infinity: none is.
    """
    nodes, next_s = view.nodes, math.inf
    for start_s, place, _ in reservations:
        assert place is not None
        for node in place.nodes.tolist():
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

    Nodes of a reservation that is so far off that they can be switched off and on again before it
    are not marked.
    """
    nodes, planned = view.nodes, view.power_exchange.planned
    planned[:] = False
    back_s = view.now_s + nodes.switch_off_s + nodes.switch_on_s
    back_s = np.maximum(back_s, math.nextafter(a_moment_after(view.now_s), math.inf))
    for start_s, place, _ in reservations:
        assert place is not None
        planned[place.nodes[start_s < back_s[place.nodes]]] = True
