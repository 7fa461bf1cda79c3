"""Reference simulator of contention, power and energy attribution.

It shares no code with the server. Every task is an object, and every event updates the work of all
tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hpcosim_protocol import Contention, Platform, Processor

Place = tuple[int, int]  # node, processor of the node

# Relative tolerance within which two times are one instant.
INSTANT = 1e-11


class OracleJob(NamedTuple):
    """A job of the oracle.

    Attributes:
        ops: operations of each task; 0: the job has the fixed run time `run_s`.
        volume_mb: memory traffic of each task, MB.
        run_s: run time of a job without operations, s.
        limit_s: walltime limit, s.
    """

    ops: float = 0.0
    volume_mb: float = 0.0
    run_s: float = 0.0
    limit_s: float = math.inf


class Start(NamedTuple):
    """Start of a job: its time and the number of tasks on each processor."""

    job: int
    time_s: float
    tasks: Mapping[Place, int]


@dataclass
class Outcome:
    """Result of a run.

    Attributes:
        finish_s: end of each job that has ended, by job id, s.
        energy_j: energy of the platform, J.
        processor_j: energy of each processor, J.
        job_j: energy of each job, by job id, J.
        idle_j: energy of processors without tasks, J; it belongs to no job.
    """

    finish_s: dict[int, float] = field(default_factory=dict)
    energy_j: float = 0.0
    processor_j: dict[Place, float] = field(default_factory=dict)
    job_j: dict[int, float] = field(default_factory=dict)
    idle_j: float = 0.0


@dataclass
class _Task:
    job: int
    place: Place
    rate: float  # operations/s without contention
    asked: float  # MB/s
    left: float  # operations; s for a job without operations
    contends: bool
    ended: bool = False
    speed: float = 1.0

    def left_s(self) -> float:
        """Return the remaining time at the current speed, s."""
        return math.inf if self.ended else self.left / (self.rate * self.speed)


def speed_of(constants: Contention, x: float, y: float, k: int) -> float:
    """Return s of the paper's formula, with its symbols X, y and k other active tasks."""
    b, c = constants.b_per_mbps, constants.c_mbps
    u = (y - (constants.da - k) * constants.db_mbps) / (constants.dc_mbps - k * constants.dd_mbps)
    s_of_u = 1 - (6 * u**5 - 15 * u**4 + 10 * u**3) if 0 <= u <= 1 else float(u < 0)
    d = s_of_u * (0.6 * k / (1 + 0.6 * k)) + 1 / (1 + 0.6 * k)
    if x < c:
        s = 1.0
    elif x > c + (d - 1) / b:
        s = d
    else:
        s = 1 + b * (x - c)
    return round(s, 9)


def run(
    platform: Platform,
    jobs: Mapping[int, OracleJob],
    starts: Iterable[Start],
    kills: Mapping[int, float] | None = None,
    *,
    begin_s: float = 0.0,
    until_s: float,
) -> Outcome:
    """Simulate jobs with given starts.

    Args:
        platform: description of the cluster.
        jobs: the jobs by job id.
        starts: starts of jobs, in any order.
        kills: kill times of jobs that have not ended before, by job id, s.
        begin_s: time from which energy counts, s.
        until_s: end of the simulation, s.
    """
    return _Run(platform, jobs, starts, kills or {}, begin_s).until(until_s)


