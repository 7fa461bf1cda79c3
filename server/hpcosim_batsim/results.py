"""Result of a run in Batsim's terms: jobs, hosts, energy and switches."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, chain
from typing import Literal

from msgspec import Struct

from hpcosim_batsim.bridge import host_states
from hpcosim_batsim.bridge.jobs import FINAL, FinalState
from hpcosim_batsim.bridge.run import SHARED_SLOTS, BatsimRun
from hpcosim_sim.physics.power import RecordedState
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_sim.record.replay import JobChange, PowerChange, Replay, changes_of
from hpcosim_sim.record.run_record import RunRecord

HostState = Literal["idle", "computing", "sleeping", "switching_on", "switching_off", "unavailable"]

MIN_RUN_S = 1e-5
"""Run time in Batsim's files of a job that ends when it starts, s."""

Unavailable = Sequence[tuple[float, tuple[int, ...], bool]]
"""Time, hosts, and whether they became unavailable (True) or available again (False)."""

_PSTATES: Mapping[RecordedState, int] = {
    "on": 0,
    "down": 0,
    "sleeping": 1,
    "switching_on": host_states.SWITCHING_ON,
    "switching_off": host_states.SWITCHING_OFF,
}

Hosts = Sequence[range]

HOST_STATES: Mapping[RecordedState, HostState] = {
    "on": "idle",
    "sleeping": "sleeping",
    "switching_on": "switching_on",
    "switching_off": "switching_off",
    "down": "unavailable",
}


class JobOutcome(Struct, kw_only=True):
    """A job that has ended.

    Attributes:
        walltime_s: maximum run time, s; None: unlimited.
        start_s: start time, s; None: the job never ran.
        end_s: end time, s; None: the job never ran.
    """

    name: str
    workload: str
    profile: str
    submit_s: float
    res: int
    walltime_s: float | None
    state: FinalState
    start_s: float | None = None
    end_s: float | None = None
    hosts: Sequence[int] = ()
    energy_j: float | None = None
    metadata: str = ""


class StateChange(Struct, frozen=True):
    """Hosts entered a state at the same time.

    Attributes:
        counted: `PREFIX_machine_states.csv` has a row then.
    """

    time_s: float
    hosts: Sequence[int]
    state: HostState
    counted: bool = True


class EnergyPoint(Struct, frozen=True):
    """Energy of all hosts up to an event.

    Attributes:
        kind: the event: a job started (`s`), a job ended (`e`), or pstates changed or were
            requested (`p`).
        idle_w: power of all hosts if all were idle, W.
    """

    time_s: float
    energy_j: float
    kind: Literal["s", "e", "p"]
    idle_w: float


class BatsimOutcome(Struct, kw_only=True):
    """Result of a run, for Batsim's output files.

    Attributes:
        jobs: jobs in the order in which they ended.
        states: state changes of hosts, by time; all hosts are idle before the first.
        pstates: pstate changes of hosts, by time, including the initial pstates; None: energy
            was not simulated.
        energy: energy over time; None: energy was not simulated.
        energy_before_j: energy before the first submission, J.
        scheduling_s: wall-clock time of the scheduler, s; None: not measured.
        simulation_s: wall-clock time of the run, s; None: not measured.
    """

    hosts: int
    jobs: Sequence[JobOutcome]
    states: Sequence[StateChange]
    pstates: Sequence[host_states.PstateChange] | None = None
    energy: Sequence[EnergyPoint] | None = None
    start_s: float = 0.0
    energy_before_j: float = 0.0
    grouped_switches: int = 0
    machine_switches: int = 0
    scheduling_s: float | None = None
    simulation_s: float | None = None
    version: str


_SWITCHED_ON = ("idle", "computing")


