"""Signals that stop a server, and the end of the program that started it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
IGNORED = (signal.SIGUSR1, signal.SIGUSR2)
SAME_S = 0.5
"""Time after a signal in which others are copies of it, s: `timeout` signals a process and then its
group."""
PARENT_GONE = "the end of the program that started the server"


class Stop:
    """Handler of the signals that stop a server. A second one ends the process at once.

    A signal that the process ignores from its start stays ignored, such as SIGHUP under `nohup`.
    SIGUSR1 and SIGUSR2 are ignored.

    Args:
        limit_s: time after the first signal at which the process ends at once, s; 0: never.

    Attributes:
        reason: name of the first signal, or `PARENT_GONE`; empty before it.
    """

    def __init__(self, parent: int | None = None, limit_s: float = 0.0) -> None:
        self.reason = ""
        self.before_end: Callable[[], None] = lambda: None
        self._parent = parent
        self._limit_s = limit_s
        self._first_s = 0.0
        for number in STOPPING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)

    def __bool__(self) -> bool:
        if self._parent is not None and os.getppid() != self._parent:
            self.reason = self.reason or PARENT_GONE
        return bool(self.reason)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        is_copy = number != signal.SIGALRM and time.monotonic() < self._first_s + SAME_S
        if self.reason and is_copy:
            return
        if self.reason:
            self.before_end()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.reason, self._first_s = signal.Signals(number).name, time.monotonic()
        if self._limit_s:
            signal.signal(signal.SIGALRM, self._on_signal)
            signal.setitimer(signal.ITIMER_REAL, self._limit_s)
