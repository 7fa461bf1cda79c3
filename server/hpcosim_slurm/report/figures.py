"""The rows of a session, the figures of a run, and runs as records of a simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_protocol import JobState, Platform, PowerState
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.physics.execution import Execution
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_slurm.worlds.live_engine import LiveEngine, NoEnds, spread
from hpcosim_workloads.table import JobSpec

J_PER_KWH = 3.6e6

DAY_S = 86_400.0
NEXT = {"on": "switching_off", "switching_off": "sleeping", "sleeping": "switching_on"}

ENDS, POWER, SUBMISSIONS, STARTS, SAMPLES = range(5)


class Spread(msgspec.Struct, frozen=True):
    """A distribution of times, s; NaN values are left out, and no values give null."""

    mean: float | None = None
    median: float | None = None
    p10: float | None = None
    p90: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the distribution of values."""
        if not values:
            return cls()
        p10, p90 = np.quantile(values, [0.1, 0.9])
        return cls(fmean(values), median(values), float(p10), float(p90))


class SideFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run.

    Attributes:
        wait_s: waits of jobs, s; in a comparison, of those that both sides have started.
        utilization: part of the core-seconds of the cluster that jobs had, 0 to 1.
        energy_kwh_per_day: the same for each day of 24 h since the begin; the last may be shorter.
        not_shown: number of starts for which the copy of the cluster has no room.
    """

    started: int
    wait_s: Spread
    utilization: float
    energy_kwh: float
    energy_kwh_per_day: list[float]
    not_shown: int


def wait_s(spec: JobSpec, run: OneRun) -> float:
    """Return the wait of a job that has started, s; Slurm's times have whole seconds."""
    return max(run.start_s - spec.submit_s, 0.0)


def side_of(started: int, waits_s: Sequence[float], run: ScriptedRun) -> SideFigures:
    """Return the figures of a run."""
    return SideFigures(
        started=started,
        wait_s=Spread.of(waits_s),
        utilization=_utilization(run.record),
        energy_kwh=run.record.energy_j / J_PER_KWH,
        energy_kwh_per_day=[energy_j / J_PER_KWH for energy_j in run.days_j],
        not_shown=run.left_out,
    )


def part(count: int, whole: int) -> float | None:
    """Return a part of a whole, 0 to 1; None: the whole is nothing."""
    return count / whole if whole else None


def _utilization(record: RunRecord) -> float:
    """Return the part of the core-seconds that jobs had."""
    recording, used = record.recording, 0.0
    for row in range(len(recording)):
        start_s, end_s = recording.start_s[row], recording.end_s[row]
        if not math.isnan(start_s):
            over_s = record.end_s if math.isnan(end_s) else end_s
            used += (over_s - start_s) * recording.cores[row]
    whole = record.duration_s * record.platform.core_count
    return used / whole if whole else 0.0


def power_of(session: SessionRows) -> str:
    """Return how energy is calculated, for people."""
    group = session.platform.nodes[0]
    busy_w = group.idle_w + group.cores * group.dynamic_w
    assert group.power_states is not None
    return (
        f"a model, not measured: each node draws {group.idle_w:g} W idle, {busy_w:g} W with all "
        f"CPUs in use, and {group.power_states.sleep_w:g} W off or down"
    )


def shown_time(unix_s: float) -> str:
    """Return a time, in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def shown_part(part: float | None) -> str:
    """Return a part of a whole in percent; None: there is no whole."""
    return "none" if part is None else f"{part:.1%}"


def shown_spread(spread: Spread) -> str:
    """Return a distribution of times."""
    if spread.median is None:
        return "none"
    return (
        f"median {spread.median:.1f} s, mean {spread.mean:.1f} s, "
        f"80 % in {spread.p10:.1f} to {spread.p90:.1f} s"
    )


def text_of(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return figures under a title, each with its name in a column of its own."""
    return "".join([f"{title}\n", *(f"{name:<22} {value}\n" for name, value in lines)])


class OneRun(NamedTuple):
    """A run of a job."""

    start_s: float = math.nan
    end_s: float = math.nan
    nodes: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    state: JobState | None = None

    @property
    def has_started(self) -> bool:
        """Whether the job has started."""
        return not math.isnan(self.start_s)


class JobRow(NamedTuple):
    """A job with both of its runs. Of a job that was requeued, the last run counts.

    Attributes:
        was_running: whether it ran already when the session began, or is of another partition, so
            that nobody decided on it.
        shadow: its run as the scheduler decided, to its exact end: the start and the real run time.
            In mode shadow that is its run in the copy of the cluster.
    """

    spec: JobSpec
    was_running: bool
    shadow: OneRun
    real: OneRun


class PowerChange(NamedTuple):
    """A change of the power state of a node.

    Attributes:
        at_s: Unix time, s.
    """

    at_s: float
    node: int
    state: PowerState


class Explanation(NamedTuple):
    """What the scheduler said of a waiting job (`explain`).

    Attributes:
        expected_s: expected start, Unix time, s; NaN: unknown.
    """

    job_id: int
    at_s: float
    reason: str
    expected_s: float


class SessionRows(NamedTuple):
    """Everything that a report needs of a session.

    Attributes:
        start_s, end_s: begin and end of the session, Unix time, s.
        rows: the jobs, in order of submission.
    """

    scheduler: str
    cluster: str
    platform: Platform
    start_s: float
    end_s: float
    rows: list[JobRow]
    real_power: list[PowerChange]
    shadow_power: list[PowerChange]
    decisions: int
    requests: int
    not_copied: int
    said: list[Explanation]


