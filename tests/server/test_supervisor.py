"""The supervisor of a server, with processes that only talk to it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from hpcosim_server.service.control import Control, Load, Order, Stopping, WorkersWanted
from hpcosim_server.service.stop_signals import Stop
from hpcosim_server.service.supervisor import Plan, Supervisor

# The threads of pytest-xdist hold no lock that the children need.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class NoSignal(Stop):
    """No signal has come; unlike those of `Stop`, the handlers of the test stay."""

    def __init__(self) -> None:
        self.reason, self._parent = "", None


def next_order(control: Control) -> Order | None:
    """Wait for an order; None: the supervisor is gone."""
    while (order := control.order()) is None and not control.is_closed:
        time.sleep(0.005)
    return order


def test_a_server_that_ends_starts_no_further_worker(tmp_path: Path) -> None:
    """A front that wants workers before it hears of the end gets none, and the server ends.

    The supervisor tells the end to the workers of that time only, so another would run on.
    """
    waits, goes_on = os.pipe()

    def front(control: Control, _: Iterable[int]) -> None:
        while not isinstance(order := next_order(control), Stopping):
            assert order is not None
        control.send(WorkersWanted(3))
        os.write(goes_on, b"!")
        while isinstance(order, Stopping) and not order.is_over:
            order = next_order(control)

    def worker(control: Control, number: int, _: bool) -> None:
        (tmp_path / str(number)).touch()
        control.send(Load(number, opened=1, over=1))
        while not isinstance(next_order(control), Stopping) and not control.is_closed:
            pass
        os.read(waits, 1)

    plan = Plan(front, worker, workers=3, first=frozenset({1}), sessions=1, drain_s=10.0)
    assert Supervisor(plan, NoSignal(), None).run() == "all sessions are over"
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    os.close(waits)
    os.close(goes_on)
