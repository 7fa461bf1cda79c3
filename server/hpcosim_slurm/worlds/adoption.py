"""Jobs that run in reality, on their real nodes in a copy of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_protocol import AllocateJob
from hpcosim_server.engine.jobs import SimulatedJob
from hpcosim_server.errors import Rejection
from hpcosim_server.physics.grants import Grant, grant_of
from hpcosim_slurm.worlds.live_engine import LiveEngine


def place(engine: LiveEngine, job: SimulatedJob, nodes: Sequence[int]) -> bool:
    """Start a waiting job on the nodes that it has in reality, now.

    Slurm does not say how many CPUs a job has on each node. They are spread evenly, and at most as
    many as the copy has free there.

    Args:
        engine: the copy of the cluster.
        job: the job; its number of cores is changed to that of its tasks.
        nodes: numbers of its nodes.

    Returns:
        Whether the job runs. Otherwise the copy has no free core on one of its nodes, because jobs
        share cores, or not all of its nodes belong to the copy.
    """
    free = [engine.cluster.free[node] for node in nodes]
    if not nodes or min(free) < 1:
        return False
    tasks = spread(job.spec.cores, free)
    job.spec = job.spec._replace(cores=sum(tasks))
    engine.recording.cores[job.row] = job.spec.cores
    for node in nodes:
        if engine.power.state[node] != "on":  # Slurm's state of the node was read before
            return False
    engine.allocate(job, list(nodes), tasks, _grant(engine, job, nodes, tasks))
    return True


def spread(cores: int, free: Sequence[int]) -> list[int]:
    """Return a number of tasks for each node, as even as possible, at least 1 and at most `free`.

    Args:
        cores: number of tasks together; nodes that are too small get fewer.
        free: free cores of each node, above 0.
    """
    tasks = [1] * len(free)
    left = cores - len(free)
    while left > 0:
        open_nodes = [at for at, count in enumerate(tasks) if count < free[at]]
        if not open_nodes:
            break
        each = max(left // len(open_nodes), 1)
        for at in open_nodes:
            more = min(each, free[at] - tasks[at], left)
            tasks[at] += more
            left -= more
    return tasks


def _grant(
    engine: LiveEngine, job: SimulatedJob, nodes: Sequence[int], tasks: list[int]
) -> Grant | None:
    """Return what a job holds; None: only its cores, because the rest is not as in its request."""
    wanted = AllocateJob(job.spec.job_id, list(nodes), tasks)
    try:
        return grant_of(
            engine.cluster, engine.resources, engine.power, job.spec, wanted, engine.now_s
        )
    except Rejection:
        if job.spec.placement == "whole_nodes":
            job.spec = job.spec._replace(placement="cores")
        return None