def add_unavailable_states(
    states: Iterable[StateChange], availability: Unavailable
) -> list[StateChange]:
    """Return state changes of hosts with the state `unavailable`.

    An unavailable host has the state `unavailable` instead of `idle` and `computing`; it finishes
    its job. As in Batsim, states are counted at starts and ends of jobs, but not when hosts become
    unavailable or available.
    """
    if not availability:
        return list(states)
    unavailable: set[int] = set()
    recorded: dict[int, HostState] = {}  # states in the simulation
    result: list[StateChange] = []

    def add(time_s: float, hosts: Iterable[int], *, counted: bool) -> None:
        parts = _by_state(hosts, recorded, unavailable)
        for left, (state, members) in enumerate(parts.items(), start=1 - len(parts)):
            result.append(StateChange(time_s, members, state, counted and not left))

    waiting = deque(availability)
    for change in [*states, None]:
        while waiting and (change is None or _is_first(waiting[0][0], change)):
            time_s, named, lost = waiting.popleft()
            (unavailable.update if lost else unavailable.difference_update)(named)
            switched_on = [host for host in named if recorded.get(host, "idle") in _SWITCHED_ON]
            add(time_s, switched_on, counted=False)
        if change is None:
            continue
        recorded.update(dict.fromkeys(change.hosts, change.state))
        if change.hosts:
            add(change.time_s, change.hosts, counted=change.counted)
        else:
            result.append(change)
    return result


def _is_first(time_s: float, change: StateChange) -> bool:
    """Tell whether a change of availability comes before a state change.

    At one instant jobs end first, then availability changes, then jobs start.
    """
    return time_s < change.time_s or (time_s == change.time_s and change.state == "computing")


def _by_state(
    hosts: Iterable[int], recorded: Mapping[int, HostState], unavailable: Set[int]
) -> dict[HostState, list[int]]:
    by_state: dict[HostState, list[int]] = {}
    for host in hosts:
        state = recorded.get(host, "idle")
        if state in _SWITCHED_ON and host in unavailable:
            state = "unavailable"
        by_state.setdefault(state, []).append(host)
    return by_state


