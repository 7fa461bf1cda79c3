"""The state of a cluster from which a forecast starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from numpy.random import Generator

from hpcosim_client import Policy
from hpcosim_protocol import Platform
from hpcosim_workloads.table import JobSpec


class QueuedJob(NamedTuple):
    """A job that waits or runs at the instant of a forecast.

    Attributes:
        spec: the job as it was submitted; its `run_s` is not used.
        started_s: time of its start, s; None: it waits.
        nodes: numbers of its nodes; empty: it waits.
        cores: number of cores that it has on each of `nodes`; empty: it waits.
    """

    spec: JobSpec
    started_s: float | None = None
    nodes: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueState:
    """A cluster at an instant.

    Attributes:
        now_s: the instant, s on the clock of the jobs.
        platform: the cluster.
        jobs: the jobs that wait and run.
        new_policy: returns the scheduler of the site, new for each simulation, as it may be at
            `now_s`: what is not known of it, such as the phase of its periodic work, is drawn.
        past: jobs that were submitted and are over, as far as they are known: future submissions
            are drawn from what was submitted.
        unavailable: numbers of the nodes on which no further job starts: down or drained.
    """

    now_s: float
    platform: Platform
    jobs: Sequence[QueuedJob]
    new_policy: Callable[[Generator], Policy]
    unavailable: tuple[int, ...] = ()
    past: Sequence[JobSpec] = ()

    @property
    def waiting(self) -> list[QueuedJob]:
        """The jobs that wait."""
        return [job for job in self.jobs if job.started_s is None]
