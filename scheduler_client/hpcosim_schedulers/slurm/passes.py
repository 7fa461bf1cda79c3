"""What a pass of the main or the backfill scheduler sees of the cluster, and does to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hpcosim_schedulers.slurm.candidate import Candidate, Found, NodeSet
from hpcosim_schedulers.slurm.future import Future


class Windows(Protocol):
    """The nodes that advance reservations leave to a job."""

    def permitted(self, candidate: Candidate, start: int, end: int) -> tuple[NodeSet, int | None]:
        """Return the nodes, and when the next reservation after `start` begins or ends."""


@dataclass(frozen=True, slots=True)
class PassContext:
    """The cluster and the rules of the site at the time of a pass.

    Attributes:
        now: time of the pass, seconds of the site's clock.
        available: nodes that are up.
        windows: advance reservations; None: there are none.
        future: returns the free resources; called again after each start.
        held: tells whether a limit holds a job.
        stops: tells whether a job that a limit holds also holds later jobs of its partition.
        reserves: tells whether later jobs must leave the resources to a job that lacks some now.
        start: starts a job, and returns whether it started.
        preempt: ends jobs on some nodes for another job that would wait otherwise, and returns its
            place; None: it did not.
    """

    now: int
    available: NodeSet
    windows: Windows | None
    future: Callable[[], Future]
    held: Callable[[Candidate], bool]
    stops: Callable[[Candidate], bool]
    reserves: Callable[[Candidate], bool]
    start: Callable[[Candidate, Found], bool]
    preempt: Callable[[Candidate, NodeSet], Found | None]

    def permitted_now(self, candidate: Candidate) -> NodeSet:
        """Return the suitable nodes that advance reservations leave to a job that starts now."""
        if self.windows is None:
            return candidate.suitable
        end = self.now + candidate.limit
        return candidate.suitable & self.windows.permitted(candidate, self.now, end)[0]
