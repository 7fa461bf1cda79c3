"""Reservations, and the interface of profiles of free cores."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from hpcosim_client.job import Allocation, Job
from hpcosim_client.view import View


class Reservation(NamedTuple):
    """Cores reserved for a job, from a start on for its requested time.

    Attributes:
        start_s: when the nodes are allocated, simulated seconds.
        allocation: the nodes; None in profiles that only count.
        boot_s: seconds for which the nodes boot before the job runs.
    """

    start_s: float
    allocation: Allocation | None
    boot_s: float = 0.0

    @property
    def runs_s(self) -> float:
        """When the job starts to run, simulated seconds."""
        return self.start_s + self.boot_s


class Profile(Protocol):
    """The free cores from now on, by requested run times, minus the reservations.

    A job that overruns its request counts as ending now. A profile can therefore show cores as free
    that are still in use; `start` also checks that they are free.
    """

    def earliest(self, job: Job, after_s: float = -math.inf) -> Reservation | None:
        """Return the earliest reservation at or after `after_s` that fits; None: none ever does."""

    def fits(self, job: Job, reservation: Reservation) -> bool:
        """Return whether the cores of a reservation are free for the job's requested time."""

    def reserve(self, job: Job, reservation: Reservation) -> None:
        """Make a reservation for a job. It must fit, see `fits`."""

    def release(self, job: Job) -> None:
        """Cancel the reservation of a job."""

    def start(self, view: View, job: Job, allocation: Allocation | None = None) -> bool:
        """Start a job now if that delays no reservation, and return whether it started.

        Args:
            view: the view.
            job: a waiting job.
            allocation: the preferred nodes; None: no preference.
        """

    def start_each(self, view: View, jobs: Sequence[Job]) -> None:
        """Start those of some waiting jobs that `start` would start, in this order."""


F = TypeVar("F")


def split_step(times_s: list[float], free: list[F], at_s: float) -> int:
    """Make a step of a profile begin at `at_s`, and return its index."""
    step = bisect_right(times_s, at_s) - 1
    if times_s[step] == at_s:
        return step
    times_s.insert(step + 1, at_s)
    free.insert(step + 1, free[step])
    return step + 1
