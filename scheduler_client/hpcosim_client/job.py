"""A job as the scheduler knows it, and the cores it runs on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from hpcosim_client.arrays import Bools as Bools
from hpcosim_client.arrays import Floats as Floats
from hpcosim_client.arrays import Ints as Ints
from hpcosim_client.demand import Demand
from hpcosim_protocol import JobRequest, Placement


class HeldResources(NamedTuple):
    """Resources beyond cores that a job holds; see `hpcosim_client.demand.Slots`.

    Attributes:
        slots: int64[n], slots of memory, devices and licences, each once.
        amounts: int64[n], the amount of each.
        gres: numbers of the devices on each node of the allocation, by name of the resource with
            its type; empty: none.
    """

    slots: Ints
    amounts: Ints
    gres: list[dict[str, list[int]]]


class Allocation(NamedTuple):
    """Cores and other resources for a job.

    Attributes:
        nodes: int64[n], node numbers.
        tasks: int64[n], tasks of the job on each node.
        cores_per_node: int64[n], cores that the job occupies on each node; more than `tasks` with
            placement `whole_nodes`.
        cores: the sum of `cores_per_node`.
        held: the other resources; None: none.
    """

    nodes: Ints
    tasks: Ints
    cores_per_node: Ints
    cores: int
    held: HeldResources | None = None

    def by_node(self) -> Iterator[tuple[int, int]]:
        """Return pairs of a node number and the number of cores on it."""
        return zip(self.nodes.tolist(), self.cores_per_node.tolist(), strict=True)


class Job(Struct, eq=False, gc=False):
    """A waiting or running job.

    Attributes:
        submit_s: submission, simulated seconds.
        cores: number of cores requested, one task each.
        requested_s: requested run time, in seconds.
        placement, memory_mb, memory_volume_mb, profile: see `hpcosim_protocol.JobSubmitted`.
        order: number of jobs submitted before this one; breaks ties.
        max_energy_j: upper bound of the job's energy estimate, in J; infinity: none.
        deadline_s: time by which the job should have ended, simulated seconds; infinity: none.
        user, group, account, qos: names; empty: unknown.
        partitions: partitions that the user named, in this order; empty: none.
        request: what the job requires beyond cores and time; None: nothing.
        demand: the same compared with the cluster, with partitions and memory; None: the job only
            needs cores.
        runs: number of runs of the job that have ended because it was requeued.
        suspended_s: time for which the present run was suspended, in seconds.
        ended_as: final state of a job that is over, such as `completed`; empty: it is not over.
        start_s: start, simulated seconds; expected if nodes still boot; NaN: the job waits.
        allocation: the allocated cores; None: the job waits.
        explanation: last reason that `View.explain` sent for the job, and its expected start,
            simulated seconds (None: unknown); None: nothing was sent.
    """

    job_id: int
    submit_s: float
    cores: int
    requested_s: float
    placement: Placement = "cores"
    order: int = 0
    memory_mb: float = 0.0
    memory_volume_mb: float = 0.0
    max_energy_j: float = math.inf
    profile: str = ""
    deadline_s: float = math.inf
    user: str = ""
    group: str = ""
    account: str = ""
    qos: str = ""
    partitions: tuple[str, ...] = ()
    request: JobRequest | None = None
    demand: Demand | None = None
    runs: int = 0
    suspended_s: float = 0.0
    ended_as: str = ""
    start_s: float = math.nan
    allocation: Allocation | None = None
    explanation: tuple[str, float | None] | None = None

    def __repr__(self) -> str:
        return f"Job({self.job_id}, {self.cores} cores, {self.requested_s} s)"

    def expected_end_s(self, now_s: float) -> float:
        """Return the end by the requested time, simulated seconds; at least `now_s`."""
        return max(self.start_s + self.suspended_s + self.requested_s, now_s)
