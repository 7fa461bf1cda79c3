"""The engine of jobs whose run times become known, and jobs that run on their real nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import hpcosim_protocol as protocol
from hpcosim_protocol.requests import snake_case
from hpcosim_protocol.resources import (
    WHOLE_DEVICE,
    DeviceDemand,
    gres_of_job,
    gres_on,
    memory_on,
    provides,
    tasks_on,
)
from hpcosim_sim.engine.clock import Rank, Timer
from hpcosim_sim.engine.decisions import carry_out
from hpcosim_sim.engine.end_timers import EndTimers
from hpcosim_sim.engine.engine import Engine, Rules
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.cluster import NO_REQUEST
from hpcosim_sim.physics.execution import Execution
from hpcosim_sim.physics.grants import Grant
from hpcosim_sim.physics.resources import DeviceShares, FreeDevices, HeldResources, memory_parts
from hpcosim_workloads.table import JobSpec, job_table


class KnownRun(NamedTuple):
    """The run time of a job that is over in reality."""

    run_s: float
    state: protocol.JobState


class LearnedEnds(EndTimers):
    """Ends jobs after their real run times, as soon as these are known.

    A job whose run time is unknown runs until its time limit. If its run time becomes known when
    it has run for longer already, the job ends at once.

    Attributes:
        known: the known run times, by job id.
    """

    def __init__(self, engine: Engine, execution: Execution) -> None:
        super().__init__(engine.clock, execution, True, engine.end)
        self._engine = engine
        self.known: dict[int, KnownRun] = {}

    def learn(self, job_id: int, run: KnownRun) -> None:
        """Note the run time of a job, and end the job at once if it has run for that long."""
        self.known[job_id] = run
        job = self._engine.jobs.running.get(job_id)
        if job is not None:
            self.set_again(job)

    def forget(self, job_id: int) -> None:
        """Forget the run time of a job that waits or runs again in reality."""
        self.known.pop(job_id, None)

    def set_again(self, job: SimulatedJob) -> None:
        """Set the timer of a running job again; see `EndTimers`."""
        if job.end is not None:
            self._clock.cancel(job.end)
        self.set(job)

    def set(self, job: SimulatedJob) -> None:
        """Set the timer of a job that runs from now on; see `EndTimers`."""
        now_s, limit_s = self._clock.now, job.spec.requested_s
        run_s, state = self.known.get(job.spec.job_id, KnownRun(math.inf, "completed"))
        if run_s > limit_s:
            run_s, state = limit_s, "timeout"
        used_s = now_s - job.started_s if job.progress is None else job.progress.used_s(now_s)
        at_s = now_s + max(run_s - used_s, 0.0)
        job.end = self._clock.at(at_s, Rank.COMPLETION, self._on_learned_end, (job, state))

    def _on_learned_end(self, timer: Timer) -> None:
        job, state = timer.subject
        self._end(job, state)


class NoEnds(LearnedEnds):
    """Ends no job: somebody else does."""

    def set(self, job: SimulatedJob) -> None:
        """Set no timer."""


class LiveEngine(Engine):
    """The state of a cluster that a world copies, at real times.

    There is no workload: a world submits the jobs when it learns of them, and there may always be
    more.

    Attributes:
        on_rejected: called with each rejection of a decision.
    """

    end_timers: LearnedEnds
    on_rejected: Callable[[protocol.DecisionRejected], object] | None = None

    def __init__(self, platform: protocol.Platform, start_s: float) -> None:
        rules = Rules(kill_at_walltime=True, wake_on_allocation=True, initial_time_s=start_s)
        super().__init__(platform, job_table(job_id=()), rules)
        self.all_submitted = False
        self.outbox.take()  # with the end of the empty workload
        self.outbox.add(protocol.SimulationBegan(start_s))
        self.end_timers = LearnedEnds(self, Execution(platform, None))

    def pass_to(self, now_s: float) -> None:
        """Let time pass. A time before the present one has no effect: clocks are set back."""
        clock = self.clock
        while clock.next_s() <= now_s:
            clock.run_instant()
        if now_s > clock.now:
            clock.advance_to(now_s)

    def pass_to_event(self, now_s: float, wake: int) -> bool:
        """Let time pass, at most up to the first instant with an event of some kinds.

        So a scheduler that set an alarm sees the time of the alarm, as in a simulation.

        Args:
            wake: bits of the kinds, see `outbox.mask_of`.

        Returns:
            Whether there is such an event; then time stands at its instant.
        """
        clock, outbox = self.clock, self.outbox
        while not outbox.kinds & wake:
            if clock.next_s() > now_s:
                self.pass_to(now_s)
                return False
            clock.run_instant()
        return True

    def decide(self, decision: protocol.Decision, seq: int, index: int) -> bool:
        """Carry out a decision now, or add the event that rejects it."""
        try:
            carry_out(self, decision)
        except Rejection as rejection:
            self.reject(decision, seq, index, rejection)
            return False
        return True

    def reject(self, decision: protocol.Decision, seq: int, index: int, why: Rejection) -> None:
        """Add the event that rejects a decision."""
        event = protocol.DecisionRejected(
            self.now_s,
            seq,
            index,
            snake_case(type(decision).__name__),
            why.code,
            why.reason,
            getattr(decision, "job_id", None),
        )
        if self.on_rejected is not None:
            self.on_rejected(event)
        self.outbox.add(event)


def place(engine: Engine, job: SimulatedJob, nodes: Sequence[int]) -> bool:
    """Start a waiting job on the nodes that it has in reality, now.

    Slurm does not say how many CPUs a job has on each node. They are spread evenly, and at most as
    many as the copy has free there.

    Args:
        job: the job; its number of cores is changed to that of its tasks.
    """
    free = [engine.cluster.free[node] for node in nodes]
    if not nodes or min(free) < 1:
        return False
    if any(engine.power.state[node] != "on" for node in nodes):
        return False  # Slurm's state of the node was read before
    start_on(engine, job, nodes, spread(job.spec.cores, free))
    return True


def start_on(engine: Engine, job: SimulatedJob, nodes: Sequence[int], tasks: list[int]) -> None:
    """Start a waiting job on nodes that it has in reality, now, whether a scheduler could or not.

    Beside its cores it gets what it requests, as far as the copy has it free.
    """
    is_idle = all(engine.cluster.free[node] == engine.cluster.capacity[node] for node in nodes)
    wants_whole = job.spec.placement == "whole_nodes"
    placement = "cores" if wants_whole and not is_idle else job.spec.placement
    job.spec = job.spec._replace(cores=sum(tasks), placement=placement)
    job.blocked = 0
    engine.recording.cores[job.row] = job.spec.cores
    held = _held(engine, job.spec, nodes, tasks)
    engine.allocate(job, list(nodes), tasks, Grant(tasks, wants_whole and is_idle, held))


def spread(cores: int, free: Sequence[int]) -> list[int]:
    """Return a number of tasks for each node, as even as possible, at least 1 and at most `free`.

    Args:
        cores: number of tasks together; nodes that are too small get fewer.
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


