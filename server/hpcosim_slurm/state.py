"""A Slurm cluster at an instant, as its commands show it. Times are Unix times, s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

JobState = Literal["pending", "configuring", "running", "suspended", "completing", "over"]
PowerState = Literal["on", "off", "switching_on", "switching_off"]


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job of a Slurm cluster.

    Attributes:
        id: Slurm's number of the job. A task of an array has a number that `texts.task_id`
            makes, because Slurm gives it one only when it starts; it stays the same.
        label: Slurm's text for a task of an array, such as `101_3`; empty: the job is none.
        account: its account; empty: the cluster has no accounts.
        partition: the partition in which it waits or runs; several for a job that may start in
            any of them, such as `main,gpu`.
        slurm_state: Slurm's word for it, such as `COMPLETED` or `NODE_FAIL`.
        is_held: whether it waits for a release by the user or an operator.
        reason: Slurm's reason for waiting, such as `Resources`; empty: none.
        eligible_s: time from which it may start; None: it may not start yet, or is held.
        time_limit_s: its time limit, s; None: unlimited.
        nodes: names of its nodes, in Slurm's order; empty: it has none.
        nodes_max: most nodes that it asks for; 0: no limit.
        memory_mb: memory that it asks for on each node, MiB; None: no limit, so it gets all
            that there is if the cluster counts memory (`ClusterConfig.is_memory_counted`).
        devices: number of generic resources on each node, by name with type, such as
            `{"gpu:a100": 2}`, or `{"gpu": 2}` if the job names no type.
        devices_together: number of further ones on all nodes together.
        features: Slurm's expression of the features that its nodes must have; empty: any node.
        exit_code: exit code of the batch script, or 128 and the number of the signal that ended
            it; None: it has not ended.
        heterogeneous: number of the heterogeneous job of which it is a component; None: it is none.
        lost_node: whether it waits because a hook said that a node of its last run failed.
        array: Slurm's number of the array of which it is a task; None: it is none.
        array_limit: most tasks of the array that may run at once; 0: no limit, or none waits.
        is_outside: whether it is a job of a partition that the scheduler does not see, on nodes
            that it sees. `nodes`, `cpus` and `devices_together` are then those on these nodes.
    """

    id: int
    name: str
    user: str
    partition: str
    state: JobState
    slurm_state: str
    submitted_s: float
    cpus: int
    nodes_min: int
    nodes_max: int
    account: str = ""
    qos: str = ""
    is_held: bool = False
    reason: str = ""
    eligible_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    time_limit_s: float | None = None
    nodes: tuple[str, ...] = ()
    memory_mb: int | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    devices_together: Mapping[str, int] = field(default_factory=dict)
    licenses: Mapping[str, int] = field(default_factory=dict)
    features: str = ""
    dependency: str = ""
    reservation: str = ""
    is_exclusive: bool = False
    priority: int = 0
    exit_code: int | None = None
    comment: str = ""
    label: str = ""
    heterogeneous: int | None = None
    lost_node: bool = False
    array: int | None = None
    task: int = 0
    array_limit: int = 0
    is_outside: bool = False

    @property
    def name_in_slurm(self) -> str:
        """What commands of Slurm call it, such as `17` or `101_3`."""
        return self.label or str(self.id)


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node of a Slurm cluster.

    Attributes:
        is_available: whether new jobs may start on it: it is not down, drained or failing.
        is_responding: whether its daemon answers, or it is switched off on purpose.
        slurm_state: Slurm's words for its state, such as `IDLE+POWERED_DOWN`.
        devices: number of generic resources by name with type, such as `{"gpu:a100": 2}`.
        reason: why it is down or drained; empty: no reason is given.
        booted_s: Unix time of its last boot, s; it varies by some seconds. None: unknown.
    """

    name: str
    cpus: int
    memory_mb: int
    is_available: bool
    is_responding: bool
    power: PowerState
    slurm_state: str
    cpus_allocated: int = 0
    memory_allocated_mb: int = 0
    devices: Mapping[str, int] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    reason: str = ""
    booted_s: float | None = None


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A partition of a Slurm cluster.

    Attributes:
        is_up: whether jobs of it may start (`State=UP`).
        time_limit_s: longest time limit of its jobs, s; None: unlimited.
        default_time_s: time limit of jobs that give none, s; None: that of the partition.
    """

    name: str
    nodes: tuple[str, ...]
    is_up: bool
    is_default: bool = False
    time_limit_s: float | None = None
    default_time_s: float | None = None


@dataclass(frozen=True, slots=True)
class LiveReservation:
    """A reservation of a Slurm cluster. Of one that repeats, the present window, or the next one.

    Attributes:
        nodes: names of its nodes; empty: it reserves licences only.
        users: names of its users; one that begins with `-` is excluded.
        accounts: names of its accounts, as `users`.
        flags: Slurm's words, such as `MAINT` and `DAILY`.
    """

    name: str
    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    is_active: bool
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster at an instant.

    Attributes:
        at_s: time at which the commands were run.
        jobs: the jobs that Slurm still remembers, by number.
    """

    at_s: float
    jobs: Mapping[int, LiveJob]
    nodes: Mapping[str, LiveNode]
    partitions: Mapping[str, LivePartition]
    reservations: Mapping[str, LiveReservation] = field(default_factory=dict)
    licenses: Mapping[str, int] = field(default_factory=dict)