class ScriptedRun(NamedTuple):
    """A run.

    Attributes:
        days_j: energy of each day of the session, J; days have 24 h and the first begins with it.
        left_out: number of starts that the copy of the cluster has no room for, because in reality
            jobs share cores.
    """

    record: RunRecord
    days_j: list[float]
    left_out: int


class _Script:
    def __init__(self, session: SessionRows) -> None:
        self.session = session
        self.engine = _AnyJobs(session.platform)
        self.jobs: dict[int, SimulatedJob] = {}
        self.left_out = 0
        self.sums_j: list[float] = []

    def at_s(self, unix_s: float) -> float:
        session = self.session
        return min(max(unix_s - session.start_s, 0.0), session.end_s - session.start_s)

    def submit(self, row: JobRow) -> None:
        self.engine.submit(row.spec._replace(submit_s=self.engine.now_s))
        found = self.engine.jobs.find(row.spec.job_id)
        assert found is not None
        self.jobs[row.spec.job_id] = found

    def start(self, row: JobRow, run: OneRun) -> None:
        engine, job = self.engine, self.jobs[row.spec.job_id]
        free = [engine.cluster.free[node] for node in run.nodes]
        if job.state != "waiting" or not free or min(free) < 1:
            self.left_out += 1
            return
        tasks = list(run.tasks) or spread(job.spec.cores, free)
        tasks = [min(count, room) for count, room in zip(tasks, free, strict=True)]
        for node in run.nodes:
            while engine.power.state[node] != "on":
                self.switch(node, engine.power.state[node])
        job.spec = job.spec._replace(cores=sum(tasks), placement="cores")
        engine.recording.cores[job.row] = job.spec.cores
        engine.allocate(job, list(run.nodes), tasks)

    def end(self, row: JobRow, run: OneRun) -> None:
        job = self.jobs.get(row.spec.job_id)
        if job is not None and job.state != "over" and run.state is not None:
            # A start that was left out: a job without a start cannot be completed.
            is_left_out = job.state == "waiting" and run.has_started
            self.engine.end(job, "cancelled" if is_left_out else run.state)

    def switch(self, node: int, before: str) -> None:
        """Move a node to the state that follows one."""
        after = NEXT.get(before, "on")
        self.engine.switching.switch(node, after)  # type: ignore[arg-type]
        self.engine.switching.cancel(node)

    def power(self, change: PowerChange) -> None:
        engine, node = self.engine, change.node
        group = engine.cluster.kinds[engine.cluster.group_of[node]]
        is_used = engine.cluster.free[node] < engine.cluster.capacity[node]
        if group.power_states is None or (is_used and change.state != "on"):
            return
        while engine.power.state[node] != change.state:
            self.switch(node, engine.power.state[node])

    def explain(self, said: Explanation) -> None:
        row = self.jobs[said.job_id].row
        expected_s = None if math.isnan(said.expected_s) else said.expected_s
        if expected_s is not None:
            expected_s -= self.session.start_s
        self.engine.recording.explanations.add(row, self.engine.now_s, said.reason, expected_s)

    def sample(self) -> None:
        self.engine.settle()
        self.sums_j.append(sum(meter.energy_j for meter in self.engine.cluster.meters))


class _AnyJobs(LiveEngine):
    """An engine that accepts every job, and ends none."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform, 0.0)
        self.end_timers = NoEnds(self, Execution(platform, None))

    def admission_error(self, spec: object) -> str:
        """Return an empty text."""
        return ""


def run_of(
    session: SessionRows, which: Callable[[JobRow], OneRun], *, is_real: bool
) -> ScriptedRun:
    """Return one of the two runs of a session."""
    script = _Script(session)
    steps = sorted(_steps(script, which, is_real=is_real), key=lambda step: step[:3])
    for at_s, _, _, happen in steps:
        script.engine.pass_to(at_s)
        happen()
    script.engine.pass_to(script.at_s(session.end_s))
    script.sample()
    sums_j = [0.0, *script.sums_j]
    days_j = [after - before for before, after in pairwise(sums_j)]
    return ScriptedRun(script.engine.record(), days_j, script.left_out)


Step = tuple[float, int, int, Callable[[], None]]


def _steps(script: _Script, which: Callable[[JobRow], OneRun], *, is_real: bool) -> Iterator[Step]:
    session = script.session
    for place, row in enumerate(session.rows):
        run = which(row)
        submit_s = script.at_s(session.start_s if row.was_running else row.spec.submit_s)
        start_s = math.nan
        yield submit_s, SUBMISSIONS, place, partial(script.submit, row)
        if run.has_started:
            start_s = max(script.at_s(run.start_s), submit_s)
            yield start_s, STARTS, place, partial(script.start, row, run)
        if not math.isnan(run.end_s):
            end_s = script.at_s(run.end_s)
            # A job that ends at the instant of its start ends after it.
            rank = ENDS if end_s > max(submit_s, start_s if run.has_started else 0.0) else SAMPLES
            yield end_s, rank, place, partial(script.end, row, run)
    for place, change in enumerate(session.real_power if is_real else session.shadow_power):
        yield script.at_s(change.at_s), POWER, place, partial(script.power, change)
    for place, said in enumerate(() if is_real else session.said):
        yield script.at_s(said.at_s), SAMPLES, place, partial(script.explain, said)
    duration_s = session.end_s - session.start_s
    for day in range(1, math.ceil(duration_s / DAY_S)):
        yield day * DAY_S, SAMPLES, len(session.rows) + day, script.sample
