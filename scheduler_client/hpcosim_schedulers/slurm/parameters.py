"""Parameters of the main and the backfill scheduler."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hpcosim_schedulers.slurm.accounts import Count, Seconds

Interval = Annotated[float, Meta(gt=0, le=1e9)]


class SchedulerParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SchedulerParameters of slurm.conf(5), with its defaults.

    Attributes:
        backfill: whether the backfill scheduler runs (SchedulerType `sched/backfill`); False:
            `sched/builtin`.
        batch_sched_delay_s: time for which the scheduling of batch jobs may be delayed to save
            work, s.
        sched_interval_s: time between two passes of the main scheduler over the whole queue, s.
        sched_max_job_start: maximum number of jobs that a pass of the main scheduler starts; 0: no
            limit.
        sched_min_interval_s: least time between two passes of the main scheduler, s.
        default_queue_depth: jobs that a pass considers after a submission or an end of a job.
        partition_job_depth: jobs of each partition that such a pass considers; 0: no limit.
        max_sched_time_s: maximum real time of a pass of the main scheduler, s.
        defer: whether no pass follows the submission of single jobs.
        assoc_limit_stop: whether a job held by a limit of its association or QOS also holds later
            jobs of its partition, in both schedulers.
        bf_interval_s: time between two passes of the backfill scheduler, s.
        bf_window_s: how far ahead the backfill scheduler plans, s (`bf_window` is in minutes).
        bf_resolution_s: resolution of planned starts, s.
        bf_continue: whether a pass that released its locks goes on.
        bf_max_time_s: maximum real time of a backfill pass, s; None: `bf_interval_s`.
        bf_max_job_test: jobs that a pass considers.
        bf_max_job_start: jobs that a pass starts; 0: no limit.
        bf_max_job_user: jobs of a user that a pass considers; 0: no limit.
        bf_max_job_user_part: jobs of a user in a partition that a pass considers; 0: no limit.
        bf_max_job_part: jobs of a partition that a pass considers; 0: no limit.
        bf_max_job_assoc: jobs of an association that a pass considers; 0: no limit.
        bf_max_job_array_resv: tasks of a job array that get reservations.
        bf_job_part_count_reserve: number of jobs of highest priority of a partition that get
            reservations; 0: all.
        bf_min_age_reserve_s: time for which a job must have been eligible before it gets a
            reservation and holds back later jobs, in both schedulers, s.
        bf_min_prio_reserve: priority below which a job gets no reservation and holds back no later
            jobs, in both schedulers; 0: none. `Qos.min_prio_threshold` takes precedence.
        bf_one_resv_per_job: whether a job in several partitions gets only the first of its
            reservations. In the other partitions it can still start at once.
        bf_busy_nodes: whether the node choice prefers nodes in use for planned jobs.
        bf_running_job_reserve: whether a pass also reserves the nodes of running jobs that hold
            whole nodes.
        max_switch_wait_s: greatest time for which a job waits for its preferred number of leaf
            switches (`JobRequest.switches`), s; also that of jobs whose `switches_wait_s` is 0.
        loop_s: time of an iteration of slurmctld's main loop, in which passes of the main scheduler
            begin, s; a real one takes slightly more than 1 s.
        loop_begin_s: time from the start of slurmctld to the first iteration of its main loop, s.
        bf_job_cost_s: real time that the backfill scheduler needs for each job that it considers,
            s; it delays the next pass.
        pack_serial_at_end: whether jobs of one core get the nodes at the end of the list.
    """

    backfill: bool = True
    batch_sched_delay_s: Seconds = 3.0
    sched_interval_s: Interval = 60.0
    sched_max_job_start: Count = 0
    sched_min_interval_s: Seconds = 2e-6
    default_queue_depth: Count = 100
    partition_job_depth: Count = 0
    max_sched_time_s: Seconds = 2.0
    defer: bool = False
    assoc_limit_stop: bool = False
    bf_interval_s: Interval = 30.0
    bf_window_s: Interval = 86_400.0
    bf_resolution_s: Interval = 60.0
    bf_continue: bool = False
    bf_max_time_s: Seconds | None = None
    bf_max_job_test: Count = 500
    bf_max_job_start: Count = 0
    bf_max_job_user: Count = 0
    bf_max_job_user_part: Count = 0
    bf_max_job_part: Count = 0
    bf_max_job_assoc: Count = 0
    bf_max_job_array_resv: Count = 20
    bf_job_part_count_reserve: Count = 0
    bf_min_age_reserve_s: Seconds = 0.0
    bf_min_prio_reserve: Count = 0
    bf_one_resv_per_job: bool = False
    bf_busy_nodes: bool = False
    bf_running_job_reserve: bool = False
    max_switch_wait_s: Seconds = 300.0
    loop_s: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    loop_begin_s: Seconds = 1.15
    bf_job_cost_s: Seconds = 0.0
    pack_serial_at_end: bool = False
