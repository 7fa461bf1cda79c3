"""`Batsim5`: the protocol of Batsim 5. Its events are objects of JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

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
from hpcosim_batsim.bridge.run import BatsimRun
from hpcosim_batsim.edc import binary, messages
from hpcosim_batsim.edc.probes import measure_of
from hpcosim_batsim.edc.profiles import extra_data, message_of, parser_of, raw_of_message
from hpcosim_batsim.edc.timers import Repeated, Timers
from hpcosim_batsim.errors import ComponentError
from hpcosim_batsim.inputs.external_events import ExternalEvent, parse_intervals
from hpcosim_batsim.inputs.json_fields import Fields
from hpcosim_batsim.inputs.platform_model import Host
from hpcosim_batsim.inputs.workload_model import (
    BatsimProfile,
    Composed,
    Parallel,
    UsageReplay,
    used_profiles,
)
from hpcosim_sim.record.tables import intervals

UINT32 = 2**32
MAX_PROCESSES = 1_000_000  # of a job

Event = dict[str, Any]


class Format(NamedTuple):
    """The form of messages.

    Attributes:
        name: `JSON` or `binary`.
        encode: returns the bytes of a message.
        decode: returns the object of a message.
    """

    name: str
    encode: Callable[[Any], bytes]
    decode: messages.Decode


def to_json(message: Any) -> bytes:
    """Return a message in JSON. As in Batsim, it ends with a zero byte."""
    return msgspec.json.encode(message) + b"\0"


JSON = Format("JSON", to_json, messages.from_json)
BINARY = Format("binary", binary.encode, binary.decode)


class SimulationInfo(NamedTuple):
    """What a component learns of the command.

    Attributes:
        context: settings as a JSON text.
        no_walltime: what stands for no walltime; before Batsim 5.0 it was -1.
    """

    arguments: Sequence[str]
    context: str
    no_walltime: float | None = None


class Batsim5:
    """The protocol of Batsim 5 with a component.

    Args:
        hello: the introduction of the component.
    """

    registration = "FinishRegistrationEvent"

    def __init__(self, hello: messages.Hello, form: Format, info: SimulationInfo) -> None:
        self._features = hello.requested_simulation_features
        self._form = form
        self._info = info
        self._timers = Timers()
        self._calls: dict[str, Repeated] = {}
        self._probes: dict[str, Repeated] = {}

    def printed_s(self, now_s: float) -> float:
        """Return a time as components print it, s: some round to 12 decimals."""
        return max(now_s, round(now_s, 12))

    def read_reply(self, reply: bytes) -> SchedulerReply:
        """Return a decoded reply."""
        return messages.read_message(reply, self._form.decode)

    def name_of(self, decision: Any) -> str:
        """Return the type of a decision in messages, such as `ExecuteJobEvent`."""
        return messages.name_of(decision)

    def carry_out(self, run: BatsimRun, decision: Any) -> None:
        """Apply a decision at the current simulated time."""
        _DECISION_HANDLERS[type(decision)](self, run, decision)

    def on_call(self, run: BatsimRun, call: Wait, time_s: float) -> None:
        """Queue what a component has requested for this time."""
        self._timers.on_call(run, call, time_s)

    def message(self, now_s: float, events: Sequence[Any]) -> bytes:
        """Return a message with these events.

        Raises:
            ComponentError: an event has no binary form.
        """
        try:
            return self._form.encode({"now": now_s, "events": events})
        except ValueError as error:
            raise ComponentError(f"the component uses the binary form: {error}") from None

    # Events

    def begins(self, run: BatsimRun) -> Event:
        """Return `SimulationBeginsEvent`."""
        hosts, storage = run.platform.hosts, run.platform.storage
        data: dict[str, Any] = {
            "host_number": len(hosts) + len(storage),
            "computation_host_number": len(hosts),
            "computation_hosts": [_host(number, host) for number, host in enumerate(hosts)],
            "storage_host_number": len(storage),
            "storage_hosts": [
                _host(number, host) for number, host in enumerate(storage, start=len(hosts))
            ],
            "batsim_arguments": list(self._info.arguments),
            "batsim_execution_context_json": self._info.context,
            "workloads": [
                {"name": workload.name, "filename": str(Path(workload.path).absolute())}
                for workload in run.workloads
            ],
        }
        if self._features.forward_profiles_on_simulation_begins:
            data["profiles"] = [
                message_of(profile, workload.name)
                for workload in run.workloads
                for _, profile in sorted(used_profiles(workload).items())
            ]
        return _event(0.0, "SimulationBeginsEvent", data)

    def ends(self, time_s: float, error: str = "") -> Event:
        """Return `SimulationEndsEvent`, which has no place for an error."""
        return _event(time_s, "SimulationEndsEvent")

    def job_submitted(self, run: BatsimRun, job: RunJob, time_s: float) -> Event:
        """Return `JobSubmittedEvent`."""
        source = job.source
        unlimited = source.walltime_s is None
        data: dict[str, Any] = {
            "job_id": job.full_id,
            "job": {
                "resource_request": source.res,
                "walltime": self._info.no_walltime if unlimited else source.walltime_s,
                "extra_data": extra_data(Fields("", "", dict(source.raw))),
                "profile_id": f"{job.profile_workload}!{source.profile}",
            },
            "submission_time": time_s if job.dynamic else max(source.submit_s, 0.0),
        }
        if self._features.forward_profiles_on_job_submission:
            data["profile"] = message_of(job.profile, job.profile_workload)
        return _event(time_s, "JobSubmittedEvent", data)

    def job_completed(self, job: RunJob, time_s: float, return_code: int) -> Event:
        """Return `JobCompletedEvent`; its return code is unsigned."""
        data = {
            "job_id": job.full_id,
            "state": job.final,
            "return_code": return_code % UINT32,
        }
        return _event(time_s, "JobCompletedEvent", data)

    def jobs_killed(
        self,
        run: BatsimRun,
        time_s: float,
        requested: Sequence[str],
        progresses: Mapping[str, Mapping[str, Any]],
    ) -> Event:
        """Return `JobsKilledEvent`."""
        data = {
            "job_ids": list(requested),
            "progresses": [
                {"job_id": job_id, "wrapper": _progress(run, run.registry.find(job_id), task)}
                for job_id, task in progresses.items()
            ],
        }
        return _event(time_s, "JobsKilledEvent", data)

    def switched(self, switch: PstateSwitch, time_s: float) -> Event:
        """Return `HostsTurnedOnOffEvent`."""
        data = {"host_ids": intervals(switch.hosts), "state": switch.pstate}
        return _event(time_s, "HostsTurnedOnOffEvent", data)

    def no_more_jobs(self, time_s: float) -> Event:
        """Return `AllStaticJobsHaveBeenSubmittedEvent`."""
        return _event(time_s, "AllStaticJobsHaveBeenSubmittedEvent")

    def no_more_external_events(self, time_s: float) -> Event:
        """Return `AllStaticExternalEventsHaveBeenInjectedEvent`."""
        return _event(time_s, "AllStaticExternalEventsHaveBeenInjectedEvent")

    def external(self, event: ExternalEvent, time_s: float) -> Event:
        """Return `ExternalEventOccurredEvent`."""
        data = {
            "id": event.name,
            "external_event_type": "GenericExternalEvent",
            "external_event": {"data": event.raw["data"]},
        }
        return _event(time_s, "ExternalEventOccurredEvent", data)

    # Decisions

    def _execute(self, run: BatsimRun, decision: messages.Execute) -> None:
        job = waiting_job(run, decision.job_id)
        if decision.storage_placement:
            raise ValueError("storage_placement is not supported")
        allocation = decision.allocation
        hosts = parse_intervals(allocation.host_allocation, len(run.platform.hosts))
        processes = _processes(run, job, hosts, allocation, job.profile)
        placed = {
            name: places
            for each in decision.profile_allocation_override
            for name, places in [_placed(run, job, hosts, each)]
        }
        start_job(run, job, hosts, processes, placed)

    def _reject(self, run: BatsimRun, decision: messages.Reject) -> None:
        reject_job(run, decision.job_id)

    def _kill(self, run: BatsimRun, decision: messages.KillJobs) -> None:
        if not decision.job_ids:
            raise ValueError("job_ids: expected at least one job, got none")
        kill_jobs(run, decision.job_ids)

    def _register_profile(self, run: BatsimRun, decision: messages.ProfileRegistration) -> None:
        table = decision.profile
        workload, name = _full_id(table.id, "profile.id")
        raw = raw_of_message(table.profile_type, table.profile, table.extra_data)
        registry = run.registry
        registry.register_profile(workload, name, raw, parser_of(workload), again=False)

    def _register_job(self, run: BatsimRun, decision: messages.JobRegistration) -> None:
        workload, _ = _full_id(decision.job_id, "job_id")
        job = decision.job
        owner, separator, name = job.profile_id.partition("!")
        if not separator:
            owner, name = workload, job.profile_id
        run.registry.profiles.setdefault(workload, {})
        raw: dict[str, Any] = {
            "subtime": run.simulation.now_s,
            "res": job.resource_request,
            "profile": name,
        }
        if job.walltime is not None:
            raw["walltime"] = job.walltime
        if job.extra_data:
            raw["extra_data"] = job.extra_data
        submit_job(run, run.registry.register_job(decision.job_id, raw, owner))

    def _finish_registration(self, run: BatsimRun, _: messages.FinishRegistration) -> None:
        run.registering = False

    def _stop(self, run: BatsimRun, _: messages.ForceStop) -> None:
        run.stopped = True

    def _call_later(self, run: BatsimRun, decision: messages.CallLater) -> None:
        name = decision.call_me_later_id

        def call(run: BatsimRun, wait: Wait, time_s: float, last: bool) -> bool:
            data = {"call_me_later_id": name, "last_periodic_call": last}
            event = _event(time_s, "RequestedCallEvent", data)
            run.queue.send(event, wait)
            return True

        self._timers.at(run, decision.when_type, decision.when, self._calls, name, call)

    def _stop_calls(self, run: BatsimRun, decision: messages.StopCalls) -> None:
        self._timers.end(run, self._calls, decision.call_me_later_id)

    def _create_probe(self, run: BatsimRun, decision: messages.CreateProbe) -> None:
        measure = measure_of(run, decision)
        trigger = messages.union_of(
            "measurement_triggering_policy",
            decision.measurement_triggering_policy_type,
            decision.measurement_triggering_policy,
            {"TemporalTriggerWrapper": messages.Trigger},
        )
        kind, when = trigger.temporal_trigger_type, trigger.temporal_trigger
        # As in Batsim, a periodic probe begins to measure at its first time.
        begun = kind == "OneShot"

        def emit(run: BatsimRun, wait: Wait, time_s: float, last: bool) -> bool:
            nonlocal begun
            if not begun:
                begun = True
                return False
            event = _event(time_s, "ProbeDataEmittedEvent", measure(run))
            run.queue.send(event, wait)
            return True

        self._timers.at(run, kind, when, self._probes, decision.probe_id, emit)

    def _stop_probe(self, run: BatsimRun, decision: messages.StopProbe) -> None:
        self._timers.end(run, self._probes, decision.probe_id)

    def _change_pstate(self, run: BatsimRun, decision: messages.ChangePstate) -> None:
        hosts = parse_intervals(decision.host_ids, len(run.platform.hosts))
        for host in hosts:
            if not run.platform.hosts[host].computes_in(decision.pstate):
                raise ValueError(
                    f"{run.hosts.name(host)} does not compute in pstate {decision.pstate}; "
                    "TurnOnOffHostsEvent switches hosts off"
                )
            if run.simulation.power.state[host] != "on":
                raise ValueError(f"{run.hosts.name(host)} is {run.simulation.power.state[host]}")
        set_pstate(run, hosts, decision.pstate, switches=False)
        data = {"host_ids": intervals(hosts), "pstate": decision.pstate}
        run.queue.add(_event(run.simulation.now_s, "HostsPStateChangedEvent", data))

    def _turn_on_off(self, run: BatsimRun, decision: messages.TurnOnOff) -> None:
        hosts = parse_intervals(decision.host_ids, len(run.platform.hosts))
        for host in hosts:
            on = run.simulation.power.state[host] == "on"
            if on and run.platform.hosts[host].computes_in(decision.state):
                raise ValueError(f"{run.hosts.name(host)} is on already")
        switch = set_pstate(run, hosts, decision.state)
        if not switch.remaining:
            run.queue.add(self.switched(switch, run.simulation.now_s))


_DECISION_HANDLERS: dict[type[messages.Table], Callable[[Batsim5, BatsimRun, Any], None]] = {
    messages.Execute: Batsim5._execute,
    messages.Reject: Batsim5._reject,
    messages.KillJobs: Batsim5._kill,
    messages.ProfileRegistration: Batsim5._register_profile,
    messages.JobRegistration: Batsim5._register_job,
    messages.FinishRegistration: Batsim5._finish_registration,
    messages.ForceStop: Batsim5._stop,
    messages.CallLater: Batsim5._call_later,
    messages.StopCalls: Batsim5._stop_calls,
    messages.CreateProbe: Batsim5._create_probe,
    messages.StopProbe: Batsim5._stop_probe,
    messages.ChangePstate: Batsim5._change_pstate,
    messages.TurnOnOff: Batsim5._turn_on_off,
    messages.Hello: lambda *_: _reject_second_hello(),
}


def _reject_second_hello() -> None:
    raise ValueError("expected it only as the first message of a component")


def _event(time_s: float, kind: str, data: Mapping[str, Any] | None = None) -> Event:
    return {"timestamp": time_s, "event_type": kind, "event": data or {}}


def _host(number: int, host: Host) -> dict[str, Any]:
    return {
        "id": number,
        "name": host.name,
        "pstate": host.pstate,
        "pstate_count": len(host.speeds),
        "state": "IDLE",
        "properties": _properties(host.properties),
        "zone_properties": _properties(host.zone_properties),
        "core_count": host.cores,
        "computation_speed": list(host.speeds),
    }


def _properties(properties: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in sorted(properties.items())]


def _progress(run: BatsimRun, job: RunJob, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the progress of a task as a table `KillProgressWrapper`."""
    name = task["profile_name"]
    profile_id = f"{job.profile_workload}!{name}"
    if "progress" in task:
        atomic = {"profile_id": profile_id, "progress": task["progress"]}
        return {"kill_progress_type": "KillProgressAtomicProfile", "kill_progress": atomic}
    profile = run.registry.profiles_of(job)[name]
    assert isinstance(profile, Composed)
    times, index = divmod(task["current_task_index"], len(profile.sequence))
    sequence = {
        "profile_id": profile_id,
        "current_repetition": times,
        "current_task_index": index,
        "current_task_progress": _progress(run, job, task["current_task"]),
    }
    return {"kill_progress_type": "KillProgressSequentialProfile", "kill_progress": sequence}


