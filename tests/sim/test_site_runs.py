"""Random runs with requests, actions and failures: nothing is held twice, eligibility is right."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    Dependency,
    JobRequest,
    KillJob,
    NodeGroup,
    Platform,
    Processor,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SuspendJob,
)
from hpcosim_protocol.requests import DependencyKind
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.engine.site_events import JobAction, JobActionKind, NodeChange, SiteEvents
from hpcosim_workloads.table import JobSpec
from support.eligibility_oracle import EligibilityOracle
from support.site_scenes import table

PLATFORM = Platform(
    (NodeGroup(2, (Processor(2),), 8.0, gres={"gpu": 2}), NodeGroup(1, (Processor(4),), 16.0)),
    ("cores", "memory"),
    licenses={"x": 2},
)
KINDS: tuple[DependencyKind, ...] = ("after", "afterok", "afternotok", "afterany", "singleton")


def a_request(random: Random, job_id: int, count: int) -> JobRequest:
    """Return a random request."""
    others = [n for n in range(1, count + 3) if n != job_id]
    dependencies = tuple(
        Dependency(
            kind := random.choice(KINDS),
            () if kind == "singleton" else tuple(random.sample(others, random.randint(1, 2))),
            random.choice([0.0, 0.0, 3.0]),
        )
        for _ in range(random.choice([0, 0, 1, 2]))
    )
    array: dict[str, Any] = {"array_id": 1, "array_index": random.randint(0, 3), "array_limit": 2}
    return JobRequest(
        name=random.choice(["", "a"]),
        hold=random.random() < 0.1,
        begin_s=random.choice([None, None, 5.0, 12.0]),
        dependencies=dependencies,
        any_dependency=random.random() < 0.3,
        gres_per_node=random.choice([{}, {"gpu": 1}, {"gpu": 0.5}]),
        licenses=random.choice([{}, {"x": 1}]),
        requeue=random.random() < 0.7,
        **(array if random.random() < 0.3 else {}),
    )


def a_workload(random: Random) -> list[JobSpec]:
    """Return random jobs, some with requests."""
    count = random.randint(1, 8)
    times_s = sorted(random.choice([0.0, 1.0, 4.0, 9.0]) for _ in range(count))
    return [
        JobSpec(
            job_id,
            time_s,
            run_s := random.choice([2.0, 5.0, 7.0]),
            run_s,
            random.randint(1, 3),
            random.choice(["cores", "cores", "whole_nodes"]),
            memory_mb=random.choice([0.0, 2.0]),
            request=a_request(random, job_id, count) if random.random() < 0.8 else None,
            fails=random.random() < 0.2,
        )
        for job_id, time_s in enumerate(times_s, 1)
    ]


def site_events(random: Random, count: int) -> SiteEvents:
    """Return random failures and actions; each failure and each hold has an end."""
    at_s = random.choice([2.0, 6.5])
    changes = (
        NodeChange(at_s, (random.randrange(3),), random.choice(["fail", "drain"])),
        NodeChange(at_s + 4.0, (0, 1, 2), "repair"),
    )
    kinds: tuple[JobActionKind, ...] = ("cancel", "hold", "release", "requeue", "suspend", "resume")
    actions = tuple(
        JobAction(
            at_s=random.choice([1.0, 3.0, 8.0]),
            job_id=random.randint(1, count),
            kind=random.choice(kinds),
        )
        for _ in range(random.randint(0, 4))
    )
    return SiteEvents(changes, actions)


class Monkey:
    """A scheduler that makes random decisions, most of them valid."""

    def __init__(self, random: Random, simulation: Simulation) -> None:
        self.random = random
        self.simulation = simulation
        self.begin_s: dict[int, float] = {}

    def decide(self) -> list[Decision]:
        """Return decisions; an alarm lets time pass."""
        jobs, random, now_s = self.simulation.jobs, self.random, self.simulation.now_s
        decisions: list[Decision] = [SetAlarm(now_s + random.choice([0.5, 3.0]))]
        for job_id in jobs.waiting:
            nodes = random.sample(range(3), random.randint(1, 2))
            decisions.append(AllocateJob(job_id, nodes))
            if random.random() < 0.05:
                decisions.append(RejectJob(job_id))
        decisions += [ResumeJob(job_id) for job_id in jobs.suspended]
        for job_id, job in jobs.running.items():
            chance = random.random()
            if chance < 0.05:
                decisions.append(KillJob(job_id))
            elif chance < 0.15:
                decisions.append(SuspendJob(job_id))
            elif chance < 0.25 and job.spec.request is not None and job.spec.request.requeue:
                self.begin_s[job_id] = now_s + random.choice([0.0, 2.0])
                decisions.append(RequeueJob(job_id, self.begin_s[job_id]))
        return decisions


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_random_run_keeps_all_invariants_and_the_eligibility_of_the_reference(seed: int) -> None:
    """Resources balance after each batch, and jobs are eligible exactly as the reference says."""
    random = Random(seed)
    specs = a_workload(random)
    events = site_events(random, len(specs))
    simulation = Simulation(PLATFORM, table(*specs), Rules(validate=True), site_events=events)
    oracle, monkey = EligibilityOracle(specs), Monkey(random, simulation)
    batch = simulation.advance()
    for number in range(600):
        oracle.hear(batch.events)
        note(oracle, events, simulation, monkey)
        for job in simulation.jobs.waiting.values():
            job_id = job.spec.job_id
            expected = oracle.eligible(job_id, simulation.now_s)
            assert (not job.blocked) == expected, (job_id, job.blocked, simulation.now_s)
        if batch.ended:
            return
        # Rejections wake the scheduler at once: every other request lets time pass.
        pause = [SetAlarm(simulation.now_s + 1.0, 1)]
        batch = simulation.advance(pause if number % 2 else monkey.decide())
    raise AssertionError("the run does not end")


def note(
    oracle: EligibilityOracle, events: SiteEvents, simulation: Simulation, monkey: Monkey
) -> None:
    """Tell the reference about holds and the begin times of requeues."""
    for job_id, job in simulation.jobs.waiting.items():
        (oracle.held.add if job.blocked & 1 else oracle.held.discard)(job_id)
        requeues = [e for e in oracle.log if e.job_id == job_id and e.kind == "JobRequeued"]
        if requeues:
            by_decision = monkey.begin_s.get(job_id, -math.inf)
            oracle.begin_s[job_id] = (
                by_decision if by_decision >= requeues[-1].time_s else -math.inf
            )
