"""Random clusters, jobs and decisions, with a reference replay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import NamedTuple, get_args

from hypothesis import strategies as st

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    Event,
    EventKind,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    KillJob,
    Platform,
    Processor,
    RejectJob,
    SetAlarm,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_workloads.table import JobTable

KINDS: tuple[EventKind, ...] = get_args(EventKind)


@st.composite
def processors(draw: st.DrawFn) -> Processor:
    """Return a processor."""
    return Processor(
        cores=draw(st.integers(1, 4)),
        clock_ghz=draw(st.sampled_from([0.7, 1.0, 1.5, 3.0])),
        static_w=draw(st.sampled_from([0.0, 13.3, 100.0])),
        dynamic_w=draw(st.sampled_from([0.0, 3.7, 20.0])),
        idle_fraction=draw(st.sampled_from([0.0, 0.3959, 1.0])),
    )


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """Return random options of a simulation."""
    return Rules(
        reference_ghz=draw(st.sampled_from([None, 1.0, 2.3])),
        kill_at_walltime=draw(st.booleans()),
    )


class Scene(NamedTuple):
    """All inputs of a run."""

    platform: Platform
    jobs: JobTable
    rules: Rules
    seed: int


class Monkey:
    """A scheduler that makes random valid decisions and lets the run end."""

    def __init__(self, scene: Scene) -> None:
        self.random = Random(scene.seed)
        self.capacity = scene.platform.cores_by_node()
        self.free = list(self.capacity)
        self.waiting: dict[int, JobSubmitted] = {}
        self.running: dict[int, list[tuple[int, int]]] = {}  # node and cores held, by job
        self.submitted: dict[int, JobSubmitted] = {}

    def hear(self, events: Sequence[Event]) -> None:
        """Apply events."""
        for event in events:
            if isinstance(event, JobSubmitted):
                self.waiting[event.job_id] = self.submitted[event.job_id] = event
            elif isinstance(event, JobStarted):
                whole = self.waiting.pop(event.job_id).placement == "whole_nodes"
                held = [
                    (node, self.capacity[node] if whole else cores)
                    for node, cores in zip(event.nodes, event.cores, strict=True)
                ]
                self.running[event.job_id] = held
                for node, cores in held:
                    self.free[node] -= cores
            elif isinstance(event, JobCompleted):
                self.waiting.pop(event.job_id, None)
                for node, cores in self.running.pop(event.job_id, []):
                    self.free[node] += cores

    def decide(self) -> list[Decision]:
        """Return random decisions."""
        free, random = list(self.free), self.random
        # Cores of jobs killed in this message stay unused until the next one.
        decisions: list[Decision] = [
            KillJob(job_id) for job_id in self.running if random.random() < 0.05
        ]
        queue = list(self.waiting.values())
        random.shuffle(queue)
        for job in queue:
            if random.random() < 0.05:
                decisions.append(RejectJob(job.job_id))
            elif random.random() < 0.8:
                taken = self.lay(job, free)
                if taken:
                    nodes, tasks = map(list, zip(*taken.items(), strict=True))
                    decisions.append(AllocateJob(job.job_id, nodes, tasks))
                    for node, cores in taken.items():
                        whole = job.placement == "whole_nodes"
                        free[node] -= self.capacity[node] if whole else cores
        if self.waiting:
            now_on = random.choice([1e-3, 0.5, 4.0])
            decisions.append(SetAlarm(self.now_s + 10 + now_on, random.randrange(3)))
        return decisions

    def lay(self, job: JobSubmitted, free: list[int]) -> dict[int, int]:
        """Return a random allocation, tasks by node; empty if none was found."""
        nodes = [node for node, cores in enumerate(free) if cores]
        if job.placement == "whole_nodes":
            nodes = [node for node in nodes if free[node] == self.capacity[node]]
        if job.placement == "one_node":
            nodes = [node for node in nodes if free[node] >= job.cores][:1]
        if sum(free[node] for node in nodes) < job.cores:
            return {}
        self.random.shuffle(nodes)
        slots = [node for node in nodes for _ in range(free[node])]
        if self.random.random() < 0.5:
            self.random.shuffle(slots)
        return dict(Counter(slots[: job.cores]))

    now_s = 0.0


class Played(NamedTuple):
    """A completed run with its events and decisions."""

    simulation: Simulation
    events: list[Event]
    decided: list[tuple[float, list[Decision]]]  # time at which they were carried out


def play(scene: Scene) -> Played:
    """Schedule a scene at random to its end."""
    simulation = Simulation(scene.platform, scene.jobs, scene.rules)
    monkey, random = Monkey(scene), Random(scene.seed + 1)
    events: list[Event] = []
    decided: list[tuple[float, list[Decision]]] = []
    batch = simulation.advance(wake_on=["simulation_began"])
    while not batch.ended:
        events += batch.events
        monkey.now_s = batch.now_s
        monkey.hear(batch.events)
        decisions = monkey.decide()
        elapsed_s = random.choice([0.0, 0.0, 0.0, 0.25, 3.0])
        wake_on = random.choice([None, [], random.sample(KINDS, 3), KINDS])
        decided.append((batch.now_s + elapsed_s, decisions))
        batch = simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)
    return Played(simulation, events, decided)


class Span(NamedTuple):
    """Allocation, start and end of a job."""

    start_s: float
    end_s: float
    tasks: dict[tuple[int, int], int]  # by node and processor
    nodes: list[int]
    whole: bool


def replay(scene: Scene, events: Sequence[Event]) -> dict[int, Span]:
    """Place every task on its processor in the order of the events, first free core first."""
    processors = [group.processors for group in scene.platform.nodes for _ in range(group.count)]
    submitted: dict[int, JobSubmitted] = {}
    busy: Counter[tuple[int, int]] = Counter()
    runs: dict[int, Span] = {}
    for event in events:
        if isinstance(event, JobSubmitted):
            submitted[event.job_id] = event
        elif isinstance(event, JobStarted):
            tasks: Counter[tuple[int, int]] = Counter()
            for node, count in zip(event.nodes, event.cores, strict=True):
                for _ in range(count):
                    slot = next(
                        slot
                        for slot, processor in enumerate(processors[node])
                        if busy[node, slot] < processor.cores
                    )
                    busy[node, slot] += 1
                    tasks[node, slot] += 1
            whole = submitted[event.job_id].placement == "whole_nodes"
            runs[event.job_id] = Span(event.time_s, math.nan, tasks, event.nodes, whole)
        elif isinstance(event, JobCompleted) and event.job_id in runs:
            run = runs[event.job_id]
            busy.subtract(run.tasks)
            runs[event.job_id] = run._replace(end_s=event.time_s)
    return runs
