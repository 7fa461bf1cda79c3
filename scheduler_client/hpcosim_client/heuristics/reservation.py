"""Reservations, and what every profile of free cores offers."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, Protocol, TypeVar

from hpcosim_client.job import Job, Place
from hpcosim_client.view import View


class Reservation(NamedTuple):
    """Room kept for a job.

    Attributes:
        start_s: from when on, for the time it asks for.
        place: on which nodes, where that matters.
        boot_s: for how much longer it holds them, as they boot for it before it runs.
    """

    start_s: float
    place: Place | None
    boot_s: float = 0.0

    @property
    def runs_s(self) -> float:
        """When the job runs."""
        return self.start_s + self.boot_s


class Profile(Protocol):
    """What is free from now on, less what is reserved.

    A job past its requested time counts as ending now, so what is free now in a profile may
    not be free yet in fact; only `start` looks at the facts.
    """

    def earliest(self, job: Job, after_s: float) -> Reservation | None:
        """Return the earliest reservation, from `after_s` on, there is room for; None: never."""

    def has_room(self, job: Job, reservation: Reservation) -> bool:
        """Tell whether there is room for the job, just so, for all its time."""

    def keep(self, job: Job, reservation: Reservation) -> None:
        """Keep room for a job, of which there must be enough."""

    def release(self, job: Job) -> None:
        """Undo a `keep`."""

    def start(self, view: View, job: Job, place: Place | None = None) -> bool:
        """Start the job if there is room now, in fact and for all its time, and say if so.

        Args:
            view: the view whose queue it is in.
            job: a waiting job.
            place: where it starts if there is room; None: anywhere.
        """


F = TypeVar("F")


def split_step(times_s: list[float], free: list[F], at_s: float) -> int:
    """Make a step begin at `at_s` and return its place."""
    step = bisect_right(times_s, at_s) - 1
    if times_s[step] == at_s:
        return step
    times_s.insert(step + 1, at_s)
    free.insert(step + 1, free[step])
    return step + 1
