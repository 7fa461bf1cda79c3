"""Decisions that the server rejects for reasons of a workload manager."""

from __future__ import annotations

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    NodeGroup,
    NodeReservation,
    Partition,
    Platform,
    Processor,
    RejectionCode,
    RequeueJob,
    ResumeJob,
    SuspendJob,
)
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import NodeChange, SiteEvents
from support.site_scenes import job, table

PLATFORM = Platform(
    (
        NodeGroup(2, (Processor(4),), 16.0, features=("ib",), gres={"gpu:a100": 2}),
        NodeGroup(3, (Processor(4),), 8.0),
    ),
    ("cores", "memory"),
    partitions=(
        Partition(name="all", nodes=((0, 4),), default=True),
        Partition(name="gpu", nodes=((0, 1),), exclusive=True),
        Partition(name="cpu", nodes=((2, 4),)),
    ),
    reservations=(NodeReservation(name="maint", nodes=((4, 4),), start_s=50.0, end_s=90.0),),
    licenses={"matlab": 1},
)


def stage() -> Simulation:
    """Return a simulation at 1 s: job 1 runs on node 0; node 3 is drained; the others wait."""
    simulation = Simulation(
        PLATFORM,
        table(
            job(
                1,
                run_s=900.0,
                spec={"memory_mb": 12.0},
                gres_per_node={"gpu": 1},
                licenses={"matlab": 1},
            ),
            job(2, begin_s=500.0),
            job(3, 1.0, 60.0, 2, spec={"partition": "cpu"}),
            job(4, 1.0, spec={"memory_mb": 5.0}),
            job(5, 1.0, gres_per_node={"gpu": 2}),
            job(6, 1.0, licenses={"matlab": 1}),
            job(7, 1.0, cores=2, features="ib", nodes_max=1, cores_per_task=2),
            job(8, 1.0, spec={"partition": "gpu"}),
            job(9, 1.0, cores=4, required_nodes=(2,), excluded_nodes=(1,), tasks_per_node=3),
            job(10, 1.0, cores=2, nodes_min=2),
        ),
        site_events=SiteEvents(node_changes=(NodeChange(0.5, (3,), "drain"),)),
    )
    simulation.advance()
    simulation.advance([AllocateJob(1, [0])], wake_on=["job_submitted"])
    return simulation


SITE_REFUSED: list[tuple[Decision, RejectionCode, str]] = [
    (AllocateJob(2, [2]), "job_not_eligible", "job 2 is not eligible: it begins at 500.0 s"),
    (ResumeJob(1), "job_not_suspended", "job 1 is running"),
    (SuspendJob(4), "job_not_running", "job 4 is waiting"),
    (RequeueJob(1), "not_requeueable", "job 1 does not permit it"),
    (AllocateJob(3, [3]), "node_unavailable", "node 3 is drained; expected available nodes"),
    (AllocateJob(3, [4]), "reserved", "node 4 is reserved by maint from 50.0 to 90.0 s"),
    (AllocateJob(4, [0]), "insufficient_memory", "job 4 needs 5 MB of node 0; free: 4 MB"),
    (AllocateJob(5, [0]), "insufficient_gres", "gpu"),
    (
        AllocateJob(5, [0], [1], [{"gpu:a100": [0] * 1000}]),
        "insufficient_gres",
        "names 1000 devices; the job does not request more than 2",
    ),
    (AllocateJob(5, [2]), "insufficient_gres", "gpu: 2 needed on node 0 of the allocation"),
    (AllocateJob(6, [2]), "insufficient_licenses", "1 licences of 'matlab'; free: 0"),
    (AllocateJob(3, [1]), "constraint_violated", "node 1 is not in cpu"),
    (AllocateJob(7, [2]), "constraint_violated", "requires the features 'ib'"),
    (AllocateJob(7, [0, 1], [1, 1]), "constraint_violated", "at most 1 nodes, got 2"),
    (AllocateJob(8, [0]), "node_busy", "node 0 has an allocation; job 8 needs whole nodes"),
    (AllocateJob(9, [0], [4]), "constraint_violated", "job 9 requires node 2"),
    (AllocateJob(9, [2, 1], [3, 1]), "constraint_violated", "job 9 excludes node 1"),
    (AllocateJob(9, [2], [4]), "constraint_violated", "job 9 has at most 3 tasks on a node"),
    (AllocateJob(10, [1], [2]), "constraint_violated", "job 10 requires 2 nodes, got 1"),
]
"""A decision at `stage()`, the code of its rejection, and a part of the reason."""
