"""`Batsim4`: the protocol of Batsim 4.2.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpcosim_batsim.bridge import replies
from hpcosim_batsim.bridge.actions import (
    check_mapping,
    kill_jobs,
    reject_job,
    set_pstate,
    start_job,
    submit_job,
    waiting_job,
)
from hpcosim_batsim.bridge.event_queue import Wait
from hpcosim_batsim.bridge.front import SchedulerReply
from hpcosim_batsim.bridge.host_states import PstateSwitch
from hpcosim_batsim.bridge.jobs import RunJob
from hpcosim_batsim.bridge.run import BatsimRun, check_energy, set_call, simulation_begins_data
from hpcosim_batsim.inputs.external_events import (
    AVAILABLE,
    UNAVAILABLE,
    ExternalEvent,
    parse_intervals,
)
from hpcosim_batsim.inputs.tasks import Placed
from hpcosim_batsim.inputs.workload_model import Composed, ParallelHomogeneous, UsageReplay


class Batsim4:
    """The protocol of Batsim 4.2.1. An event is its JSON text."""

    registration = "NOTIFY registration_finished"

    def printed_s(self, now_s: float) -> float:
        """Return a time with the six decimals of messages, s."""
        return float(f"{now_s:.6f}")

    def read_reply(self, reply: bytes) -> SchedulerReply:
        """Return a decoded reply."""
        return replies.read_reply(reply)

    def name_of(self, decision: Any) -> str:
        """Return the type of a decision in messages, such as `EXECUTE_JOB`."""
        return replies.wire_name(decision)

    def carry_out(self, run: BatsimRun, decision: Any) -> None:
        """Apply a decision at the current simulated time."""
        _DECISION_HANDLERS[type(decision)](run, decision)

    def on_call(self, run: BatsimRun, call: Wait, time_s: float) -> None:
        """Queue `REQUESTED_CALL`."""
        run.queue.send(replies.event(time_s, "REQUESTED_CALL"), call)

    def message(self, now_s: float, events: Sequence[Any]) -> bytes:
        """Return a message with these events."""
        return replies.message(now_s, events)

    def begins(self, run: BatsimRun) -> str:
        """Return `SIMULATION_BEGINS`."""
        data = simulation_begins_data(run.platform, run.workloads, run.options)
        return replies.event(0.0, "SIMULATION_BEGINS", replies.to_json(data))

    def ends(self, time_s: float, error: str = "") -> str:
        """Return `SIMULATION_ENDS`."""
        data = replies.to_json({"error": error}) if error else "{}"
        return replies.event(time_s, "SIMULATION_ENDS", data)

    def job_submitted(self, run: BatsimRun, job: RunJob, time_s: float) -> str:
        """Return `JOB_SUBMITTED`."""
        profile = job.profile.raw if run.options.forward_profiles else None
        return replies.job_submitted(time_s, job.full_id, job.source.raw, profile)

    def job_completed(self, job: RunJob, time_s: float, return_code: int) -> str:
        """Return `JOB_COMPLETED`."""
        assert job.final is not None
        return replies.job_completed(time_s, job.full_id, job.final, return_code, job.hosts)

    def jobs_killed(
        self,
        run: BatsimRun,
        time_s: float,
        requested: Sequence[str],
        progresses: Mapping[str, Mapping[str, Any]],
    ) -> str:
        """Return `JOB_KILLED`."""
        return replies.job_killed(time_s, requested, progresses)

    def switched(self, switch: PstateSwitch, time_s: float) -> str:
        """Return `RESOURCE_STATE_CHANGED`."""
        return replies.resource_state_changed(time_s, switch.hosts, switch.pstate)

    def no_more_jobs(self, time_s: float) -> str:
        """Return the `NOTIFY` that all jobs of the workloads have been submitted."""
        return replies.notify(time_s, "no_more_static_job_to_submit")

    def no_more_external_events(self, time_s: float) -> str:
        """Return the `NOTIFY` that all external events have occurred."""
        return replies.notify(time_s, "no_more_external_event_to_occur")

    def external(self, event: ExternalEvent, time_s: float) -> str:
        """Return the `NOTIFY` of an external event."""
        if event.kind in (AVAILABLE, UNAVAILABLE):
            return replies.availability(time_s, event.hosts, event.kind == UNAVAILABLE)
        return replies.event(time_s, "NOTIFY", replies.to_json(event.raw))


def _execute(run: BatsimRun, decision: replies.ExecuteJob) -> None:
    job = waiting_job(run, decision.job_id)
    if decision.additional_io_job is not None:
        raise ValueError("additional_io_job is not supported")
    hosts = parse_intervals(decision.alloc, len(run.platform.hosts))
    processes = hosts if decision.mapping is None else _mapped(decision.mapping, hosts)
    res, profile = job.source.res, job.profile
    moldable = isinstance(profile, ParallelHomogeneous) and profile.total
    if len(processes) != res and not moldable:
        raise ValueError(
            f"job {job.full_id} requests {res} hosts, got an allocation of {len(processes)}"
        )
    storage = {
        label: _storage_host(run, label, number)
        for label, number in (decision.storage_mapping or {}).items()
    }
    start_job(run, job, hosts, processes, _replayed(run, job, processes), storage)


def _storage_host(run: BatsimRun, label: str, number: int) -> str:
    """Return the name of a storage host; they have the numbers after those of compute hosts."""
    first, storage = len(run.platform.hosts), run.platform.storage
    if not first <= number < first + len(storage):
        expected = f"expected {first} to {first + len(storage) - 1}" if storage else "there is none"
        raise ValueError(f"storage_mapping: {label}: {number} is no storage host; {expected}")
    return storage[number - first].name


def _replayed(run: BatsimRun, job: RunJob, hosts: Sequence[int]) -> Placed:
    """Return the host of each process of the usage traces that a job replays."""
    profiles, ranks = run.registry.profiles_of(job), job.source.ranks
    placed: dict[str, Sequence[int]] = {}
    names = [job.profile.name]
    seen = set(names)
    while names:
        profile = profiles[names.pop()]
        if isinstance(profile, Composed):
            new = set(profile.sequence) - seen
            seen |= new
            names += new
        elif isinstance(profile, UsageReplay):
            count = len(profile.phases)
            if ranks and len(ranks) != count:
                what = f"{count} processes, smpi_ranks_to_hosts_mapping of the job {len(ranks)}"
                raise ValueError(f"profile {profile.name} has {what}")
            places = ranks or [process % len(hosts) for process in range(count)]
            placed[profile.name] = [hosts[place] for place in places]
    return placed


def _reject(run: BatsimRun, decision: replies.BatsimRejectJob) -> None:
    reject_job(run, decision.job_id)


def _kill(run: BatsimRun, decision: replies.BatsimKillJob) -> None:
    kill_jobs(run, decision.job_ids)


def _call_later(run: BatsimRun, decision: replies.CallMeLater) -> None:
    set_call(run, decision.timestamp)


def _set_state(run: BatsimRun, decision: replies.SetResourceState) -> None:
    if not run.options.energy:
        raise ValueError("pstates can be set only with --energy (-E)")
    hosts = parse_intervals(decision.resources, len(run.platform.hosts))
    switch = set_pstate(run, hosts, _integer(decision.state))
    if not switch.remaining:
        run.queue.add(run.front.switched(switch, run.simulation.now_s))


def _register_job(run: BatsimRun, decision: replies.RegisterJob) -> None:
    _check_registering(run)
    job = run.registry.register_job(decision.job_id, decision.job)
    submit_job(run, job)


def _register_profile(run: BatsimRun, decision: replies.RegisterProfile) -> None:
    _check_registering(run)
    run.registry.register_profile(decision.workload_name, decision.profile_name, decision.profile)


def _set_metadata(run: BatsimRun, decision: replies.SetJobMetadata) -> None:
    if '"' in decision.metadata:
        raise ValueError('metadata must not contain "')
    run.registry.find(decision.job_id).metadata = decision.metadata


def _change_state(run: BatsimRun, decision: replies.ChangeJobState) -> None:
    if decision.job_state != "REJECTED":
        raise ValueError(
            f"job_state: expected REJECTED, the only supported state, got {decision.job_state}"
        )
    _reject(run, replies.BatsimRejectJob(decision.job_id))


def _notify(run: BatsimRun, decision: replies.Notify) -> None:
    if decision.type not in ("registration_finished", "continue_registration"):
        raise ValueError(
            f"type: expected registration_finished or continue_registration, got {decision.type!r}"
        )
    if not run.options.dynamic_jobs:
        raise ValueError("registration of jobs requires --enable-dynamic-jobs")
    run.registering = decision.type == "continue_registration"


def _query(run: BatsimRun, decision: replies.Query) -> None:
    if decision.requests != {"consumed_energy": {}}:
        raise ValueError('requests: expected {"consumed_energy": {}}, the only supported query')
    if not run.options.energy:
        raise ValueError("the query of consumed_energy requires --energy (-E)")
    check_energy(run)
    now_s = run.simulation.now_s
    run.queue.add(replies.consumed_energy(now_s, run.simulation.cluster.energy_j(now_s)))


def _ignore(run: BatsimRun, _: replies.BatsimAnswer) -> None:
    """Ignore an answer, because the bridge sends no queries."""


def _message_job(run: BatsimRun, _: replies.ToJobMsg) -> None:
    raise ValueError("messages to jobs are not supported: no supported profile receives them")


def _check_registering(run: BatsimRun) -> None:
    if not run.options.dynamic_jobs:
        raise ValueError("registration of jobs requires --enable-dynamic-jobs")
    if not run.registering:
        raise ValueError("the scheduler has sent NOTIFY registration_finished")


def _mapped(mapping: dict[str, str | int], hosts: Sequence[int]) -> list[int]:
    """Return the host of each executor of a job, in order."""
    place_of = {_integer(executor): _integer(place) for executor, place in mapping.items()}
    if sorted(place_of) != list(range(len(mapping))):
        raise ValueError(f"mapping: expected each executor from 0 to {len(mapping) - 1} once")
    return check_mapping(hosts, [place_of[executor] for executor in range(len(place_of))])


def _integer(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected an integer, got {str(text)[:40]!r}") from None


_DECISION_HANDLERS: dict[type[Any], Callable[[BatsimRun, Any], None]] = {
    replies.ExecuteJob: _execute,
    replies.BatsimRejectJob: _reject,
    replies.BatsimKillJob: _kill,
    replies.CallMeLater: _call_later,
    replies.SetResourceState: _set_state,
    replies.RegisterJob: _register_job,
    replies.RegisterProfile: _register_profile,
    replies.SetJobMetadata: _set_metadata,
    replies.ChangeJobState: _change_state,
    replies.Notify: _notify,
    replies.Query: _query,
    replies.BatsimAnswer: _ignore,
    replies.ToJobMsg: _message_job,
}