def _held(engine: Engine, spec: JobSpec, nodes: Sequence[int], tasks: list[int]) -> HeldResources:
    """Return what a job has beside its cores: what it requests, as far as the copy has it free."""
    resources, request = engine.resources, spec.request or NO_REQUEST
    memory = [0] * len(nodes)
    if resources.limits_memory:
        memory = [
            min(
                memory_parts(memory_on(request, spec.memory_mb, count, resources.memory_mb[node])),
                resources.free_memory[node],
            )
            for node, count in zip(nodes, tasks, strict=True)
        ]
    counts = [tasks_on(request, count) for count in tasks]
    devices = _devices(request, counts, [resources.free_devices[node] for node in nodes])
    licenses = {
        name: min(count, resources.free_licenses.get(name, 0))
        for name, count in request.licenses.items()
    }
    return HeldResources(nodes, memory, devices, licenses)


def _devices(
    request: protocol.JobRequest, counts: Sequence[int], free: Sequence[FreeDevices]
) -> list[DeviceShares]:
    """Return the devices on each node, those of the lowest numbers. Slurm has no shares of one."""
    left = [
        {name: [n for n, part in enumerate(parts) if part == WHOLE_DEVICE] for name, parts in node}
        for node in (each.items() for each in free)
    ]
    held: list[DeviceShares] = [{} for _ in free]

    def take(place: int, demand: DeviceDemand) -> int:
        missing = demand.parts
        for name, numbers in left[place].items():
            if provides(name, demand.name) and (taken := numbers[:missing]):
                del numbers[:missing]
                missing -= len(taken)
                held[place].setdefault(name, []).extend((n, WHOLE_DEVICE) for n in taken)
        return missing

    for place, count in enumerate(counts):
        for demand in gres_on(request, count):
            take(place, demand)
    for demand in gres_of_job(request):
        missing = demand.parts
        for place in range(len(free)):
            missing = take(place, demand._replace(parts=missing))
    return held if any(any(node.values()) for node in held) else []