def merge_slots(outcome: BatsimOutcome, slots: int) -> None:
    """Replace the slots in an outcome by their hosts.

    A host computes while at least one of its slots does.
    """

    def hosts_of_slots(numbers: Iterable[int]) -> list[int]:
        return sorted({number // slots for number in numbers})

    outcome.hosts //= slots
    running = [0] * outcome.hosts
    states = []
    for change in outcome.states:
        hosts = hosts_of_slots(change.hosts)
        if change.state in ("computing", "idle"):
            step = 1 if change.state == "computing" else -1
            for host in hosts:
                running[host] = max(running[host] + step, 0)
            hosts = [host for host in hosts if running[host] == max(step, 0)]
        states.append(StateChange(change.time_s, hosts, change.state, change.counted))
    outcome.states = states
    for job in outcome.jobs:
        job.hosts = hosts_of_slots(job.hosts)


def results_of(run: BatsimRun) -> BatsimOutcome:
    """Return the result of a run, complete or not."""

    def outcome_of_job(recording: Recording, row: int) -> JobOutcome:
        job = run.registry.jobs[recording.job_id[row]]
        assert job.final is not None
        return JobOutcome(
            name=job.source.name,
            workload=job.source.workload,
            profile=job.source.profile,
            submit_s=job.source.submit_s,
            res=job.source.res,
            walltime_s=job.source.walltime_s,
            state=job.final,
            metadata=job.metadata,
        )

    outcome = outcome_of(
        run.simulation.record(),
        job=outcome_of_job,
        log=run.hosts.log,
        energy=run.options.energy,
    )
    if run.options.compute_sharing:
        merge_slots(outcome, SHARED_SLOTS)
    outcome.states = add_unavailable_states(outcome.states, run.availability)
    return outcome


def hosts_of_nodes(hosts: Hosts, nodes: Iterable[int]) -> array[int]:
    """Return the hosts of nodes, node by node."""
    return array("i", chain.from_iterable(hosts[node] for node in nodes))


def hosts_of_jobs(recording: Recording, hosts: Hosts) -> dict[int, array[int]]:
    """Return the hosts of each job that started, by row."""
    free = [list(of_node) for of_node in hosts]
    allocated: dict[int, array[int]] = {}
    periods = recording.periods
    for code in recording.changes:
        period = code if code >= 0 else ~code
        row = periods.row[period]
        places = zip(periods.nodes_of(period), periods.tasks_of(period), strict=True)
        if code >= 0:
            allocated[row] = of_job = array("i")
            for node, count in places:
                of_job.extend(free[node][:count])
                del free[node][:count]
        else:
            released = iter(allocated[row])
            for node, count in places:
                free[node] = sorted([*free[node], *(next(released) for _ in range(count))])
    return allocated


def state_changes(
    recording: Recording, hosts: Hosts, allocated: Mapping[int, array[int]]
) -> Iterator[StateChange]:
    """Yield every state change of hosts by time; all hosts are idle at first."""
    for change in changes_of(recording):
        state: HostState
        if isinstance(change, JobChange):
            state = "computing" if change.starts else "idle"
            yield StateChange(change.time_s, allocated[change.row], state)
        elif isinstance(change, PowerChange):
            state = HOST_STATES[change.state]
            yield StateChange(change.time_s, hosts_of_nodes(hosts, change.nodes), state)


def pstate_changes(recording: Recording, hosts: Hosts) -> Iterator[host_states.PstateChange]:
    """Yield the pstates of a run whose nodes have two, 0 on and 1 asleep; all are on at first."""
    yield host_states.PstateChange(0.0, hosts_of_nodes(hosts, range(len(hosts))), _PSTATES["on"])
    for change in changes_of(recording):
        if isinstance(change, PowerChange):
            switched = hosts_of_nodes(hosts, change.nodes)
            yield host_states.PstateChange(change.time_s, switched, _PSTATES[change.state])


def logged_state_changes(
    recording: Recording,
    hosts: Hosts,
    allocated: Mapping[int, array[int]],
    log: Iterable[host_states.StateEntry],
) -> Iterator[StateChange]:
    """Yield every state change of hosts as `state_changes` does, with one entry per request.

    Args:
        log: state changes by requests, in chronological order.
    """
    entries = iter(log)
    entry = next(entries, None)
    periods = recording.periods
    for index, code in enumerate(recording.changes):
        while entry is not None and entry.after <= index:
            yield _logged(entry, hosts)
            entry = next(entries, None)
        starts = code >= 0
        period = code if starts else ~code
        time_s = periods.start_s[period] if starts else periods.end_s[period]
        state: HostState = "computing" if starts else "idle"
        yield StateChange(time_s, allocated[periods.row[period]], state)
    while entry is not None:
        yield _logged(entry, hosts)
        entry = next(entries, None)


def _logged(entry: host_states.StateEntry, hosts: Hosts) -> StateChange:
    switched = hosts_of_nodes(hosts, entry.hosts)
    return StateChange(entry.time_s, switched, entry.state, entry.counted)


class EnergyLog(Struct):
    """Energy of a run over time.

    Attributes:
        points: energy of all hosts at each event, by time.
        before_j: energy before the first submission, J; 0 if nothing changed after it.
    """

    points: list[EnergyPoint]
    before_j: float = 0.0


def energy_log(record: RunRecord, switches: Iterable[host_states.EnergyEntry] | None) -> EnergyLog:
    """Return the energy of a run.

    Args:
        switches: energy at requests to change pstates and at their ends; None: each change of power
            in the recording is a request or an end.
    """
    replay = Replay(record.platform, record.recording, record.start_s)
    log, of_requests = EnergyLog([]), deque(switches or ())
    first_s = min(record.recording.submit_s, default=record.start_s)
    starts_and_ends, before = 0, True
    for change in changes_of(record.recording):
        if before and first_s <= change.time_s:
            log.before_j, before = replay.cluster.energy_j(first_s), False
        if isinstance(change, JobChange):
            while of_requests and of_requests[0].after <= starts_and_ends:
                log.points.append(_point_of(of_requests.popleft()))
            starts_and_ends += 1
            replay.apply(change)
            log.points.append(_point(replay, change.time_s, "s" if change.starts else "e"))
        elif switches is None and isinstance(change, PowerChange):
            requested = _point(replay, change.time_s, "p")
            replay.apply(change)
            begins = change.state.startswith("switching")
            log.points.append(requested if begins else _point(replay, change.time_s, "p"))
        else:
            replay.apply(change)
    log.points += map(_point_of, of_requests)
    return log


def _point(replay: Replay, time_s: float, kind: Literal["s", "e", "p"]) -> EnergyPoint:
    cluster = replay.cluster
    return EnergyPoint(time_s, cluster.energy_j(time_s), kind, cluster.idle_power_w)


def _point_of(entry: host_states.EnergyEntry) -> EnergyPoint:
    return EnergyPoint(entry.time_s, entry.energy_j, "p", entry.idle_w)


JobOf = Callable[[Recording, int], JobOutcome]
"""Returns the result of the job in a row of the recording, without start, end, hosts, energy."""


def native_job(recording: Recording, row: int) -> JobOutcome:
    """Return the job in a row of the recording of a run without Batsim's workloads."""
    return JobOutcome(
        name=str(recording.job_id[row]),
        workload="w0",
        profile="",
        submit_s=recording.submit_s[row],
        res=recording.cores[row],
        walltime_s=recording.requested_s[row],
        state=FINAL[STATES[recording.state[row]]],
    )


def outcome_of(
    record: RunRecord,
    *,
    job: JobOf = native_job,
    log: host_states.SwitchLog | None = None,
    energy: bool = True,
) -> BatsimOutcome:
    """Return the result of a run, complete or not, without the jobs that have not ended.

    Args:
        log: the requests to change pstates; None: each change of power in the recording is one.
        energy: include the energy over time and of each job, and the pstates.
    """
    recording, cores = record.recording, record.platform.cores_by_node()
    ends = accumulate(cores)
    hosts = [range(end - count, end) for end, count in zip(ends, cores, strict=True)]
    allocated = hosts_of_jobs(recording, hosts)
    if log is None:
        states = list(state_changes(recording, hosts, allocated))
        switches = [change.hosts for change in states if change.state.startswith("switching")]
        requests, switched = len(switches), sum(map(len, switches))
        pstates = list(pstate_changes(recording, hosts))
    else:
        states = list(logged_state_changes(recording, hosts, allocated, log.states))
        requests, switched, pstates = log.requests, log.hosts, log.pstates
    consumed = energy_log(record, None if log is None else log.energy) if energy else None
    return BatsimOutcome(
        hosts=record.platform.core_count,
        jobs=_jobs(record, job, allocated, energy=energy),
        states=states,
        pstates=pstates if energy else None,
        energy=consumed.points if consumed else None,
        start_s=record.start_s,
        energy_before_j=consumed.before_j if consumed else 0.0,
        grouped_switches=requests,
        machine_switches=switched,
        version=f"hpcosim {_version()}",
    )


def _version() -> str:
    try:
        return version("hpcosim")
    except PackageNotFoundError:  # run from the source tree
        return "unknown"


def _jobs(
    record: RunRecord, job: JobOf, allocated: Mapping[int, array[int]], *, energy: bool
) -> list[JobOutcome]:
    """Return the jobs that have ended, in the order in which they ended."""
    recording = record.recording
    energies_j = record.job_energies_j if energy else None
    row_of = recording.periods.row
    place = {row_of[~code]: place for place, code in enumerate(recording.changes) if code < 0}
    ended = [row for row in range(len(recording)) if not math.isnan(recording.end_s[row])]
    ended.sort(key=lambda row: (recording.end_s[row], place.get(row, len(recording.changes))))
    jobs = []
    for row in ended:
        result = job(recording, row)
        if row in allocated:
            result.start_s, result.end_s = recording.start_s[row], recording.end_s[row]
            if result.end_s == result.start_s:
                result.end_s += MIN_RUN_S
            result.hosts = allocated[row]
            result.energy_j = None if energies_j is None else energies_j[row]
        jobs.append(result)
    return jobs