class _Run:
    def __init__(
        self,
        platform: Platform,
        jobs: Mapping[int, OracleJob],
        starts: Iterable[Start],
        kills: Mapping[int, float],
        begin_s: float,
    ) -> None:
        nodes = [group.processors for group in platform.nodes for _ in range(group.count)]
        self.processors: dict[Place, Processor] = {
            (node, slot): processor
            for node, processors in enumerate(nodes)
            for slot, processor in enumerate(processors)
        }
        self.jobs = jobs
        self.to_start = sorted(starts, key=lambda start: start.time_s)
        self.kills = dict(kills)
        self.now_s = begin_s
        self.tasks: list[_Task] = []
        self.ends_by_s: dict[int, float] = {}  # of running jobs: kill or walltime limit
        self.outcome = Outcome(processor_j=dict.fromkeys(self.processors, 0.0))

    def until(self, until_s: float) -> Outcome:
        while True:
            next_s = min(
                [self.now_s + task.left_s() for task in self.tasks]
                + [start.time_s for start in self.to_start[:1]]
                + list(self.ends_by_s.values()),
                default=math.inf,
            )
            if next_s > until_s + self.instant_s(until_s):
                self.pass_to(until_s)
                return self.outcome
            self.pass_to(max(next_s, self.now_s))
            self.happen()

    def instant_s(self, time_s: float) -> float:
        return INSTANT * max(1.0, abs(time_s))

    def pass_to(self, time_s: float) -> None:
        """Integrate work and energy up to a time."""
        dt = time_s - self.now_s
        self.now_s = time_s
        for task in self.tasks:
            if not task.ended:
                task.left -= task.rate * task.speed * dt
        for place, processor in self.processors.items():
            tasks = self.on(place)
            if tasks:
                joules = (processor.static_w + processor.dynamic_w * len(tasks)) * dt
                owners = {task.job for task in tasks}
                for job in owners:
                    self.outcome.job_j[job] += processor.static_w * dt / len(owners)
                for task in tasks:
                    self.outcome.job_j[task.job] += processor.dynamic_w * dt
            else:
                joules = processor.idle_fraction * processor.static_w * dt
                self.outcome.idle_j += joules
            self.outcome.processor_j[place] += joules
            self.outcome.energy_j += joules

    def happen(self) -> None:
        """Process the current instant: tasks end, jobs end, jobs are killed, jobs start."""
        soon_s = self.now_s + self.instant_s(self.now_s)
        touched: set[Place] = set()
        for task in self.tasks:
            task.ended = task.ended or self.now_s + task.left_s() <= soon_s
        for job in list(self.ends_by_s):
            done = all(task.ended for task in self.tasks if task.job == job)
            if done or self.ends_by_s[job] <= soon_s:
                touched |= self.end(job)
        while self.to_start and self.to_start[0].time_s <= soon_s:
            start = self.to_start.pop(0)
            touched |= self.start(start)
            # A job killed at the instant of its start.
            if self.ends_by_s[start.job] <= soon_s:
                self.end(start.job)
        for place in touched:
            self.set_speeds(place)

    def start(self, start: Start) -> set[Place]:
        job = self.jobs[start.job]
        for place, count in start.tasks.items():
            processor = self.processors[place]
            rate = processor.clock_ghz * processor.flops_per_cycle * 1e9
            for _ in range(count):
                if job.ops:
                    asked = job.volume_mb / (job.ops / rate)
                    task = _Task(start.job, place, rate, asked, job.ops, contends=True)
                else:
                    task = _Task(start.job, place, 1.0, 0.0, job.run_s, contends=False)
                self.tasks.append(task)
            assert len(self.on(place)) <= processor.cores
        kill_s = self.kills.get(start.job, math.inf)
        self.ends_by_s[start.job] = min(kill_s, start.time_s + job.limit_s)
        self.outcome.job_j[start.job] = 0.0
        return set(start.tasks)

    def end(self, job: int) -> set[Place]:
        places = {task.place for task in self.tasks if task.job == job}
        self.tasks = [task for task in self.tasks if task.job != job]
        del self.ends_by_s[job]
        self.outcome.finish_s[job] = self.now_s
        return places

    def set_speeds(self, place: Place) -> None:
        constants = self.processors[place].contention
        if constants is None:
            return
        tasks = [task for task in self.on(place) if task.contends]
        x = sum(task.asked for task in tasks)
        k = sum(not task.ended for task in tasks) - 1
        for task in tasks:
            if not task.ended:
                task.speed = speed_of(constants, x, task.asked, k)

    def on(self, place: Place) -> Sequence[_Task]:
        return [task for task in self.tasks if task.place == place]