def _full_id(text: str, where: str) -> tuple[str, str]:
    workload, separator, name = text.partition("!")
    if not workload or not separator or not name:
        raise ValueError(f"{where}: expected WORKLOAD!NAME, got {text!r}")
    return workload, name


def _placed(
    run: BatsimRun, job: RunJob, hosts: Sequence[int], part: messages.ProfileAllocation
) -> tuple[str, list[int]]:
    """Return the name of a part of a job's profile, and the host of each of its processes."""
    where = "profile_allocation_override"
    workload, name = _full_id(part.profile_id, f"{where}.profile_id")
    profile = run.registry.profiles_of(job).get(name)
    if workload != job.profile_workload or profile is None:
        raise ValueError(f"{where}: job {job.full_id} has no profile {part.profile_id!r}")
    own = parse_intervals(part.host_allocation, len(run.platform.hosts))
    if missing := sorted(set(own) - set(hosts)):
        raise ValueError(
            f"{where}: {run.hosts.name(missing[0])} is not in the allocation of {job.full_id}"
        )
    return name, _processes(run, job, own, part, profile)


def _processes(
    run: BatsimRun,
    job: RunJob,
    hosts: Sequence[int],
    allocation: messages.Allocation | messages.ProfileAllocation,
    profile: BatsimProfile,
) -> list[int]:
    """Return the host of each process of a profile of a job."""
    placement = messages.union_of(
        "executor_placement",
        allocation.executor_placement_type,
        allocation.executor_placement,
        {
            "PredefinedExecutorPlacementStrategyWrapper": messages.PredefinedPlacement,
            "CustomExecutorToHostMapping": messages.CustomMapping,
        },
    )
    count = len(profile.phases) if isinstance(profile, UsageReplay) else job.source.res
    if isinstance(placement, messages.CustomMapping):
        if isinstance(profile, Parallel) and len(placement.mapping) != count:
            raise ValueError(
                f"mapping: expected {count} processes, the request of job {job.full_id} with a "
                f"profile for this number, got {len(placement.mapping)}"
            )
        if not placement.mapping:
            raise ValueError("mapping: expected at least one process, got none")
        return check_mapping(hosts, placement.mapping)
    if count > MAX_PROCESSES:
        raise ValueError(f"job {job.full_id} has {count} processes; expected <= {MAX_PROCESSES}")
    places = list(hosts)
    if placement.strategy == "FillOneHostCoresFirst":
        places = [host for host in hosts for _ in range(run.platform.hosts[host].cores)]
    return [places[process % len(places)] for process in range(count)]
