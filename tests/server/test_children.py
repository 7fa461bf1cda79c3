"""Child processes of a supervisor."""

from __future__ import annotations

import os
import stat
import time

import pytest

from hpcosim_server.service.control import MOST_BYTES, Control, Load, Stopping, control_pair
from hpcosim_server.service.countdown import Countdown
from hpcosim_server.service.server_processes import private_socket
from hpcosim_server.service.status import Failure
from hpcosim_server.service.supervisor import (
    CALM_S,
    LONGEST_PAUSE_S,
    Child,
    Pauses,
    fork,
    how_it_ended,
)


def child(born_s: float) -> Child:
    """Return a child that does not run."""
    ours, theirs = control_pair()
    theirs.close()
    ours.close()
    return Child(1, 0, ours, born_s, Load(1))


def test_a_process_that_fails_again_and_again_waits_longer() -> None:
    """The first restart is immediate; one after a calm time is, too."""
    pauses = Pauses()
    now_s = time.monotonic()
    waits = [pauses.next_s(child(now_s)) for _ in range(10)]
    assert waits[0] == 0.0
    assert waits[1:] == sorted(waits[1:])
    assert waits[1] > 0.0
    assert waits[-1] == LONGEST_PAUSE_S
    assert pauses.next_s(child(now_s - CALM_S - 1)) == 0.0


@pytest.mark.slow
def test_a_child_reports_and_obeys() -> None:
    """Messages go both ways, and its end closes the connection."""

    def target(control: Control) -> None:
        control.send(Load(7, 3, 2, 1))
        while control.order() is None and not control.is_closed:
            time.sleep(0.01)

    forked = fork(7, target, [])
    while (report := forked.control.report()) is None:
        time.sleep(0.01)
    assert report == Load(7, 3, 2, 1)
    forked.control.send(Stopping("the test is over"))
    _, status = os.waitpid(forked.pid, 0)
    assert how_it_ended(status) == "exit status 0"
    assert forked.control.report() is None
    assert forked.control.is_closed
    forked.control.close()


def test_a_failure_of_any_length_arrives() -> None:
    """Its text is cut."""
    ours, theirs = control_pair()
    theirs.send(Failure("internal_error", "x" * 2 * MOST_BYTES))
    report = ours.report()
    assert isinstance(report, Failure)
    assert 1000 < len(report.why) < MOST_BYTES
    ours.close()
    theirs.send(report)  # to nobody
    theirs.close()


def test_the_socket_of_workers_is_private() -> None:
    """Only the owner can enter its folder, which is removed."""
    with private_socket() as (_, path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.parent.exists()


def test_a_countdown_gives_each_once() -> None:
    """What is put back is given again; without a number there is no end."""
    countdown = Countdown(2)
    assert [countdown.take() for _ in range(3)] == [True, True, False]
    assert countdown.is_over
    countdown.put_back()
    assert not countdown.is_over
    assert countdown.take()
    endless = Countdown(None)
    assert endless.take()
    assert not endless.is_over
