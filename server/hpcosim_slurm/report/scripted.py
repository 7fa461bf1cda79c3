"""A run whose starts and ends are given, as the record of a simulation.

Times are seconds since the begin of the session. What was before it happens at its begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from hpcosim_protocol import Platform
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.physics.execution import Execution
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_slurm.report.rows import JobRow, OneRun, PowerChange, Said, SessionRows
from hpcosim_slurm.worlds.adoption import spread
from hpcosim_slurm.worlds.live_engine import LiveEngine, NoEnds

DAY_S = 86_400.0
NEXT = {"on": "switching_off", "switching_off": "sleeping", "sleeping": "switching_on"}

ENDS, POWER, SUBMISSIONS, STARTS, SAMPLES = range(5)


class ScriptedRun(NamedTuple):
    """A run.

    Attributes:
        record: the record.
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

    def explain(self, said: Said) -> None:
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
    """Return one of the two runs of a session.

    Args:
        session: the session.
        which: returns the run of a job.
        is_real: whether it is the real run.
    """
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
