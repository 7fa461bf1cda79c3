"""Deterministic simulation of time: an event queue, and threads that run one at a time.

Synchronous code, such as the client's, runs in a thread of its own. The simulator hands a baton to
one thread at a time, in the order of simulated time, so a run depends only on its seed.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from _thread import allocate_lock
from collections.abc import Callable


class Killed(BaseException):
    """Ends the thread of a process that is killed."""


class Timer:
    """An action at a simulated time.

    Args:
        action: the action.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Do nothing when the time comes."""
        self._action = None

    def fire(self) -> None:
        """Carry out the action, unless it is cancelled."""
        if self._action is not None:
            self._action()


class Simulator:
    """Simulated time.

    Attributes:
        now_s: simulated wall-clock time, s.
        trace: what happened, one line each.
        baton: held by the thread that runs.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.trace: list[str] = []
        self.baton = allocate_lock()
        self.baton.acquire()
        self._queue: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def after(self, delay_s: float, action: Callable[[], None]) -> Timer:
        """Carry out an action after a delay, s; actions of one instant keep their order."""
        timer = Timer(action)
        heapq.heappush(self._queue, (self.now_s + delay_s, next(self._numbers), timer))
        return timer

    def at(self, time_s: float, action: Callable[[], None]) -> Timer:
        """Carry out an action at a simulated time, s, that is not over."""
        return self.after(time_s - self.now_s, action)

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now_s:12.6f}  {text}")

    def run(self, until_s: float, over: Callable[[], bool] = lambda: False) -> None:
        """Carry out the actions up to a simulated time, s, or until a condition holds."""
        while self._queue and self._queue[0][0] <= until_s and not over():
            self.now_s, _, timer = heapq.heappop(self._queue)
            timer.fire()


class Process:
    """A simulated process that runs synchronous code.

    Args:
        simulator: the simulated time.
        body: the code.
        ended: called when it has ended, with its exception; not if it was killed.

    Attributes:
        alive: whether it runs.
    """

    def __init__(
        self,
        simulator: Simulator,
        body: Callable[[], None],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        self.alive = True
        self._simulator = simulator
        self._body, self._ended = body, ended
        self._baton = allocate_lock()
        self._baton.acquire()
        self._error: BaseException | None = None
        self._over = False
        self._thread = threading.Thread(target=self._main, daemon=True)

    def start(self) -> None:
        """Let the process run until it waits or ends; called by the simulator."""
        self._thread.start()
        self._wait()

    def wait_s(self, duration_s: float) -> None:
        """Sleep; called by the process itself."""
        self._simulator.after(duration_s, self.wake)
        self.park()

    def park(self) -> None:
        """Wait until the simulator wakes this process; called by the process itself.

        Raises:
            Killed: the process was killed.
        """
        self._simulator.baton.release()
        self._baton.acquire()
        self.check()

    def check(self) -> None:
        """Raise `Killed` if the process was killed; called by the process itself."""
        if not self.alive:
            raise Killed

    def wake(self) -> None:
        """Let the process run until it waits again or ends; called by the simulator."""
        if self.alive:
            self._run()

    def kill(self) -> None:
        """End the process at once; called by the simulator."""
        if self.alive:
            self.alive = False
            self._run()
            self._thread.join()

    def _run(self) -> None:
        self._baton.release()
        self._wait()

    def _wait(self) -> None:
        self._simulator.baton.acquire()
        if self.alive and self._over:
            self.alive = False
            self._thread.join()
            self._ended(self._error)

    def _main(self) -> None:
        try:
            self._body()
        except Killed:
            pass
        except BaseException as error:  # handed to the simulator's thread
            self._error = error
        self._over = True
        self._simulator.baton.release()
