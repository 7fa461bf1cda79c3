"""Small runs with changes of power states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, get_args

import numpy as np
from hypothesis import strategies as st

from hpcosim_client import View
from hpcosim_protocol import (
    AllocateJob,
    Decision,
    Event,
    EventKind,
    JobSubmitted,
    KillJob,
    NodeGroup,
    Platform,
    PowerState,
    PowerStates,
    Processor,
    RejectJob,
    SetAlarm,
    SetNodePower,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from support import power_oracle as oracle
from support.random_scenes import Scene
from support.simulating import jobs_of

KINDS: tuple[EventKind, ...] = get_args(EventKind)


POWER: tuple[PowerState, ...] = get_args(PowerState)


SLOW = PowerStates(
    sleep_w=5.0, switch_on_s=20.0, switch_on_w=80.0, switch_off_s=10.0, switch_off_w=30.0
)


AT_ONCE = PowerStates(
    sleep_w=5.0, switch_on_s=0.0, switch_on_w=80.0, switch_off_s=0.0, switch_off_w=30.0
)


def nodes_of(count: int, states: PowerStates | None = SLOW, cores: int = 1) -> NodeGroup:
    """Return equal nodes: 50 W idle; 100 W plus 10 W per task computing."""
    return NodeGroup(count, (Processor(cores, 1.0, 100.0, 10.0, 0.5),), power_states=states)


def off(node: int) -> SetNodePower:
    """Return a decision to switch off a node."""
    return SetNodePower(node, "sleeping")


def on(node: int) -> SetNodePower:
    """Return a decision to switch on a node."""
    return SetNodePower(node, "on")


def drive(simulation: Simulation, *script: tuple[float, list[Decision]]) -> list[Event]:
    """Send lists of decisions at their times and return the events up to the last."""
    events = simulation.advance(wake_on=["simulation_began"]).events
    for time_s, decisions in script:
        elapsed_s = time_s - simulation.now_s
        events += simulation.advance(decisions, wake_on=KINDS, elapsed_s=elapsed_s).events
    return events


def finish(simulation: Simulation) -> list[Event]:
    """Advance to the end, rejecting waiting jobs, and return the events."""
    events: list[Event] = []
    decisions: list[Decision] = [RejectJob(job_id) for job_id in simulation.jobs.waiting]
    while True:
        batch = simulation.advance(decisions, wake_on=KINDS)
        if batch.ended:
            return events
        events += batch.events
        decisions = [
            RejectJob(event.job_id) for event in batch.events if isinstance(event, JobSubmitted)
        ]


def off_and_on() -> tuple[Simulation, list[Event]]:
    """Return a run in which node 1 is switched off at 0 s and on at 30 s; a job is on node 0."""
    simulation = Simulation(Platform((nodes_of(2),)), jobs_of((0.0, 100.0, 1)))
    events = drive(simulation, (0.0, [AllocateJob(1, [0]), off(1)]), (30.0, [on(1)]))
    return simulation, events + finish(simulation)


def woken() -> tuple[Simulation, list[Event]]:
    """Return a run in which job 2 is allocated nodes that sleep, are being switched on and are on.

    Nodes 0 and 1 are switched off at 0 s, node 1 on at 35 s. Job 1 runs on node 2 until 30 s. Job
    2 is submitted at 40 s, is allocated all three nodes and requests exactly its run time of 10 s.
    """
    simulation = Simulation(
        Platform((nodes_of(3),)),
        jobs_of((0.0, 30.0, 1), (40.0, 10.0, 3)),
        Rules(kill_at_walltime=True),
    )
    events = drive(
        simulation,
        (0.0, [AllocateJob(1, [2]), off(0), off(1)]),
        (35.0, [on(1)]),
        (40.0, [AllocateJob(2, [2, 1, 0])]),
    )
    return simulation, events + finish(simulation)


def killed_while_its_node_boots() -> tuple[Simulation, list[Event]]:
    """Return a run in which job 1 is allocated a sleeping node at 15 s and killed at 20 s."""
    simulation = Simulation(Platform((nodes_of(2),)), jobs_of((0.0, 5.0, 1), (0.0, 50.0, 1)))
    events = drive(
        simulation,
        (0.0, [off(0), AllocateJob(2, [1])]),
        (15.0, [AllocateJob(1, [0])]),
        (20.0, [KillJob(1), KillJob(1)]),
    )
    return simulation, events + finish(simulation)


TIMES_S = st.sampled_from([0.0, 0.5, 3.0, 7.25, 40.0])


@st.composite
def platforms(draw: st.DrawFn, *, vary: bool = False) -> Platform:
    """Return a heterogeneous platform; some groups have power states."""
    groups = []
    for _ in range(draw(st.integers(1, 3))):
        processors = [
            Processor(
                draw(st.integers(1, 3)),
                1.0,
                draw(st.sampled_from([0.0, 13.3, 100.0])),
                draw(st.sampled_from([0.0, 3.7])),
                draw(st.sampled_from([0.0, 0.3959, 1.0])),
            )
            for _ in range(draw(st.integers(1, 2)))
        ]
        states = PowerStates(
            sleep_w=draw(st.sampled_from([0.0, 9.1])),
            switch_on_s=draw(TIMES_S),
            switch_on_w=draw(st.sampled_from([0.0, 190.3])),
            switch_off_s=draw(TIMES_S),
            switch_off_w=draw(st.sampled_from([0.0, 8.7])),
            switch_on_sd_s=draw(TIMES_S) if vary else 0.0,
            switch_off_sd_s=draw(TIMES_S) if vary else 0.0,
        )
        always_on = draw(st.integers(0, 4)) == 0
        count = draw(st.integers(1, 3))
        groups.append(NodeGroup(count, tuple(processors), 0.0, None if always_on else states))
    return Platform(tuple(groups))


@st.composite
def scenes(draw: st.DrawFn, *, vary: bool = False) -> Scene:
    """Return a random scene whose times are multiples of 1/4 s, so that events coincide."""
    platform = draw(platforms(vary=vary))
    submits_s = sorted(draw(st.lists(st.integers(0, 60), min_size=1, max_size=10)))
    jobs = jobs_of(
        *(
            (submit_s, draw(st.integers(1, 80)) / 4, draw(st.integers(1, platform.core_count)))
            for submit_s in submits_s
        )
    )
    whole = draw(st.lists(st.booleans(), min_size=len(jobs), max_size=len(jobs)))
    jobs.placement[:] = [2 if one else 0 for one in whole]
    return Scene(
        platform,
        jobs,
        Rules(wake_on_allocation=draw(st.booleans())),
        draw(st.integers(0, 2**32)),
    )


class Monkey:
    """Makes random decisions, also invalid ones, but lets the run end."""

    def __init__(self, scene: Scene) -> None:
        self.random = Random(scene.seed)
        self.view = View(scene.platform, wake_on_allocation=scene.rules.wake_on_allocation)
        self.turns = 0

    def decide(self) -> list[Decision]:
        """Return what to do."""
        self.turns += 1
        view, random = self.view, self.random
        if self.turns > 60:
            return [RejectJob(job_id) for job_id in view.queue]
        decisions: list[Decision] = []
        for node in range(len(view.nodes.free) + 1):
            if random.random() < 0.25:
                likely = random.random() < 0.9
                state = random.choice(("on", "sleeping") if likely else POWER)
                decisions.append(SetNodePower(node, state))
        free = view.nodes.free.tolist()
        for job_id in view.queue:
            if random.random() < 0.6:
                nodes, tasks = self.lay(job_id, free)
                decisions.append(AllocateJob(job_id, nodes, tasks))
        chosen = [*view.running, *view.queue]
        decisions += [KillJob(job_id) for job_id in chosen if random.random() < 0.06]
        decisions += [RejectJob(job_id) for job_id in chosen if random.random() < 0.02]
        random.shuffle(decisions)
        if view.queue:
            decisions.append(SetAlarm(view.now_s + random.choice([0.25, 3.0, 12.0])))
        return decisions

    def lay(self, job_id: int, free: list[int]) -> tuple[list[int], list[int]]:
        """Return nodes and the number of tasks on each, mostly free ones."""
        job, capacity = self.view.queue[job_id], self.view.nodes.capacity.tolist()
        room = capacity if self.random.random() < 0.1 else list(free)
        if job.placement == "whole_nodes":
            room = [cores if cores == capacity[at] else 0 for at, cores in enumerate(room)]
        nodes = [node for node, cores in enumerate(room) if cores]
        self.random.shuffle(nodes)
        tasks: dict[int, int] = {}
        for node in nodes:
            if (left := job.cores - sum(tasks.values())) > 0:
                tasks[node] = min(left, room[node])
        if sum(tasks.values()) == job.cores:
            for node, cores in tasks.items():
                free[node] -= capacity[node] if job.placement == "whole_nodes" else cores
        return list(tasks), list(tasks.values())


class Played(NamedTuple):
    """A completed run with its events and decisions."""

    simulation: Simulation
    events: list[Event]
    messages: list[oracle.Message]


Look = Callable[[Simulation, View], None]


def play(scene: Scene, look: Look = lambda *_: None) -> Played:
    """Schedule a scene at random to its end; call `look` after each batch."""
    rng = np.random.default_rng(scene.seed)
    simulation = Simulation(scene.platform, scene.jobs, scene.rules, rng)
    monkey, random = Monkey(scene), Random(scene.seed + 1)
    events: list[Event] = []
    messages: list[oracle.Message] = []
    batch = simulation.advance(wake_on=["simulation_began"])
    while not batch.ended:
        events += batch.events
        monkey.view.apply(batch.now_s, batch.events)
        look(simulation, monkey.view)
        decisions = monkey.decide()
        elapsed_s = random.choice([0.0, 0.0, 0.25, 3.0])
        messages.append(oracle.Message(batch.now_s, elapsed_s, actions_of(decisions)))
        wakes: Sequence[list[EventKind] | None] = [None, [], ["job_completed"], list(KINDS)]
        batch = simulation.advance(
            decisions, wake_on=random.choice(wakes), elapsed_s=elapsed_s, seq=len(messages) - 1
        )
    return Played(simulation, events, messages)


def actions_of(decisions: Sequence[Decision]) -> list[oracle.Action]:
    """Return decisions as actions of the oracle, without alarms, which come last."""
    actions: list[oracle.Action] = []
    for decision in decisions:
        match decision:
            case SetNodePower(node, state):
                actions.append(oracle.Switch(node, state))
            case AllocateJob(job_id, nodes, cores):
                actions.append(oracle.Give(job_id, dict(zip(nodes, cores, strict=True))))
            case KillJob(job_id):
                actions.append(oracle.Kill(job_id))
            case RejectJob(job_id):
                actions.append(oracle.Reject(job_id))
    return actions
