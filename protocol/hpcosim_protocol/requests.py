"""What a job requires beyond cores and time, as its user declared it.

The names follow Slurm's `sbatch`. All fields are optional: a job without a `JobRequest` is the job
of earlier versions of the protocol.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

Id = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Share = Annotated[float, Meta(gt=0, le=2**31 - 1)]
Seconds = Annotated[float, Meta(ge=0)]
Name = Annotated[str, Meta(max_length=200)]
DependencyKind = Literal["after", "afterok", "afternotok", "afterany", "singleton"]


class Dependency(Struct, frozen=True, omit_defaults=True, gc=False):
    """A condition on other jobs that a job waits for.

    Attributes:
        kind: `after`: the jobs have started or are over; `afterok`: they ended in state
            `completed`; `afternotok`: they ended in another state; `afterany`: they are over;
            `singleton`: no earlier job of the same user and name is waiting or running.
        job_ids: the other jobs; all of them must meet the condition. Empty with `singleton`. A
            dependency on an array names all its tasks; `aftercorr` names the one task.
        delay_s: time after the condition is met, s (`after:JOB+MINUTES`).
    """

    kind: DependencyKind
    job_ids: tuple[Id, ...] = ()
    delay_s: Seconds = 0.0


class Checkpointing(Struct, frozen=True, omit_defaults=True, gc=False):
    """Checkpoints of a job, from which it resumes after a failure or a requeue.

    Attributes:
        cost_s: time to write a checkpoint, s. The job makes no progress meanwhile.
        interval_s: computing time between two checkpoints, s; None: the job writes none unless the
            scheduler sets an interval.
        restart_s: time to read a checkpoint at the next start, s.
    """

    cost_s: Seconds
    interval_s: Annotated[float, Meta(gt=0)] | None = None
    restart_s: Seconds = 0.0


class JobRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job requires beyond cores and time.

    Attributes:
        name: name of the job; empty: none.
        priority: priority that an administrator set; None: none.
        nice: number that lowers the priority (`--nice`).
        hold: whether the user or an administrator holds the job.
        begin_s: earliest start, s (`--begin`); None: none.
        dependencies: conditions on other jobs.
        any_dependency: whether one met dependency is sufficient (`?` in Slurm's text); False: all
            must be met (`,`).
        array_id: number of the job array; None: the job is not part of one.
        array_index: index of the job in its array.
        array_limit: maximum number of tasks of the array that run at once; 0: no limit.
        reservation: name of the reservation in which the job runs; empty: none.
        nodes_min: least number of nodes; 0: no limit.
        nodes_max: greatest number of nodes; 0: no limit.
        tasks_per_node: maximum number of tasks on a node; 0: no limit. A task has `cores_per_task`
            cores.
        cores_per_task: cores of a task; the cores on each node are a multiple of it.
        required_nodes: nodes that must be part of the allocation (`--nodelist`).
        excluded_nodes: nodes that must not be part of it.
        features: expression of node features as in `--constraint`, such as `gpu&ib`, `[a|b]` or
            `[a*2&b*1]`; empty: any node. See `hpcosim_protocol.features`.
        switches: preferred maximum number of leaf switches; 0: no preference. The server does not
            enforce it.
        switches_wait_s: time for which the job waits for its preferred switches, s.
        memory_per_node_mb: memory on each node, MB; 0: `JobSubmitted.memory_mb` for each core.
        all_memory: whether the job holds the whole memory of its nodes (`--mem=0`).
        gres_per_node: generic resources on each node, by name such as `gpu` or `gpu:a100`: a number
            of devices, or, below 1, a share of one device in thousandths. `gpu` is met by devices
            of any type.
        gres_per_task: generic resources of each task, as in `gres_per_node`.
        gres_per_job: generic resources on all nodes together, as in `gres_per_node`.
        licenses: number of licences by name.
        requeue: whether the job may be requeued after a failure of a node or by preemption.
        checkpointing: checkpoints of the job; None: none.
    """

    name: Name = ""
    priority: Annotated[int, Meta(ge=0, le=2**32)] | None = None
    nice: Annotated[int, Meta(ge=-(2**31), le=2**31)] = 0
    hold: bool = False
    begin_s: float | None = None
    dependencies: Annotated[tuple[Dependency, ...], Meta(max_length=10_000)] = ()
    any_dependency: bool = False
    array_id: Id | None = None
    array_index: Count = 0
    array_limit: Count = 0
    reservation: Name = ""
    nodes_min: Count = 0
    nodes_max: Count = 0
    tasks_per_node: Count = 0
    cores_per_task: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    required_nodes: tuple[Id, ...] = ()
    excluded_nodes: tuple[Id, ...] = ()
    features: Annotated[str, Meta(max_length=1000)] = ""
    switches: Count = 0
    switches_wait_s: Seconds = 0.0
    memory_per_node_mb: Annotated[float, Meta(ge=0)] = 0.0
    all_memory: bool = False
    gres_per_node: dict[Name, Share] = {}
    gres_per_task: dict[Name, Share] = {}
    gres_per_job: dict[Name, Share] = {}
    licenses: dict[Name, Count] = {}
    requeue: bool = False
    checkpointing: Checkpointing | None = None


def snake_case(class_name: str) -> str:
    """Return the protocol name of a message class: `job_started` for `JobStarted`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()
