"""Components of Batsim 5: a bridge that speaks its protocol, in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.edc.batsim5 import JSON, SimulationInfo
from hpcosim_batsim.edc.component_run import bridge_of, read_inputs
from hpcosim_batsim.edc.messages import Hello, RequestedFeatures, SchedulingConstraints
from hpcosim_batsim.errors import BadReplyError, InputError, StuckError
from hpcosim_batsim.results import results_of
from hpcosim_batsim.run import Inputs
from hpcosim_workloads.table import MAX_TIME_S
from support.batsim5 import decisions, execution
from support.batsim_inputs import write_platform, write_workload

DELAY = {"type": "DelayProfile", "delay": 10}
COMPUTATION = {"type": "ParallelTaskHomogeneousProfile", "cpu": 1e9, "com": 0}
SECOND = {"when_type": "OneShot", "when": {"time": 7}}
PROBE: dict[str, Any] = {
    "probe_id": "p",
    "metrics": "Power",
    "resources_type": "HostResources",
    "resources": {"host_ids": "0-1"},
    "data_accumulation_strategy_type": "ProbeDataAccumulation",
    "data_accumulation_strategy": {
        "reset_mode_type": "NoReset",
        "reset_mode": {},
        "cumulative_function": "Sum",
        "temporal_normalization": False,
    },
    "measurement_triggering_policy_type": "TemporalTriggerWrapper",
    "measurement_triggering_policy": {
        "temporal_trigger_type": "Periodic",
        "temporal_trigger": {
            "period": 10,
            "mode_type": "FinitePeriodNumber",
            "mode": {"nb_periods": 2},
        },
    },
    "resources_aggregation_function_type": "NoResourcesAggregation",
    "resources_aggregation_function": {},
    "temporal_aggregation_function_type": "NoTemporalAggregation",
    "temporal_aggregation_function": {},
    "emission_filtering_policy_type": "NoFiltering",
    "emission_filtering_policy": {},
}


def periodic(period: int, times: int | None = None, unit: str = "Second") -> dict[str, Any]:
    """Return the trigger of periodic calls."""
    mode: dict[str, Any] = {"mode_type": "Infinite", "mode": {}}
    if times is not None:
        mode = {"mode_type": "FinitePeriodNumber", "mode": {"nb_periods": times}}
    return {"when_type": "Periodic", "when": {"period": period, "time_unit": unit, **mode}}


def opened(
    folder: Path,
    jobs: Sequence[dict[str, Any]] = (),
    profiles: dict[str, Any] | None = None,
    *,
    hosts: int = 4,
    energy: bool = False,
    external: str | None = None,
    compute_sharing: bool = False,
    features: Sequence[str] = (),
) -> Bridge:
    """Return the simulation of a workload for a component that requests features."""
    events = None
    if external is not None:
        (folder / "events").write_text(external, encoding="utf-8")
        events = (folder / "events",)
    given = read_inputs(
        Inputs(
            platform=write_platform(folder, hosts, energy=True),
            workloads=(write_workload(folder, list(jobs), profiles or {}),),
            events=events,
            master="master_host",
            roles={},
            mmax=0,
            mmax_workload=False,
        ),
        energy=energy,
        report=lambda _: None,
    )
    hello = Hello(
        requested_simulation_features=RequestedFeatures(**dict.fromkeys(features, True)),
        scheduling_constraints=SchedulingConstraints(compute_sharing=compute_sharing),
    )
    return bridge_of(given, hello, JSON, SimulationInfo(["batsim"], "{}"), energy=energy)


Answer = Callable[[float, str, dict[str, Any]], Sequence[Any]]


def talk(bridge: Bridge, answer: Answer) -> list[tuple[float, str, dict[str, Any]]]:
    """Let a function answer each event, and return all events."""
    seen: list[tuple[float, str, dict[str, Any]]] = []
    text = bridge.first_message()
    while True:
        assert text.endswith(b"}\0")
        message = json.loads(text[:-1])
        answers: list[Any] = []
        for each in message["events"]:
            event = (each["timestamp"], each["event_type"].removesuffix("Event"), each["event"])
            seen.append(event)
            answers += answer(*event)
        if bridge.ended:
            return seen
        text = bridge.next_message(decisions(message["now"], *answers))


def job(number: int, submit_s: float, res: int, profile: str, **more: Any) -> dict[str, Any]:
    """Return a job of a workload file."""
    return {"id": number, "subtime": submit_s, "res": res, "profile": profile, **more}


def of_kind(seen: Sequence[tuple[float, str, dict[str, Any]]], kind: str) -> list[Any]:
    """Return times and data of the events of a kind."""
    return [(time_s, data) for time_s, each, data in seen if each == kind]


def test_the_life_of_a_job(tmp_path: Path) -> None:
    """Submission, execution and end have their events, in the fields of the schema."""
    more = {"walltime": 20, "extra_data": {"a": 1}}
    bridge = opened(tmp_path, [job(1, 3, 2, "w0!wait", **more)], {"wait": DELAY})

    def answer(_: float, kind: str, data: dict[str, Any]) -> list[Any]:
        return [execution("w0!1", "1-2")] if kind == "JobSubmitted" else []

    seen = talk(bridge, answer)
    assert [(time_s, kind) for time_s, kind, _ in seen] == [
        (0, "SimulationBegins"),
        (3, "JobSubmitted"),
        (3, "AllStaticJobsHaveBeenSubmitted"),
        (13, "JobCompleted"),
        (13, "SimulationEnds"),
    ]
    assert seen[1][2] == {
        "job_id": "w0!1",
        "job": {
            "resource_request": 2,
            "walltime": 20.0,
            "extra_data": '{"a":1}',
            "profile_id": "w0!wait",
        },
        "submission_time": 3.0,
    }
    assert seen[3][2] == {"job_id": "w0!1", "state": "COMPLETED_SUCCESSFULLY", "return_code": 0}
    assert list(results_of(bridge.run).jobs[0].hosts) == [1, 2]


def test_the_begin_describes_hosts_and_workloads(tmp_path: Path) -> None:
    """Hosts are in numeric order, with the speeds of all pstates and their properties."""
    seen = talk(opened(tmp_path, hosts=11), lambda *_: [])
    data = seen[0][2]
    assert (data["host_number"], data["computation_host_number"]) == (11, 11)
    hosts = data["computation_hosts"]
    assert [host["name"] for host in hosts[:3]] == ["host0", "host1", "host2"]
    assert hosts[10]["computation_speed"] == [1e8, 5e7, 1e-3, 0.25, 0.1]
    assert {"key": "sleep_pstates", "value": "2:3:4"} in hosts[0]["properties"]
    assert data["workloads"] == [{"name": "w0", "filename": str(tmp_path / "jobs.json")}]
    assert data["batsim_arguments"] == ["batsim"]


def test_profiles_are_forwarded_on_request(tmp_path: Path) -> None:
    """They have the fields of messages, and full names."""
    profiles = {
        "both": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["wait", "w0!sum"]},
        "wait": DELAY,
        "sum": {**COMPUTATION, "generation_strategy": "DefinedAmountsSpreadUniformly"},
        "matrix": {"type": "ParallelTaskProfile", "com": [0, 1, 1, 0], "extra_data": "x"},
    }
    jobs = [job(1, 1, 2, "both"), job(2, 1, 2, "matrix")]
    features = ("forward_profiles_on_job_submission", "forward_profiles_on_simulation_begins")
    bridge = opened(tmp_path, jobs, profiles, features=features)

    def answer(_: float, kind: str, data: dict[str, Any]) -> list[Any]:
        return [("RejectJobEvent", {"job_id": data["job_id"]})] if kind == "JobSubmitted" else []

    seen = talk(bridge, answer)
    both = {
        "id": "w0!both",
        "profile_type": "SequentialCompositionProfile",
        "profile": {"repetition_count": 2, "profile_ids": ["w0!wait", "w0!sum"]},
    }
    matrix = {
        "id": "w0!matrix",
        "profile_type": "ParallelTaskProfile",
        "profile": {"communication_matrix": [0, 1, 1, 0]},
        "extra_data": "x",
    }
    assert [data["profile"] for _, data in of_kind(seen, "JobSubmitted")] == [both, matrix]
    assert seen[0][2]["profiles"] == [
        both,
        matrix,
        {
            "id": "w0!sum",
            "profile_type": "ParallelTaskHomogeneousProfile",
            "profile": {
                "computation_amount": 1e9,
                "communication_amount": 0,
                "generation_strategy": "DefinedAmountsSpreadUniformly",
            },
        },
        {"id": "w0!wait", "profile_type": "DelayProfile", "profile": {"delay": 10}},
    ]


@pytest.mark.parametrize(
    ("placed", "duration_s"),
    [
        (execution("w0!1", "0-3"), 10.0),  # one process on each host
        (execution("w0!1", "0"), 40.0),  # a host has one core for four processes
        (execution("w0!1", "0-1"), 20.0),
        (execution("w0!1", "0-1", [0, 0, 0, 1]), 30.0),
        (execution("w0!1", "0-1", [1]), 10.0),  # fewer processes than the job requests
    ],
)
def test_processes_are_placed_on_any_number_of_hosts(
    placed: Any, duration_s: float, tmp_path: Path
) -> None:
    """The allocation need not have as many hosts as the job requests."""
    bridge = opened(tmp_path, [job(1, 1, 4, "sum")], {"sum": COMPUTATION})
    seen = talk(bridge, lambda _, kind, __: [placed] if kind == "JobSubmitted" else [])
    assert of_kind(seen, "JobCompleted")[0][0] == pytest.approx(1 + duration_s)


def test_a_job_with_too_many_processes_is_an_error(tmp_path: Path) -> None:
    """The number of processes is that of the request, whatever the allocation is."""
    bridge = opened(tmp_path, [job(1, 0, 2**31 - 1, "sum")], {"sum": COMPUTATION})
    placed = execution("w0!1", "0")
    with pytest.raises(BadReplyError, match="2147483647 processes; expected <= 1000000"):
        talk(bridge, lambda _, kind, __: [placed] if kind == "JobSubmitted" else [])


def override(profile_id: str, hosts: str, mapping: Sequence[int]) -> dict[str, Any]:
    """Return the allocation of a part of a profile."""
    _, event = execution("", hosts, mapping)
    return {"profile_id": profile_id, **event["allocation"]}


def test_parts_of_a_profile_have_other_processes(tmp_path: Path) -> None:
    """Each part of a sequence takes as long as on the hosts of its own."""
    profiles = {
        "seq": {"type": "SequentialCompositionProfile", "seq": ["one", "two", "one"]},
        "one": COMPUTATION,
        "two": {**COMPUTATION, "cpu": 2e9},
    }
    bridge = opened(tmp_path, [job(1, 0, 2, "seq")], profiles)
    places = [override("w0!two", "1", [0, 0, 0])]
    placed = execution("w0!1", "0-1", profile_allocation_override=places)
    seen = talk(bridge, lambda _, kind, __: [placed] if kind == "JobSubmitted" else [])
    assert of_kind(seen, "JobCompleted")[0][0] == pytest.approx(10 + 3 * 20 + 10)


def test_calls_once_and_at_multiples_of_a_period(tmp_path: Path) -> None:
    """Periods count from time 0; the last call of a finite number is marked."""
    requests = [
        ("CallMeLaterEvent", {"call_me_later_id": "once", **SECOND}),
        ("CallMeLaterEvent", {"call_me_later_id": "two", **periodic(4, 2)}),
        ("CallMeLaterEvent", {"call_me_later_id": "ms", **periodic(2500, unit="Millisecond")}),
    ]

    def answer(time_s: float, kind: str, _: dict[str, Any]) -> list[Any]:
        if kind == "SimulationBegins":
            return requests
        stops = [("StopCallMeLaterEvent", {"call_me_later_id": name}) for name in ("ms", "none")]
        return stops if kind == "RequestedCall" and time_s == 7.5 else []

    seen = talk(opened(tmp_path), answer)
    assert [
        (time_s, data["call_me_later_id"], data["last_periodic_call"])
        for time_s, data in of_kind(seen, "RequestedCall")
    ] == [
        (2.5, "ms", False),
        (4, "two", False),
        (5, "ms", False),
        (7, "once", False),
        (7.5, "ms", False),
        (8, "two", True),
    ]


def test_kills_report_the_progress_of_sequences(tmp_path: Path) -> None:
    """Repetition, task and its progress are those of the moment of the kill."""
    profiles = {
        "twice": {"type": "SequentialCompositionProfile", "repeat": 3, "seq": ["wait", "short"]},
        "wait": DELAY,
        "short": {"type": "DelayProfile", "delay": 5},
    }
    bridge = opened(tmp_path, [job(1, 1, 1, "twice")], profiles)

    def answer(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        if kind == "JobSubmitted":
            call = {"when_type": "OneShot", "when": {"time": 27}}  # 26 s after the start
            return [
                execution("w0!1", "0"),
                ("CallMeLaterEvent", {"call_me_later_id": "kill", **call}),
            ]
        return [("KillJobsEvent", {"job_ids": ["w0!1"]})] if kind == "RequestedCall" else []

    seen = talk(bridge, answer)
    ((_, completed),) = of_kind(seen, "JobCompleted")
    assert completed == {
        "job_id": "w0!1",
        "state": "COMPLETED_KILLED",
        "return_code": 2**32 - 1,
    }
    ((_, killed),) = of_kind(seen, "JobsKilled")
    atomic = {"profile_id": "w0!short", "progress": pytest.approx(0.2)}
    assert killed == {
        "job_ids": ["w0!1"],
        "progresses": [
            {
                "job_id": "w0!1",
                "wrapper": {
                    "kill_progress_type": "KillProgressSequentialProfile",
                    "kill_progress": {
                        "profile_id": "w0!twice",
                        "current_repetition": 1,
                        "current_task_index": 1,
                        "current_task_progress": {
                            "kill_progress_type": "KillProgressAtomicProfile",
                            "kill_progress": atomic,
                        },
                    },
                },
            }
        ],
    }


def test_jobs_and_profiles_are_registered(tmp_path: Path) -> None:
    """A job may use a profile of another workload, and a workload is made by its first job."""
    profile = {"id": "dyn!p", "profile_type": "DelayProfile", "profile": {"delay": 3}}
    first = {"resource_request": 1, "profile_id": "p"}
    second = {"resource_request": 2, "profile_id": "dyn!p", "walltime": 1, "extra_data": "x"}
    requests = [
        ("RegisterProfileEvent", {"profile": profile}),
        ("RegisterJobEvent", {"job_id": "dyn!a", "job": first}),
        ("RegisterJobEvent", {"job_id": "other!b", "job": second}),
        ("FinishRegistrationEvent", {}),
    ]

    def answer(_: float, kind: str, data: dict[str, Any]) -> list[Any]:
        if kind == "SimulationBegins":
            return requests
        free = {"dyn!a": "0", "other!b": "1-2"}
        return [execution(data["job_id"], free[data["job_id"]])] if kind == "JobSubmitted" else []

    bridge = opened(tmp_path, features=["dynamic_registration", "acknowledge_dynamic_jobs"])
    seen = talk(bridge, answer)
    jobs = {data["job_id"]: data["job"] for _, data in of_kind(seen, "JobSubmitted")}
    assert jobs["dyn!a"]["walltime"] is None
    assert (jobs["other!b"]["profile_id"], jobs["other!b"]["extra_data"]) == ("dyn!p", "x")
    ends = [
        (time_s, data["job_id"], data["state"]) for time_s, data in of_kind(seen, "JobCompleted")
    ]
    assert ends == [
        (1, "other!b", "COMPLETED_WALLTIME_REACHED"),
        (3, "dyn!a", "COMPLETED_SUCCESSFULLY"),
    ]


def test_a_component_chooses_no_files_to_be_read(tmp_path: Path) -> None:
    """An error about its first line would show the content of any file."""
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    profile = {"trace_type": "FractionalComputation", "filename": str(secret)}
    table = {"id": "dyn!p", "profile_type": "TraceReplayProfile", "profile": profile}
    registered = ("RegisterProfileEvent", {"profile": table})
    bridge = opened(tmp_path, features=["dynamic_registration"])
    with pytest.raises(
        BadReplyError, match="cannot register a profile that reads files"
    ) as failure:
        talk(bridge, lambda _, kind, __: [registered] if kind == "SimulationBegins" else [])
    assert "a secret" not in str(failure.value)


def test_registration_has_to_end(tmp_path: Path) -> None:
    """A component that has requested registration and never ends it is an error."""
    with pytest.raises(StuckError, match="FinishRegistrationEvent"):
        talk(opened(tmp_path, features=["dynamic_registration"]), lambda *_: [])


def test_hosts_change_pstates_and_switch_off(tmp_path: Path) -> None:
    """Both work without energy; a job runs at the speed of the pstate."""
    bridge = opened(tmp_path, [job(1, 20, 1, "sum")], {"sum": COMPUTATION})

    def answer(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        if kind == "SimulationBegins":
            return [
                ("ChangeHostsPStateEvent", {"host_ids": "0", "pstate": 1}),
                ("TurnOnOffHostsEvent", {"host_ids": "1-2", "state": 2}),
            ]
        return [execution("w0!1", "0")] if kind == "JobSubmitted" else []

    seen = talk(bridge, answer)
    assert of_kind(seen, "HostsPStateChanged") == [(0, {"host_ids": "0", "pstate": 1})]
    assert of_kind(seen, "HostsTurnedOnOff") == [(4, {"host_ids": "1-2", "state": 2})]
    assert of_kind(seen, "JobCompleted")[0][0] == 40  # 1 Gflop at 50 Mflop/s
    log = bridge.run.hosts.log  # only hosts that switch off or on count
    assert (log.requests, log.hosts) == (1, 2)
    assert (0, [0], 1) in [(change.time_s, change.hosts, change.pstate) for change in log.pstates]


def test_a_period_longer_than_a_simulation_ends(tmp_path: Path) -> None:
    """There is no call after the latest time of a simulation."""
    period = int(MAX_TIME_S * 0.7)

    def answer(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        call = ("CallMeLaterEvent", {"call_me_later_id": "a", **periodic(period)})
        return [call] if kind == "SimulationBegins" else []

    calls = of_kind(talk(opened(tmp_path), answer), "RequestedCall")
    assert [time_s for time_s, _ in calls] == [period]


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("NoResourcesAggregation", [[3000.0, 2000.0], [4000.0, 3000.0]]),
        ("Sum", [5000.0, 7000.0]),
        ("ArithmeticMean", [2500.0, 3500.0]),
    ],
)
def test_probes_tell_the_energy_of_hosts(
    aggregation: str, expected: list[Any], tmp_path: Path
) -> None:
    """The energy counts from time 0, for each host or for all."""
    # 100 W idle, 200 W with a computation, which takes 10 s.
    bridge = opened(tmp_path, [job(1, 0, 1, "sum")], {"sum": COMPUTATION}, energy=True)
    probe = {**PROBE, "resources_aggregation_function_type": aggregation}

    def answer(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        if kind == "SimulationBegins":
            return [("CreateProbeEvent", probe)]
        return [execution("w0!1", "0")] if kind == "JobSubmitted" else []

    emitted = of_kind(talk(bridge, answer), "ProbeDataEmitted")
    assert [time_s for time_s, _ in emitted] == [20, 30]  # as in Batsim, it begins at 10 s
    assert [data["data"]["data"] for _, data in emitted] == [
        pytest.approx(each) for each in expected
    ]


def test_a_probe_of_power_now(tmp_path: Path) -> None:
    """Without accumulation the value is the power."""
    bridge = opened(tmp_path, [job(1, 0, 1, "sum")], {"sum": COMPUTATION}, energy=True)
    once = {"temporal_trigger_type": "OneShot", "temporal_trigger": {"time": 5}}
    probe = {
        **PROBE,
        "data_accumulation_strategy_type": "NoProbeDataAccumulation",
        "measurement_triggering_policy": once,
    }

    def answer(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        if kind == "SimulationBegins":
            return [("CreateProbeEvent", probe)]
        return [execution("w0!1", "0")] if kind == "JobSubmitted" else []

    ((time_s, data),) = of_kind(talk(bridge, answer), "ProbeDataEmitted")
    assert (time_s, data["data"]["data"]) == (5, [200.0, 100.0])


def test_the_energy_of_hosts_adds_up(tmp_path: Path) -> None:
    """The meters of hosts add up to the energy of the cluster, with shared and sleeping hosts."""
    profiles = {
        "seq": {"type": "SequentialCompositionProfile", "repeat": 2, "seq": ["wait", "sum"]},
        "sum": {"type": "ParallelTaskProfile", "cpu": [1e9, 5e8]},
        "wait": DELAY,
    }
    jobs = [job(number, 3 * number, 2, "seq", walltime=25 + number) for number in range(4)]
    bridge = opened(tmp_path, jobs, profiles, energy=True, compute_sharing=True)

    def answer(_: float, kind: str, data: dict[str, Any]) -> list[Any]:
        if kind == "SimulationBegins":
            return [("TurnOnOffHostsEvent", {"host_ids": "3", "state": 2})]
        return [execution(data["job_id"], "1-2")] if kind == "JobSubmitted" else []

    talk(bridge, answer)
    meters, now_s = bridge.run.hosts.meters, bridge.run.simulation.now_s
    assert meters is not None
    total_j = sum(meters.energy_j(host, now_s) for host in range(4))
    assert total_j == pytest.approx(bridge.run.simulation.cluster.energy_j(now_s))


REPLAY = {
    "type": "TraceReplayProfile",
    "trace_type": "FractionalComputation",
    "filename": "traces/all.txt",
}


def write_traces(folder: Path, *traces: str) -> None:
    """Write usage traces and their list."""
    (folder / "traces").mkdir()
    names = [f"{process}.txt" for process in range(len(traces))]
    (folder / "traces" / "all.txt").write_text("\n".join(names), encoding="utf-8")
    for name, text in zip(names, traces, strict=True):
        (folder / "traces" / name).write_text(text, encoding="utf-8")


def test_usage_traces_are_replayed(tmp_path: Path) -> None:
    """A phase takes as long as one core computes; hosts change their loads at their own times."""
    write_traces(tmp_path, "0 m_usage 1 1e9\n0 m_usage 0.2 5e8\n", "1 m_usage 0.7 5e8\n\n")
    bridge = opened(tmp_path, [job(1, 0, 2, "replay")], {"replay": REPLAY}, energy=True)
    placed = execution("w0!1", "0-1")
    seen = talk(bridge, lambda _, kind, __: [placed] if kind == "JobSubmitted" else [])
    assert of_kind(seen, "JobCompleted")[0][0] == pytest.approx(15)
    # Hosts have one core, so that any usage is full load: 15 s and 5 s at 200 W, 10 s at 100 W.
    assert results_of(bridge.run).jobs[0].energy_j == pytest.approx(20 * 200 + 10 * 100)


def test_a_killed_replay_reports_its_share(tmp_path: Path) -> None:
    """In a sequence, too."""
    write_traces(tmp_path, "0 m_usage 1 1e9\n0 m_usage 1 3e9\n")
    profiles = {
        "seq": {"type": "SequentialCompositionProfile", "seq": ["wait", "replay"]},
        "wait": DELAY,
        "replay": REPLAY,
    }
    bridge = opened(tmp_path, [job(1, 0, 1, "seq")], profiles)

    def answer(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        if kind == "JobSubmitted":
            call = {"when_type": "OneShot", "when": {"time": 30}}
            return [
                execution("w0!1", "0"),
                ("CallMeLaterEvent", {"call_me_later_id": "kill", **call}),
            ]
        return [("KillJobsEvent", {"job_ids": ["w0!1"]})] if kind == "RequestedCall" else []

    ((_, killed),) = of_kind(talk(bridge, answer), "JobsKilled")
    sequence = killed["progresses"][0]["wrapper"]["kill_progress"]
    assert sequence["current_task_index"] == 1
    current = sequence["current_task_progress"]["kill_progress"]
    assert current == {"profile_id": "w0!replay", "progress": pytest.approx(20 / 40)}


@pytest.mark.parametrize(
    ("traces", "error"),
    [
        (["1 m_usage 1 1e9"], r"0.txt: line 1: expected '0 m_usage USAGE FLOP'"),
        (["0 m_usage 2 1e9"], "with a usage from 0 to 1, got '0 m_usage 2 1e9'"),
        (["0 send 1 1e9"], "expected '0 m_usage USAGE FLOP'"),
        (["0 m_usage nan 1"], "expected '0 m_usage USAGE FLOP'"),
        ([], "all.txt: is empty; expected a line with the name of each trace"),
    ],
)
def test_bad_usage_traces_are_errors(traces: list[str], error: str, tmp_path: Path) -> None:
    """The error names the file and the line."""
    write_traces(tmp_path, *traces)
    with pytest.raises(InputError, match=error):
        opened(tmp_path, [job(1, 0, 1, "replay")], {"replay": REPLAY})


def test_two_processes_of_a_replay_need_two_hosts(tmp_path: Path) -> None:
    """As in Batsim, a host replays one trace."""
    write_traces(tmp_path, "0 m_usage 1 1", "1 m_usage 1 1")
    bridge = opened(tmp_path, [job(1, 0, 2, "replay")], {"replay": REPLAY})
    placed = execution("w0!1", "0")
    with pytest.raises(BadReplyError, match="each process needs a host alone"):
        talk(bridge, lambda _, kind, __: [placed] if kind == "JobSubmitted" else [])


def test_external_events_are_forwarded(tmp_path: Path) -> None:
    """They occur by time, with the number of their line."""
    lines = ['{"type": "generic", "timestamp": 5, "data": "b"}'] * 2
    lines.append('{"type": "generic", "timestamp": 2, "data": "a"}')
    seen = talk(opened(tmp_path, external="\n".join(lines)), lambda *_: [])
    events = of_kind(seen, "ExternalEventOccurred")
    assert [(time_s, data["id"]) for time_s, data in events] == [
        (2, "ee0!2"),
        (5, "ee0!0"),
        (5, "ee0!1"),
    ]
    assert events[0][1]["external_event_type"] == "GenericExternalEvent"
    assert events[0][1]["external_event"] == {"data": "a"}
    assert seen[-2][:2] == (5, "AllStaticExternalEventsHaveBeenInjected")


def test_a_component_ends_the_simulation(tmp_path: Path) -> None:
    """What follows in its reply is dropped."""
    bridge = opened(tmp_path, [job(1, 1, 1, "wait"), job(2, 50, 1, "wait")], {"wait": DELAY})

    def answer(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        if kind == "JobSubmitted":
            return [
                execution("w0!1", "0"),
                ("ForceSimulationStopEvent", {}),
                ("RejectJobEvent", {"job_id": "w0!1"}),  # what follows is dropped
            ]
        return []

    assert talk(bridge, answer)[-1][:2] == (1, "SimulationEnds")


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (("Dance", {}), r"unknown event 'Dance'; expected one of ExecuteJobEvent"),
        (("TriggerProbeEvent", {"probe_id": "p"}), "TriggerProbeEvent is not supported"),
        (
            ("RejectJobEvent", {"job_id": 1}),
            r"\(\$.events\[0\].event.job_id\): RejectJobEvent",
        ),
        (("RejectJobEvent", {"id": "x"}), "RejectJobEvent: Object contains unknown field `id`"),
        (("RejectJobEvent", {"job_id": "w0!9"}), "RejectJobEvent: there is no job 'w0!9'"),
        (execution("w0!1", "9"), "ExecuteJobEvent: there is no host 9; expected 0 to 3"),
        (execution("w0!1", "0-1", [0, 2]), "mapping: expected positions in alloc from 0 to 1"),
        (execution("w0!1", "0-1", [0]), "mapping: expected 2 processes, the request of job w0!1"),
        (execution("w0!1", "0-1", storage_placement=[{}]), "storage_placement is not supported"),
        (
            execution("w0!1", "0-1", profile_allocation_override=[override("w0!x", "0", [0])]),
            "profile_allocation_override: job w0!1 has no profile 'w0!x'",
        ),
        (
            execution("w0!1", "0-1", profile_allocation_override=[override("w0!two", "2", [0])]),
            r"override: host 2 \(host2\) is not in the allocation of w0!1",
        ),
        (("CreateProbeEvent", PROBE), "probes of power require --energy-host"),
        (
            ("CallMeLaterEvent", {"call_me_later_id": "a", **periodic(0)}),
            "period: expected a number > 0, got 0",
        ),
        (
            ("CallMeLaterEvent", {"call_me_later_id": "a", "when_type": "Never", "when": {}}),
            "when_type: expected OneShot or Periodic, got 'Never'",
        ),
        (("TurnOnOffHostsEvent", {"host_ids": "0", "state": 1}), r"host 0 \(host0\) is on already"),
        (
            ("ChangeHostsPStateEvent", {"host_ids": "0", "pstate": 2}),
            "host0. does not compute in pstate 2; TurnOnOffHostsEvent",
        ),
        (("EDCHelloEvent", {}), "expected it only as the first message of a component"),
    ],
)
def test_bad_decisions_are_errors_that_name_them(event: Any, error: str, tmp_path: Path) -> None:
    """The message has the event and the field."""
    profiles = {"two": {"type": "ParallelTaskProfile", "cpu": [1, 1]}}
    bridge = opened(tmp_path, [job(1, 1, 2, "two")], profiles)
    with pytest.raises(BadReplyError, match=error):
        talk(bridge, lambda _, kind, __: [event] if kind == "JobSubmitted" else [])


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b'{"now": 0, "events": [], "more": 1}'])
def test_bad_replies_are_errors(text: bytes, tmp_path: Path) -> None:
    """A reply that is no message is an error, not a traceback."""
    bridge = opened(tmp_path)
    bridge.first_message()
    with pytest.raises(BadReplyError):
        bridge.next_message(text)


@pytest.mark.parametrize(
    ("profile", "error"),
    [
        (
            {"type": "delay", "delay": 1},
            "its name in Batsim 5 is 'DelayProfile'",
        ),
        ({"type": "ForkJoinCompositionProfile"}, "does not support tasks that fork and join"),
        ({**REPLAY, "trace_type": "SMPI"}, "trace type 'SMPI': hpcosim only supports Fractional"),
        ({**REPLAY, "filename": "none"}, "none: cannot be read: No such file or directory"),
        ({"type": "Odd"}, "unknown profile type 'Odd'; expected one of DelayProfile"),
        ({"type": "ParallelTaskProfile"}, "cpu: is missing, and `com` too"),
        ({**COMPUTATION, "generation_strategy": "x"}, "expected DefinedAmountsUsedForEachValue or"),
        ({**DELAY, "extra_data": 3}, "extra_data: must be a string, an object or an array"),
    ],
)
def test_bad_profiles_are_errors(profile: Any, error: str, tmp_path: Path) -> None:
    """The message has the field and what was expected."""
    with pytest.raises(InputError, match=error):
        opened(tmp_path, [job(1, 1, 1, "p")], {"p": profile})
