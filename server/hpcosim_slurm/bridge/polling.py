"""Reads the state of the cluster at intervals, in a thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.state import ClusterState

STOP_S = 0.5  # longest time until a thread that waits for hooks ends, s
Read = Callable[[], ClusterState]
"""Reads the state of the cluster. It raises a `SlurmError` if it cannot."""


class Polling:
    """Reads the state of the cluster at intervals, and when a hook of Slurm rings.

    Args:
        read: reads the state.
        interval_s: time from the end of one reading to the begin of the next, s.
        wait: waits for a time, or until a hook of Slurm rings, and returns whether one has rung;
            None: there are no hooks.
    """

    def __init__(
        self, read: Read, interval_s: float, wait: Callable[[float], bool] | None = None
    ) -> None:
        self._read = read
        self._interval_s = interval_s
        self._found: queue.SimpleQueue[ClusterState | SlurmError] = queue.SimpleQueue()
        self._wait = wait
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="polling", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the reading that it is doing."""
        self._over.set()
        self._thread.join()

    def take(self) -> ClusterState | SlurmError | None:
        """Return the next result of a reading; None: there is no new one."""
        try:
            return self._found.get_nowait()
        except queue.Empty:
            return None

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._found.put(self._read())
            except SlurmError as error:
                self._found.put(error)
            except OSError as error:  # no process or file can be had now
                self._found.put(SlurmError(f"the cluster cannot be read: {error}"))
            if self._wait is None:
                self._over.wait(self._interval_s)
            else:
                self._wait_for_ring(self._wait)

    def _wait_for_ring(self, wait: Callable[[float], bool]) -> None:
        until_s = time.monotonic() + self._interval_s
        while not self._over.is_set() and (left_s := until_s - time.monotonic()) > 0.0:
            if wait(min(left_s, STOP_S)):
                return
