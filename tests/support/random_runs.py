"""Random runs with suspensions, requeues, checkpoints and failures, and a slow reference."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple, get_args

import numpy as np
from hypothesis import strategies as st

from hpcosim_protocol import (
    AllocateJob,
    Checkpointing,
    Decision,
    Event,
    KillJob,
    NodeGroup,
    Platform,
    PowerStates,
    Processor,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SetNodePower,
    SuspendJob,
)
from hpcosim_sim.engine.engine import Rules
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import (
    Distribution,
    FailureModel,
    NodeChange,
    NodeChangeKind,
    SiteEvents,
)
from hpcosim_workloads.table import JobTable
from support.contention_scenes import FOUR_CORES
from support.site_scenes import job, table

CHANGES: tuple[NodeChangeKind, ...] = get_args(NodeChangeKind)
TIMES_S = (0.5, 1.0, 3.0, 7.0, 20.0)


class RunScene(NamedTuple):
    """All inputs of a run."""

    platform: Platform
    jobs: JobTable
    rules: Rules
    events: SiteEvents
    seed: int


@st.composite
def run_scenes(draw: st.DrawFn, *, contended: bool = False) -> RunScene:
    """Return a cluster whose nodes fail, with jobs of which some write checkpoints."""
    contention = FOUR_CORES if contended else None
    processor = Processor(draw(st.integers(1, 3)), 1.0, 30.0, 4.0, 0.5, contention=contention)
    processors = (processor,) * draw(st.integers(1, 2))
    states = PowerStates(1.0, 2.0, 50.0, 3.0, 40.0) if draw(st.booleans()) else None
    nodes = draw(st.integers(1, 3))
    platform = Platform((NodeGroup(nodes, processors, power_states=states),))
    times_s = st.sampled_from(TIMES_S)
    jobs = []
    for job_id in range(1, draw(st.integers(1, 4)) + 1):
        checkpointing = Checkpointing(
            draw(st.sampled_from([0.0, 0.25])), draw(times_s), draw(st.sampled_from([0.0, 0.5]))
        )
        run_s = draw(times_s)
        spec: dict[str, Any] = {"ops": run_s * 1e9, "memory_volume_mb": 9e4} if contended else {}
        jobs.append(
            job(
                job_id,
                draw(times_s),
                run_s,
                draw(st.integers(1, platform.core_count)),
                requested_s=draw(st.sampled_from([run_s, 2 * run_s, 100.0])),
                spec=spec,
                requeue=draw(st.booleans()),
                checkpointing=checkpointing if draw(st.booleans()) else None,
            )
        )
    changes = [
        NodeChange(draw(times_s), (draw(st.integers(0, nodes - 1)),), kind)
        for kind in draw(st.lists(st.sampled_from(CHANGES), max_size=3))
    ]
    changes.append(NodeChange(60.0, tuple(range(nodes)), "repair"))  # drained nodes
    model = FailureModel(
        tuple(range(nodes)), Distribution("weibull", 15.0, 0.7), Distribution("lognormal", 2.0, 0.5)
    )
    jobs.sort(key=lambda each: each.submit_s)
    rules = Rules(kill_at_walltime=draw(st.booleans()), validate=True)
    return RunScene(
        platform,
        table(*jobs),
        rules,
        SiteEvents(tuple(changes), (), (model,)),
        draw(st.integers(0, 10**6)),
    )


def play_runs(scene: RunScene) -> tuple[Simulation, list[Event]]:
    """Schedule a scene at random to its end, with all invariants checked after each batch."""
    simulation = Simulation(
        scene.platform,
        scene.jobs,
        scene.rules,
        site_events=scene.events,
        failure_rng=np.random.default_rng(scene.seed),
    )
    random, events = Random(scene.seed), []
    batch = simulation.advance()
    while not batch.ended:
        events += batch.events
        calm = simulation.now_s > 300.0  # then every job may end
        batch = simulation.advance(_decisions(simulation, random, calm), elapsed_s=0.1)
    return simulation, events


def _decisions(simulation: Simulation, random: Random, calm: bool) -> list[Decision]:
    """Return random decisions, of which some are rejected."""
    jobs = simulation.jobs
    wild = 0.0 if calm else 0.2
    decisions: list[Decision] = [
        ResumeJob(job_id) for job_id in jobs.suspended if calm or random.random() < 0.5
    ]
    for job_id in (*jobs.running, *jobs.allocated):
        grace_s = random.choice([0.0, 0.0, 0.3, 5.0])
        if random.random() < wild:
            choices: list[Decision] = [
                SuspendJob(job_id),
                RequeueJob(job_id, random.choice([None, simulation.now_s + 2.0]), grace_s),
                KillJob(job_id, grace_s, random.choice(["killed", "preempted"])),
            ]
            decisions.append(random.choice(choices))
    if random.random() < wild:
        node = random.randrange(simulation.cluster.platform.node_count)
        decisions.append(SetNodePower(node, random.choice(["on", "sleeping"])))
    free = list(simulation.cluster.free)
    for waiting in jobs.waiting.values():
        nodes = [
            node
            for node, state in enumerate(simulation.power.state)
            if state != "switching_off" and simulation.availability.has(node)
        ]
        random.shuffle(nodes)
        taken = _taken(nodes, free, waiting.spec.cores)
        if taken and not waiting.blocked:
            decisions.append(AllocateJob(waiting.spec.job_id, list(taken), list(taken.values())))
            for node, cores in taken.items():
                free[node] -= cores
    decisions.append(SetAlarm(simulation.now_s + random.choice([0.3, 1.0, 4.0])))
    return decisions


def _taken(nodes: Sequence[int], free: Sequence[int], cores: int) -> dict[int, int]:
    taken = {}
    for node in nodes:
        if cores and free[node]:
            taken[node] = min(cores, free[node])
            cores -= taken[node]
    return {} if cores else taken


def needed_s(work_s: float, checkpointing: Checkpointing | None, ran_s: Sequence[float]) -> float:
    """Return the time that the last run of a job needs, s, step by step.

    Args:
        work_s: computing time of the whole job, s.
        checkpointing: checkpoints of the job; None: none.
        ran_s: run times of the runs before, s.
    """
    if checkpointing is None:
        return work_s
    saved_s, interval_s = 0.0, checkpointing.interval_s or np.inf
    for run_s in (*ran_s, np.inf):
        clock_s = checkpointing.restart_s if saved_s else 0.0
        done_s = saved_s
        while work_s - done_s > interval_s * (1 + 1e-9):
            clock_s += interval_s + checkpointing.cost_s
            if clock_s > run_s * (1 + 1e-9):
                break
            done_s += interval_s
            saved_s = done_s
        else:
            if run_s == np.inf:
                return clock_s + work_s - done_s
    return np.inf
