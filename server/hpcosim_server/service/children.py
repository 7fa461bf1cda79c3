"""Child processes of a supervisor: forked with a control connection, and forked again."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hpcosim_server import log
from hpcosim_server.service.control import Control, Load, control_pair
from hpcosim_server.service.stopping import IGNORED, STOPPING

FRONT = 0
"""Number of the front; workers have numbers above."""
LIVE_PAGE = -1
"""Number of the process of the live page."""
NAMES = {FRONT: "front", LIVE_PAGE: "live page"}
CALM_S = 10.0
"""Run time after which a process that ended is started again at once, s."""
LONGEST_PAUSE_S = 5.0
FIRST_PAUSE_S = 0.1


@dataclass(slots=True)
class Child:
    """A child process.

    Attributes:
        number: a number of `NAMES`, or the number of the worker.
        pid: process id.
        control: connection to it.
        born_s: time of its start, s.
        load: the sessions of a worker, as it told last.
    """

    number: int
    pid: int
    control: Control
    born_s: float
    load: Load

    @property
    def name(self) -> str:
        """What the log calls the process."""
        return NAMES.get(self.number) or f"worker {self.number}"

    @property
    def is_worker(self) -> bool:
        """Whether the process has sessions."""
        return self.number > FRONT


def fork(number: int, target: Callable[[Control], None], others: Iterable[Child]) -> Child:
    """Fork a process that runs a function and ends.

    Args:
        number: number of the child.
        target: the function; gets the connection to this process.
        others: the other children, whose connections the new one closes.

    Raises:
        OSError: there is no memory, or no process left.
    """
    ours, theirs = control_pair()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        for other in others:
            other.control.close()
        ours.close()
        _be_child(number, target, theirs)
    theirs.close()
    return Child(number, pid, ours, time.monotonic(), Load(number))


def _be_child(number: int, target: Callable[[Control], None], control: Control) -> None:
    """Run the function of a child, and end the process.

    Only the control connection stops a child: a signal to the whole process group, such as Ctrl-C
    or that of a service manager, reaches the supervisor too, which then stops all in order.
    """
    status = 1
    try:
        for signals in (STOPPING, IGNORED):
            for one in signals:
                signal.signal(one, signal.SIG_IGN)
        target(control)
        status = 0
    except BaseException as error:
        log.exception("process_failed", number=number, error=str(error))
    finally:
        os._exit(status)


def how_it_ended(status: int) -> str:
    """Return how a process ended, from the status of `waitpid`."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit status {code}" if code >= 0 else signal.Signals(-code).name


class Pauses:
    """Pauses before a process that failed is started again, longer after each failure."""

    def __init__(self) -> None:
        self._pause_s: dict[int, float] = {}

    def next_s(self, child: Child) -> float:
        """Return the pause before a child that has just ended is started again, s."""
        if time.monotonic() - child.born_s > CALM_S:
            self._pause_s.pop(child.number, None)
            return 0.0
        pause_s = self._pause_s.get(child.number, 0.0)
        self._pause_s[child.number] = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, 2 * pause_s))
        return pause_s
