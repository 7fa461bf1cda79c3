"""Reference implementations of FCFS, EASY and conservative backfilling from their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import PLACEMENTS, JobTable


@dataclass
class Job:
    """A job of the reference."""

    row: int
    submit_s: float
    run_s: float
    need: int
    requested_s: float
    start_s: float = math.nan
    reserved_s: float = math.nan

    def expected_end_s(self, now_s: float) -> float:
        """Return the expected end; now if it is overdue."""
        return max(self.start_s + self.requested_s, now_s)


@dataclass
class Machine:
    """The state that a reference scheduler sees at an instant."""

    capacity: int
    now_s: float = -1.0
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    new: list[Job] = field(default_factory=list)
    surprise: bool = False  # a job ended before its requested time

    def free(self) -> int:
        """Return the free cores of each node."""
        return self.capacity - sum(job.need for job in self.running)

    def start(self, job: Job) -> None:
        """Start a waiting job."""
        assert job.need <= self.free()
        self.queue.remove(job)
        job.start_s = self.now_s
        self.running.append(job)


def reference(capacity: int, rows: list[tuple[float, float, int, float]], decide: Decide) -> Starts:
    """Return the start time of each job; `decide` is called at each event."""
    jobs = [Job(i, *row) for i, row in enumerate(rows)]
    machine = Machine(capacity)
    while any(math.isnan(job.start_s) for job in jobs):
        times = [job.submit_s for job in jobs] + [job.reserved_s for job in machine.queue]
        times += [job.start_s + job.run_s for job in machine.running]
        now_s = machine.now_s = min(time for time in times if time > machine.now_s)
        over = [job for job in machine.running if job.start_s + job.run_s == now_s]
        machine.running = [job for job in machine.running if job not in over]
        machine.new = [job for job in jobs if job.submit_s == now_s]
        machine.queue += machine.new
        machine.surprise = any(job.run_s != job.requested_s for job in over)
        decide(machine)
    return [job.start_s for job in jobs]


Decide = Callable[[Machine], None]


Starts = list[float]


def fcfs(machine: Machine) -> None:
    """FCFS: start jobs in order of submission up to the first that does not fit."""
    while machine.queue and machine.queue[0].need <= machine.free():
        machine.start(machine.queue[0])


def easy(machine: Machine) -> None:
    """EASY: recompute shadow time and extra nodes of the head at every event."""
    fcfs(machine)
    if not machine.queue:
        return
    head, *others = machine.queue
    now_s = machine.now_s
    ends = [(job.expected_end_s(now_s), job.need) for job in machine.running]

    def free_at(time_s: float) -> int:
        return machine.free() + sum(need for end_s, need in ends if end_s <= time_s)

    candidates = sorted({now_s, *(end_s for end_s, _ in ends)})
    shadow_s = next(time_s for time_s in candidates if free_at(time_s) >= head.need)
    extra = free_at(shadow_s) - head.need
    for job in others:
        in_time = now_s + job.requested_s <= shadow_s
        if job.need <= machine.free() and (in_time or job.need <= extra):
            machine.start(job)
            if not in_time:
                extra -= job.need


def conservative(machine: Machine) -> None:
    """Conservative backfilling, as in the docstring of `heuristics/conservative.py`.

    At one instant jobs end before others are submitted, so the schedule is compressed before new
    jobs get their reservations.
    """
    now_s = machine.now_s
    kept = [(now_s, job.expected_end_s(now_s), job.need) for job in machine.running]
    placed: list[Job] = []

    def free_at(time_s: float, but: Job) -> int:
        taken = kept + [
            (job.reserved_s, job.reserved_s + job.requested_s, job.need)
            for job in placed
            if job is not but
        ]
        return machine.capacity - sum(need for a, b, need in taken if a <= time_s < b)

    def place(job: Job, after_s: float) -> None:
        others = [other for other in placed if other is not job]
        ends = [end_s for _, end_s, _ in kept]
        ends += [other.reserved_s + other.requested_s for other in others]
        begins = [other.reserved_s for other in others]
        for start_s in sorted({after_s, *(end_s for end_s in ends if end_s > after_s)}):
            until_s = start_s + job.requested_s
            steps = [start_s, *(t for t in ends + begins if start_s < t < until_s)]
            if all(free_at(step, job) >= job.need for step in steps):
                job.reserved_s = start_s
                break
        if job not in placed:
            placed.append(job)

    held = [job for job in machine.queue if job not in machine.new]
    for job in sorted(held, key=lambda job: (job.reserved_s, job.row)):
        place(job, max(job.reserved_s, now_s))
    if machine.surprise:
        for job in held:
            before_s = job.reserved_s
            place(job, now_s)
            assert job.reserved_s <= before_s
    for job in machine.new:
        place(job, now_s)
    for job in list(machine.queue):
        if job.reserved_s == now_s and job.need <= machine.free():
            machine.start(job)


def fits(placement: str, cores: int, free: list[int], capacity: list[int]) -> bool:
    """Return whether a job fits."""
    if placement == "one_node":
        return max(free) >= cores
    if placement == "whole_nodes":
        return (
            sum(f for f, all_of_it in zip(free, capacity, strict=True) if f == all_of_it) >= cores
        )
    return sum(free) >= cores


def free_nodes(simulation: Simulation, rows: list[int]) -> list[int]:
    """Return the free cores of each node with only these jobs running."""
    recording = simulation.recording
    capacity = simulation.cluster.platform.cores_by_node()
    free = list(capacity)
    for row in rows:
        whole = PLACEMENTS[recording.placement[row]] == "whole_nodes"
        for node, tasks in zip(recording.nodes_of(row), recording.tasks_of(row), strict=True):
            free[node] -= capacity[node] if whole else tasks
    return free


def shadow_s(simulation: Simulation, table: JobTable, head: int, now_s: float) -> float:
    """Return the start time of a job if no later job starts from now on."""
    recording = simulation.recording
    ahead = [
        row
        for row in range(len(table))
        if recording.start_s[row] < now_s or (recording.start_s[row] == now_s and row < head)
    ]
    ends_s = {row: recording.start_s[row] + float(table.requested_s[row]) for row in ahead}
    for time_s in sorted({now_s, *(end_s for end_s in ends_s.values() if end_s > now_s)}):
        free = free_nodes(simulation, [row for row in ahead if ends_s[row] > time_s])
        placement = PLACEMENTS[table.placement[head]]
        if fits(placement, int(table.cores[head]), free, simulation.cluster.capacity):
            return time_s
    raise AssertionError("an empty cluster has no room for the job")


def look_ahead(machine: Machine) -> None:
    """Look-ahead, as in the docstring of `heuristics/look_ahead.py`."""
    now_s = machine.now_s

    def starts_of(jobs: list[Job]) -> list[float]:
        """Return the starts of jobs by reservations in this order."""
        taken = [(now_s, job.expected_end_s(now_s), job.need) for job in machine.running]
        found = []
        for job in jobs:
            for start_s in sorted({now_s, *(end_s for _, end_s, _ in taken)}):
                until_s = start_s + job.requested_s
                steps = [start_s, *(a for a, _, _ in taken if start_s < a < until_s)]
                used = [sum(need for a, b, need in taken if a <= step < b) for step in steps]
                if max(used) + job.need <= machine.capacity:
                    break
            found.append(start_s)
            taken.append((start_s, start_s + job.requested_s, job.need))
        return found

    def cost_of(jobs: list[Job]) -> float:
        cost = 0.0
        for job, start_s in zip(jobs, starts_of(jobs), strict=True):
            delay_s, waited_days = start_s - now_s, (now_s - job.submit_s) / 86_400
            cost += (1 + 0.05 * waited_days) * delay_s / (1 + delay_s / 43_200)
        return round(cost, 6)

    while any(job.need <= machine.free() for job in machine.queue):
        by_area = sorted(machine.queue, key=lambda job: job.requested_s * job.need)
        plans = [[job, *(one for one in by_area if one is not job)] for job in by_area[:8]]
        best = min(plans, key=cost_of)
        if best[0].need > machine.free():
            for job, start_s in zip(best, starts_of(best), strict=True):
                if start_s == now_s and job.need <= machine.free():
                    machine.start(job)
            return
        machine.start(best[0])
