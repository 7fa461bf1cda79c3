"""The supervisor of a server: forks its front and its workers, and forks them again."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hpcosim_server import log
from hpcosim_server.service import control as messages
from hpcosim_server.service.outcomes import REMEMBERED
from hpcosim_server.service.status import Failure, Status
from hpcosim_server.service.stop_signals import IGNORED, STOPPING, Stop

TICK_S = 0.1
LAST_NUMBER = 0xFFFF
LAST_S = 15.0  # after the workers, for the last replies and for viewers
FORK_AGAIN_S = 1.0  # after a fork that failed

RunFront = Callable[[messages.Control, Iterable[int]], None]
RunWorker = Callable[[messages.Control, int, bool], None]
"""Runs the worker with a number; the last argument says whether it has run before."""
RunLivePage = Callable[[messages.Control], None]

FRONT = 0
LIVE_PAGE = -1
NAMES = {FRONT: "front", LIVE_PAGE: "live page"}
CALM_S = 10.0
"""Run time after which a process that ended is started again at once, s."""
LONGEST_PAUSE_S = 5.0
FIRST_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """What a supervisor runs."""

    front: RunFront
    worker: RunWorker
    workers: int
    first: frozenset[int]
    sessions: int | None
    drain_s: float
    restores: bool = False
    live_page: RunLivePage | None = None


class Supervisor:
    """Keeps the front and the workers running. It has no connection of a client and no thread.

    Args:
        tell: called with each failure, and with the progress that workers report; None: nobody is.
    """

    def __init__(self, plan: Plan, stop: Stop, tell: Callable[[Status], None] | None) -> None:
        self.failures: list[Failure] = []
        self._plan = plan
        self._stop = stop
        self._tell = tell
        self._children: dict[int, Child] = {}
        others = (FRONT,) if plan.live_page is None else (FRONT, LIVE_PAGE)
        self._due_s = dict.fromkeys((*others, *plan.first), 0.0)
        self._pauses = Pauses()
        self._last_number = max(plan.first)
        self._owed: dict[int, int] = {}  # sessions that a worker is about to restore
        self._sessions_over = 0  # of workers that have ended
        self._restarts = 0
        self._failed = Counter[str]()  # failures that only this process notes, by cause

    def run(self) -> str:
        """Run the server until it stops; return the reason."""
        gc.collect()
        gc.freeze()  # what is loaded stays shared with the children
        while not (reason := self._reason()):
            self._start_due()
            self._listen(TICK_S)
            self._bury()
        self._drain(reason)
        return reason

    def kill(self) -> None:
        """End all children at once."""
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)

    def _reason(self) -> str:
        if self._stop:
            return f"stopped by {self._stop.reason}"
        sessions = self._plan.sessions
        over = self._sessions_over + sum(child.load.over for child in self._children.values())
        return "all sessions are over" if sessions is not None and over >= sessions else ""

    def _start_due(self) -> None:
        now_s = time.monotonic()
        due = [number for number, due_s in self._due_s.items() if due_s <= now_s]
        for number in sorted(due, reverse=True):  # the front last: it then knows all workers
            try:
                self._start(number)
            except OSError as error:
                log.error("no_process", number=number, error=str(error))
                self._due_s[number] = now_s + FORK_AGAIN_S

    def _start(self, number: int) -> None:
        others = list(self._children.values())
        del self._due_s[number]
        if number == FRONT:
            workers = self._numbers()
            child = fork(number, lambda control: self._plan.front(control, workers), others)
            child.control.send(self._ended())
        elif number == LIVE_PAGE:
            assert self._plan.live_page is not None
            child = fork(number, self._plan.live_page, others)
        else:
            again = number in self._owed
            child = fork(number, lambda control: self._plan.worker(control, number, again), others)
        self._children[number] = child
        log.info("process_started", process=child.name, pid=child.pid)

    def _numbers(self) -> list[int]:
        return [number for number in {**self._children, **self._due_s} if number > FRONT]

    def _listen(self, timeout_s: float) -> None:
        """Wait for reports of children, and handle them."""
        by_descriptor = {child.control.fileno(): child for child in self._children.values()}
        poll = select.poll()
        for descriptor in by_descriptor:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(1000 * timeout_s):
            child = by_descriptor[descriptor]
            self._hear(child)

    def _hear(self, child: Child) -> None:
        while (report := child.control.report()) is not None:
            if isinstance(report, messages.Load):
                child.load = report
                # What it has not restored is lost.
                self._lose(child, self._owed.pop(child.number, 0) - child.load.opened)
            elif isinstance(report, messages.WorkersWanted):
                self._grow(report.workers)
            elif isinstance(report, messages.Summary):
                self._order(LIVE_PAGE, report)
            else:
                self._pass_on(report)

    def _pass_on(self, status: Status) -> None:
        if isinstance(status, Failure) and len(self.failures) < REMEMBERED:
            self.failures.append(status)
        if self._tell is not None:
            self._tell(status)

    def _grow(self, workers: int) -> None:
        """Have more workers, unless the server ends: nothing would stop those that begin now."""
        if self._reason():
            return
        numbers = self._numbers()
        for _ in range(min(workers, self._plan.workers) - len(numbers)):
            while self._last_number in numbers:
                self._last_number = self._last_number % LAST_NUMBER + 1
            numbers.append(self._last_number)
            self._due_s[self._last_number] = 0.0
        self._start_due()
        self._order(FRONT, messages.Workers(self._numbers()))

    def _order(self, number: int, order: messages.Order) -> None:
        if child := self._children.get(number):
            child.control.send(order)

    def _ended(self) -> messages.Ended:
        return messages.Ended(self._restarts, self._failed)

    def _bury(self, *, again: bool = True) -> None:
        """Note the children that have ended."""
        for child in list(self._children.values()):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self._hear(child)  # what it said last
                child.control.close()
                del self._children[child.number]
                self._end(child, status, again=again)

    def _end(self, child: Child, status: int, *, again: bool) -> None:
        lost = child.load.opened - child.load.over + self._owed.pop(child.number, 0)
        self._sessions_over += child.load.over
        if status == 0 and (not again or (child.is_worker and not lost)):
            self._order(FRONT, messages.Workers(self._numbers()))
            return
        how = how_it_ended(status)
        pause_s = self._pauses.next_s(child)
        log.error("process_ended", process=child.name, how=how, sessions=lost, pause_s=pause_s)
        if again and self._plan.restores and child.is_worker:
            self._owed[child.number] = lost
        else:
            self._lose(child, lost)
        if again:
            self._due_s[child.number] = time.monotonic() + pause_s
            self._restarts += 1
            self._order(FRONT, self._ended())

    def _lose(self, child: Child, count: int) -> None:
        """Note that sessions are lost."""
        if count > 0:
            self._sessions_over += count
            what = "a session is lost" if count == 1 else f"{count} sessions are lost"
            self._failed["internal_error"] += count
            self._pass_on(Failure("internal_error", f"{child.name} ended: {what}"))
            self._order(FRONT, self._ended())

    def _drain(self, reason: str) -> None:
        """Let workers finish their requests and write their results; then end the front."""
        until_s = time.monotonic() + self._plan.drain_s
        for child in self._children.values():
            child.control.send(messages.Stopping(reason))
        while any(child.is_worker for child in self._children.values()):
            self._listen(TICK_S)
            self._bury(again=False)
            if time.monotonic() > until_s:
                log.error("drain_timeout", drain_s=self._plan.drain_s)
                self.kill()
                until_s = float("inf")
        for number in (FRONT, LIVE_PAGE):
            self._order(number, messages.Stopping(reason, is_over=True))
        until_s = time.monotonic() + min(LAST_S, self._plan.drain_s)
        while self._children:
            self._listen(TICK_S)
            self._bury(again=False)
            if time.monotonic() > until_s:
                self.kill()


@dataclass(slots=True)
class Child:
    """A child process."""

    number: int
    pid: int
    control: messages.Control
    born_s: float
    load: messages.Load

    @property
    def name(self) -> str:
        """What the log calls the process."""
        return NAMES.get(self.number) or f"worker {self.number}"

    @property
    def is_worker(self) -> bool:
        """Whether the process has sessions."""
        return self.number > FRONT


def fork(number: int, target: Callable[[messages.Control], None], others: Iterable[Child]) -> Child:
    """Fork a process that runs a function and ends."""
    ours, theirs = messages.control_pair()
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
    return Child(number, pid, ours, time.monotonic(), messages.Load(number))


def _be_child(
    number: int, target: Callable[[messages.Control], None], control: messages.Control
) -> None:
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
