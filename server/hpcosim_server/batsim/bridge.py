"""Batsim's protocol over a simulation: a scheduler's replies in, messages for it out, no socket.

There is a message for every instant at which something happens that the scheduler is told of, with
all that did. What it decides is done at the times it says, or at once where these have passed; the
next message comes when the time it says it is ready at has passed, too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from hpcosim_protocol import (
    Alarm,
    AllocateJob,
    CancelAlarm,
    Event,
    JobCompleted,
    JobState,
    JobSubmitted,
    KillJob,
    NodePowerChanged,
    NoMoreJobs,
    RejectJob,
    SetAlarm,
)
from hpcosim_server.allocation import Refusal
from hpcosim_server.batsim import events as say
from hpcosim_server.batsim import replies
from hpcosim_server.batsim.external_events import AVAILABLE, UNAVAILABLE, ExternalEvent
from hpcosim_server.batsim.faults import BadReplyError, StuckError
from hpcosim_server.batsim.hosts import Hosts
from hpcosim_server.batsim.intervals import parse_intervals
from hpcosim_server.batsim.jobs import KnownJob, KnownJobs
from hpcosim_server.batsim.model import (
    Delay,
    FinalState,
    InputError,
    ParallelHomogeneous,
    Platform,
    Workload,
)
from hpcosim_server.batsim.node_kinds import cluster_of
from hpcosim_server.batsim.opening import Options, opening
from hpcosim_server.batsim.phases import Loads, phases
from hpcosim_server.batsim.profiles import progress, task_of
from hpcosim_server.batsim.replies import Decision
from hpcosim_server.errors import MOST_NAMED
from hpcosim_server.simulation import Rules, Simulation
from hpcosim_server.workload.table import LATEST_S

SHARED_SLOTS = 1000  # jobs on a host at a time, with sharing
FIRST_CALL = 2**40  # alarms of lower numbers are of jobs

_RULES = Rules(kill_at_walltime=True, wake_on_allocation=False, turn_away=False, start_s=0.0)
_FINAL: dict[JobState, FinalState] = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "timeout": "COMPLETED_WALLTIME_REACHED",
    "killed": "COMPLETED_KILLED",
    "rejected": "REJECTED",
}
_NO_RETURN_CODE = -1


class Bridge:
    """A simulation, told of in Batsim's messages.

    Args:
        workloads: its jobs.
        platform: its hosts.
        options: what holds.
        external: events from outside, by time.
        has_external: there are files of such, even if they are empty.

    Attributes:
        simulation: the simulation.
        known: its jobs.
        hosts: its hosts.
        over: the last message has been returned.
        switch_requests: how often power states were asked to change.
        availability: when hosts became unavailable (True) or available again.

    Raises:
        InputError: this can't be simulated.
    """

    def __init__(
        self,
        workloads: Sequence[Workload],
        platform: Platform,
        options: Options,
        external: Iterable[ExternalEvent] | None = None,
    ) -> None:
        self.options = options
        self.platform = platform
        self.known = KnownJobs(workloads)
        _check(platform, workloads, self.known, options)
        slots = SHARED_SLOTS if options.compute_sharing else 1
        pstates = [host.pstate for host in platform.hosts]
        cluster = cluster_of(platform, pstates, slots, energy=options.energy)
        self.simulation = Simulation(cluster, self.known.table(), _RULES)
        self.hosts = Hosts(platform, self.simulation, slots, energy=options.energy)
        self.over = False
        self.switch_requests = 0
        self.availability: list[tuple[float, tuple[int, ...], bool]] = []
        self._external = deque(external or ())
        self._external_to_end = external is not None
        self._registering = options.dynamic_jobs
        self._call_ids = count(FIRST_CALL)
        self._phases: dict[int, Iterator[tuple[float, Loads]]] = {}
        self._said_s = 0.0
        self._queue = [
            say.event(0.0, "SIMULATION_BEGINS", say.to_json(opening(platform, workloads, options)))
        ]

    def begin(self) -> bytes:
        """Return the first message."""
        message = self._message()
        self._tell_end_of_external()  # there may be none at all
        return message

    def answer(self, reply: bytes) -> bytes:
        """Do what the scheduler says, let time pass, and return the next message.

        Raises:
            BadReplyError: it says what it may not.
            StuckError: nothing more can happen, and not all is over.
        """
        said = replies.read_reply(reply)
        while self._next_s() <= self.simulation.now_s:  # jobs are submitted at the start
            self._step(math.inf)
        for place, decision in enumerate(said.decisions):
            self._carry_out(place, decision)
        self._wait_until(said.now_s, "$.now")
        while True:
            next_s = self._next_s()
            if next_s > self.simulation.now_s and self._queue:  # the instant is complete
                break
            if next_s == math.inf:
                self._end()
                break
            self._step(math.inf)
        return self._message()

    def last_words(self, why: Exception) -> bytes:
        """Return a message that ends the simulation for a scheduler that did something wrong."""
        self.over = True
        data = say.to_json({"error": " ".join(str(why).split())})
        self._queue.append(say.event(self.simulation.now_s, "SIMULATION_ENDS", data))
        return self._message()

    def _message(self) -> bytes:
        now_s = self.simulation.now_s
        # What is written has six decimals; a scheduler that repeats it means now.
        self._said_s = float(f"{now_s:.6f}")
        queue, self._queue = self._queue, []
        return say.message(now_s, queue)

    # Time

    def _next_s(self) -> float:
        next_s = self.simulation.next_s()
        return min(next_s, self._external[0].time_s) if self._external else next_s

    def _step(self, until_s: float) -> None:
        """Let the next instant happen, if it comes by `until_s`; else time passes up to there."""
        external = self._external
        if external:
            until_s = min(until_s, external[0].time_s)
        self._hear(self.simulation.step(until_s))
        while external and external[0].time_s <= self.simulation.now_s:
            self._happen(external.popleft())

    def _wait_until(self, time_s: float, where: str) -> None:
        if time_s > LATEST_S:
            raise BadReplyError(
                f"there is no time {time_s}; the latest is {LATEST_S:g} s",
                where,
                self.simulation.now_s,
            )
        if time_s > self._said_s:
            while self.simulation.now_s < time_s:
                self._step(time_s)

    def _end(self) -> None:
        now_s = self.simulation.now_s
        waiting = [job.full_id for job in self.known.jobs if job.state == "waiting"]
        if waiting:
            named = ", ".join(waiting[:MOST_NAMED]) + ", ..." * (len(waiting) > MOST_NAMED)
            some = "1 job waits" if len(waiting) == 1 else f"{len(waiting)} jobs wait"
            raise StuckError(now_s, f"{some} ({named}), and the scheduler does nothing about it")
        if self._registering:
            raise StuckError(
                now_s,
                "all jobs are over, and the scheduler neither registers more nor says "
                "NOTIFY registration_finished",
            )
        self.over = True
        self._queue.append(say.event(now_s, "SIMULATION_ENDS"))

    # What happens

    def _hear(self, events: Iterable[Event]) -> None:
        for event in events:
            hear = _HEAR.get(type(event))
            if hear is not None:
                hear(self, event)

    def _on_submitted(self, event: JobSubmitted) -> None:
        job = self.known.jobs[event.job_id]
        job.state = "waiting"
        if not job.registered or self.options.acknowledge_dynamic_jobs:
            profile = job.profile.raw if self.options.forward_profiles else None
            self._queue.append(say.job_submitted(event.time_s, job.full_id, job.about.raw, profile))

    def _on_completed(self, event: JobCompleted) -> None:
        job = self.known.jobs[event.job_id]
        job.state, job.final = "over", _FINAL[event.state]
        if event.state == "rejected":
            return
        if self._phases.pop(job.number, None) is not None:
            with suppress(Refusal):  # it goes off at this very instant
                self.simulation.carry_out(CancelAlarm(job.number))
        return_code = _NO_RETURN_CODE
        if event.state == "completed":
            return_code = job.profile.ret
            if return_code:
                job.final = "COMPLETED_FAILED"
        for host in job.hosts:
            self.hosts.running[host] -= 1
        self._queue.append(
            say.job_completed(event.time_s, job.full_id, job.final, return_code, job.hosts)
        )

    def _on_power_changed(self, event: NodePowerChanged) -> None:
        if event.state in ("on", "sleeping"):
            switch = self.hosts.arrived(event.node)
            if not switch.left:
                self._queue.append(
                    say.resource_state_changed(event.time_s, switch.hosts, switch.pstate)
                )

    def _on_no_more_jobs(self, event: NoMoreJobs) -> None:
        self._queue.append(say.notify(event.time_s, "no_more_static_job_to_submit"))

    def _on_alarm(self, event: Alarm) -> None:
        if event.alarm_id < FIRST_CALL:
            if event.alarm_id in self._phases:
                self._next_phase(self.known.jobs[event.alarm_id])
            return
        self._queue.append(say.event(event.time_s, "REQUESTED_CALL"))

    def _happen(self, event: ExternalEvent) -> None:
        now_s = self.simulation.now_s
        if event.kind in (UNAVAILABLE, AVAILABLE):
            gone = event.kind == UNAVAILABLE
            self.hosts.unavailable -= set(event.hosts)
            if gone:
                self.hosts.unavailable |= set(event.hosts)
            self.availability.append((now_s, event.hosts, gone))
            self._queue.append(say.availability(now_s, event.hosts, gone))
        else:
            self._queue.append(say.event(now_s, "NOTIFY", say.to_json(event.raw)))
        self._tell_end_of_external()

    def _tell_end_of_external(self) -> None:
        if self._external_to_end and not self._external:
            self._external_to_end = False
            self._queue.append(say.notify(self.simulation.now_s, "no_more_external_event_to_occur"))

    # What is decided

    def _carry_out(self, place: int, decision: Decision) -> None:
        where = f"$.events[{place}]"
        self._wait_until(decision.timestamp_s, f"{where}.timestamp")
        data = decision.data
        try:
            _CARRY_OUT[type(data)](self, data)
        except (Refusal, InputError, ValueError) as error:
            why = error.reason if isinstance(error, Refusal) else str(error)
            what = f"{replies.wire_name(data)}: {why}"
            raise BadReplyError(what, where, self.simulation.now_s) from None

    def _execute(self, wanted: replies.ExecuteJob) -> None:
        job = self._waiting(wanted.job_id)
        if wanted.storage_mapping or wanted.additional_io_job is not None:
            raise ValueError("storage_mapping and additional_io_job are not supported here")
        hosts = parse_intervals(wanted.alloc, len(self.platform.hosts))
        processes = hosts if wanted.mapping is None else _mapped(wanted.mapping, hosts)
        res, profile = job.about.res, job.profile
        moldable = isinstance(profile, ParallelHomogeneous) and profile.total
        if len(processes) != res and not moldable:
            raise ValueError(f"job {job.full_id} asks for {res} hosts; {len(processes)} were given")
        self.hosts.check_free(hosts)
        profiles = self.known.profiles_of(job)
        task = task_of(profile, profiles, self.platform, processes, self.hosts.pstates)
        simulation = self.simulation
        if len(hosts) != res or not isinstance(profile, Delay):
            simulation.reshape(job.number, len(hosts), job.run_s(task.duration_s))
        job.state, job.hosts, job.task = "running", hosts, task
        job.started_s = simulation.now_s
        if self.options.energy:
            self._phases[job.number] = phases(task)
            self._next_phase(job)
        simulation.carry_out(AllocateJob(job.number, hosts, [1] * len(hosts)))
        for host in hosts:
            self.hosts.running[host] += 1

    def _next_phase(self, job: KnownJob) -> None:
        """Let the hosts of a job draw what its next phase takes, until there is one after it."""
        begin_s = self.simulation.now_s
        for duration_s, loads in self._phases[job.number]:
            if duration_s > 0:
                self.hosts.load(job.hosts, loads)
            if begin_s + duration_s > begin_s:
                # The last one's alarm is called off as the job is over.
                self.simulation.carry_out(SetAlarm(begin_s + duration_s, job.number))
                return
        del self._phases[job.number]

    def _reject(self, wanted: replies.RejectJob) -> None:
        job = self._waiting(wanted.job_id)
        self.simulation.carry_out(RejectJob(job.number))
        self._hear(self.simulation.take_events())

    def _kill(self, wanted: replies.KillJob) -> None:
        jobs = [self.known.find(job_id) for job_id in wanted.job_ids]
        for job in jobs:
            if job.state not in ("running", "over"):
                raise ValueError(f"job {job.full_id} does not run")
        simulation = self.simulation
        asked, told = [], {}
        for job in jobs:
            if job.kill_asked:
                continue
            job.kill_asked = True
            asked.append(job.full_id)
            if job.state == "running":
                assert job.task is not None
                told[job.full_id] = progress(job.task, simulation.now_s - job.started_s)
                simulation.carry_out(KillJob(job.number))
        self._hear(simulation.take_events())
        if asked:
            self._queue.append(say.job_killed(simulation.now_s, asked, told))

    def _call_later(self, wanted: replies.CallMeLater) -> None:
        self.simulation.carry_out(SetAlarm(wanted.timestamp, next(self._call_ids)))

    def _set_state(self, wanted: replies.SetResourceState) -> None:
        if not self.options.energy:
            raise ValueError("power states can change only with --energy (-E)")
        hosts = parse_intervals(wanted.resources, len(self.platform.hosts))
        switch = self.hosts.switch(hosts, _whole(wanted.state))
        self.switch_requests += 1
        self._hear(self.simulation.take_events())
        if not switch.left:
            now_s = self.simulation.now_s
            self._queue.append(say.resource_state_changed(now_s, switch.hosts, switch.pstate))

    def _register_job(self, wanted: replies.RegisterJob) -> None:
        self._check_registering()
        job = self.known.register_job(wanted.job_id, wanted.job)
        _check_sharing(job, self.known, self.options)
        self.simulation.submit(job.spec(self.simulation.now_s))
        self._hear(self.simulation.take_events())

    def _register_profile(self, wanted: replies.RegisterProfile) -> None:
        self._check_registering()
        self.known.register_profile(wanted.workload_name, wanted.profile_name, wanted.profile)

    def _set_metadata(self, wanted: replies.SetJobMetadata) -> None:
        if '"' in wanted.metadata:
            raise ValueError('there can be no " in metadata')
        self.known.find(wanted.job_id).metadata = wanted.metadata

    def _change_state(self, wanted: replies.ChangeJobState) -> None:
        if wanted.job_state != "REJECTED":
            raise ValueError(
                f"a job can't be made {wanted.job_state} by a word: here jobs run on hosts; only "
                "REJECTED is supported"
            )
        self._reject(replies.RejectJob(wanted.job_id))

    def _notified(self, wanted: replies.Notify) -> None:
        if wanted.type not in ("registration_finished", "continue_registration"):
            raise ValueError(
                f"there is no type {wanted.type!r}; there are registration_finished and "
                "continue_registration"
            )
        if not self.options.dynamic_jobs:
            raise ValueError("there is no registration without --enable-dynamic-jobs")
        self._registering = wanted.type == "continue_registration"

    def _query(self, wanted: replies.Query) -> None:
        if wanted.requests != {"consumed_energy": {}}:
            raise ValueError('requests must be {"consumed_energy": {}}; nothing else is known')
        if not self.options.energy:
            raise ValueError("energy is known only with --energy (-E)")
        self.simulation.settle()
        energy_j = math.fsum(meter.energy_j for meter in self.simulation.cluster.meters)
        self._queue.append(say.consumed_energy(self.simulation.now_s, energy_j))

    def _ignore(self, _: replies.Answer) -> None:
        """Nothing was asked."""

    def _tell_job(self, _: replies.ToJobMsg) -> None:
        raise ValueError("jobs can't be told anything: no profile here listens")

    def _waiting(self, job_id: str) -> KnownJob:
        job = self.known.find(job_id)
        if job.state != "waiting":
            is_now = {"to_come": "is not submitted yet", "running": "runs", "over": "is over"}
            raise ValueError(f"job {job_id} {is_now[job.state]}")
        return job

    def _check_registering(self) -> None:
        if not self.options.dynamic_jobs:
            raise ValueError("jobs can be registered only with --enable-dynamic-jobs")
        if not self._registering:
            raise ValueError("registration was said to be finished")


def _mapped(mapping: dict[str, str | int], hosts: Sequence[int]) -> list[int]:
    """Return the host of each executor of a job, in order."""
    wanted = {_whole(executor): _whole(place) for executor, place in mapping.items()}
    if sorted(wanted) != list(range(len(mapping))):
        raise ValueError("mapping must name every executor once, from 0 on")
    if not all(0 <= place < len(hosts) for place in wanted.values()):
        raise ValueError(f"mapping must go to places of alloc, from 0 to {len(hosts) - 1}")
    return [hosts[wanted[executor]] for executor in range(len(wanted))]


def _whole(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{str(text)[:40]!r} is no whole number") from None


def _check(
    platform: Platform, workloads: Sequence[Workload], known: KnownJobs, options: Options
) -> None:
    if options.energy:
        for host in platform.hosts:
            if not host.watts:
                raise InputError(
                    platform.path,
                    f"host {host.name}",
                    "has no wattage_per_state; --energy (-E) needs it",
                )
    for job in known.jobs:
        try:
            _check_sharing(job, known, options)
        except ValueError as error:
            raise InputError(_path_of(job, workloads), "", str(error)) from None


def _path_of(job: KnownJob, workloads: Sequence[Workload]) -> str:
    return next(one.path for one in workloads if one.name == job.about.workload)


def _check_sharing(job: KnownJob, known: KnownJobs, options: Options) -> None:
    if options.compute_sharing and known.computes(job):
        raise ValueError(
            f"job {job.full_id} computes; with --enable-compute-sharing only delays are "
            "simulated: how jobs on one host slow each other down is not"
        )


_HEAR: dict[type[Event], Callable[[Bridge, Any], None]] = {
    JobSubmitted: Bridge._on_submitted,
    JobCompleted: Bridge._on_completed,
    NodePowerChanged: Bridge._on_power_changed,
    NoMoreJobs: Bridge._on_no_more_jobs,
    Alarm: Bridge._on_alarm,
}

_CARRY_OUT: dict[type[Any], Callable[[Bridge, Any], None]] = {
    replies.ExecuteJob: Bridge._execute,
    replies.RejectJob: Bridge._reject,
    replies.KillJob: Bridge._kill,
    replies.CallMeLater: Bridge._call_later,
    replies.SetResourceState: Bridge._set_state,
    replies.RegisterJob: Bridge._register_job,
    replies.RegisterProfile: Bridge._register_profile,
    replies.SetJobMetadata: Bridge._set_metadata,
    replies.ChangeJobState: Bridge._change_state,
    replies.Notify: Bridge._notified,
    replies.Query: Bridge._query,
    replies.Answer: Bridge._ignore,
    replies.ToJobMsg: Bridge._tell_job,
}
