"""Reference simulator of power states.

It shares no code with the server. Every core refers to its job, and the power of every node is
recomputed at every instant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hpcosim_protocol import NodeGroup, Platform

# Node states for time and energy.
KINDS = ("computing", "idle", "sleeping", "switching_on", "switching_off")

COMPLETION, POWER = 0, 1  # at one instant jobs end first


class Switch(NamedTuple):
    """Request to switch a node to a power state."""

    node: int
    state: str


class Give(NamedTuple):
    """Request to allocate nodes to a job, with the number of tasks on each."""

    job: int
    tasks: Mapping[int, int]


class Kill(NamedTuple):
    """Request to kill a job that has an allocation."""

    job: int


class Reject(NamedTuple):
    """Request to reject a job."""

    job: int


Action = Switch | Give | Kill | Reject


class Message(NamedTuple):
    """Requests of one message, in order.

    Attributes:
        heard_s: time of the last instant that the scheduler has seen, s.
        thought_s: delay until the requests are carried out, at most until all jobs are over, s.
        actions: the requests.
    """

    heard_s: float
    thought_s: float
    actions: Sequence[Action]


class OracleJob(NamedTuple):
    """A job with a fixed `run_s`; `whole`: it has its nodes exclusively."""

    submit_s: float
    cores: int
    run_s: float
    whole: bool = False


@dataclass
class Outcome:
    """Result of a run.

    Attributes:
        history: changes of each node's power state, as time and state; nodes start on.
        time_s: for each node, time by `KINDS`, s.
        energy_j: for each node, energy by `KINDS`, J.
        start_s, end_s: start and end of each job by job id, s; jobs without one are absent.
        refused: rejected actions, as index of the message and index in it.
        over_s: end of the last job, at which time stops, s; infinity while jobs remain.
    """

    history: list[list[tuple[float, str]]]
    time_s: list[dict[str, float]]
    energy_j: list[dict[str, float]]
    start_s: dict[int, float] = field(default_factory=dict)
    end_s: dict[int, float] = field(default_factory=dict)
    refused: set[tuple[int, int]] = field(default_factory=set)
    over_s: float = math.inf

    def all_energy_j(self) -> dict[str, float]:
        """Return the energy of all nodes by `KINDS`, J."""
        return {kind: math.fsum(node[kind] for node in self.energy_j) for kind in KINDS}


@dataclass
class _Node:
    group: NodeGroup
    cores: list[list[int | None]]  # for each processor, the job on each core
    state: str = "on"
    until_s: float = math.inf  # end of its transition
    number: int = 0  # order of that transition, for ties


@dataclass
class _Given:
    tasks: Mapping[int, int]
    held: dict[int, int]
    started: bool = False
    due_s: float = math.inf


def run(
    platform: Platform,
    jobs: Mapping[int, OracleJob],
    messages: Sequence[Message],
    *,
    wakes: bool,
    begin_s: float,
    until_s: float,
) -> Outcome:
    """Carry out messages in a simulation.

    Args:
        platform: description of the cluster, without random transition times.
        jobs: the jobs by job id.
        messages: the messages in order of time.
        wakes: whether allocations may contain nodes that sleep or are being switched on.
        begin_s: initial time, s.
        until_s: end of the simulation, s.
    """
    return _Run(platform, jobs, wakes, begin_s).through(messages, until_s)


class _Run:
    def __init__(
        self, platform: Platform, jobs: Mapping[int, OracleJob], wakes: bool, begin_s: float
    ) -> None:
        self.nodes = [
            _Node(group, [[None] * processor.cores for processor in group.processors])
            for group in platform.nodes
            for _ in range(group.count)
        ]
        self.jobs = jobs
        self.wakes = wakes
        self.now_s = begin_s
        self.given: dict[int, _Given] = {}
        self.gone: set[int] = set()
        self.transitions = 0
        self.outcome = Outcome(
            [[] for _ in self.nodes],
            [dict.fromkeys(KINDS, 0.0) for _ in self.nodes],
            [dict.fromkeys(KINDS, 0.0) for _ in self.nodes],
        )

    def through(self, messages: Sequence[Message], until_s: float) -> Outcome:
        for number, message in enumerate(messages):
            self.pass_to(message.heard_s)
            if message.thought_s > 0.0:
                self.pass_to(message.heard_s + message.thought_s, at_once=True)
            for place, action in enumerate(message.actions):
                if not self.carry_out(action):
                    self.outcome.refused.add((number, place))
        self.pass_to(until_s)
        return self.outcome

    # Time

    def pass_to(self, time_s: float, *, at_once: bool = False) -> None:
        """Advance time; stop when all jobs are over, after that instant or immediately."""
        while (due := self.next())[0] <= time_s:
            if self.is_over() and (at_once or due[0] > self.now_s):
                return
            self.count_up_to(due[0])
            if due[1] == COMPLETION:
                self.end(due[2])
            else:
                node = self.nodes[due[3]]
                self.enter(due[3], "on" if node.state == "switching_on" else "sleeping")
                self.start_those_whose_nodes_are_on()
        if not self.is_over():
            self.count_up_to(time_s)

    def next(self) -> tuple[float, int, int, int]:
        """Return the next event: time, rank, order among equals, and node."""
        due = [(given.due_s, COMPLETION, job, 0) for job, given in self.given.items()]
        due += [(node.until_s, POWER, node.number, at) for at, node in enumerate(self.nodes)]
        return min(due)

    def is_over(self) -> bool:
        return len(self.gone) == len(self.jobs)

    def count_up_to(self, time_s: float) -> None:
        passed_s = time_s - self.now_s
        if passed_s > 0.0:
            for number, node in enumerate(self.nodes):
                kind = self.kind(node)
                self.outcome.time_s[number][kind] += passed_s
                self.outcome.energy_j[number][kind] += passed_s * self.power_w(node)
            self.now_s = time_s

    def kind(self, node: _Node) -> str:
        if node.state != "on":
            return node.state
        busy = any(job is not None for cores in node.cores for job in cores)
        return "computing" if busy else "idle"

    def power_w(self, node: _Node) -> float:
        states = node.group.power_states
        if node.state != "on":
            assert states is not None
            return {
                "sleeping": states.sleep_w,
                "switching_on": states.switch_on_w,
                "switching_off": states.switch_off_w,
            }[node.state]
        power_w = 0.0
        for processor, cores in zip(node.group.processors, node.cores, strict=True):
            tasks = sum(job is not None for job in cores)
            if tasks:
                power_w += processor.static_w + tasks * processor.dynamic_w
            else:
                power_w += processor.static_w * processor.idle_fraction
        return power_w

    # Requests

    def carry_out(self, action: Action) -> bool:
        if isinstance(action, Switch):
            return self.switch(action)
        if isinstance(action, Give):
            return self.give(action)
        if isinstance(action, Kill):
            if action.job not in self.given:
                return False
            self.end(action.job)
            return True
        if not self.waits(action.job):
            return False
        self.over(action.job)
        return True

    def switch(self, action: Switch) -> bool:
        if not 0 <= action.node < len(self.nodes):
            return False
        node = self.nodes[action.node]
        if node.group.power_states is None or self.held(action.node):
            return False
        if (node.state, action.state) == ("on", "sleeping"):
            self.enter(action.node, "switching_off")
            return True
        if (node.state, action.state) == ("sleeping", "on"):
            self.enter(action.node, "switching_on")
            return True
        return False

    def give(self, action: Give) -> bool:
        if not self.waits(action.job) or not action.tasks:
            return False
        job = self.jobs[action.job]
        if sum(action.tasks.values()) != job.cores:
            return False
        held = {}
        for number, tasks in action.tasks.items():
            if not 0 <= number < len(self.nodes) or tasks < 1:
                return False
            node = self.nodes[number]
            if node.state == "switching_off" or (node.state != "on" and not self.wakes):
                return False
            held[number] = self.size(number) if job.whole else tasks
            if self.held(number) + held[number] > self.size(number):
                return False
        self.given[action.job] = _Given(action.tasks, held)
        for number in action.tasks:
            if self.nodes[number].state == "sleeping":
                self.enter(number, "switching_on")
        self.start_those_whose_nodes_are_on()
        return True

    def waits(self, job: int) -> bool:
        there = job in self.jobs and self.jobs[job].submit_s <= self.now_s
        return there and job not in self.given and job not in self.gone

    def size(self, node: int) -> int:
        return sum(map(len, self.nodes[node].cores))

    def held(self, node: int) -> int:
        return sum(given.held.get(node, 0) for given in self.given.values())

    # Events

    def enter(self, number: int, state: str) -> None:
        node = self.nodes[number]
        states = node.group.power_states
        assert states is not None
        lasts_s = {"switching_on": states.switch_on_s, "switching_off": states.switch_off_s}
        node.state = state
        node.until_s = self.now_s + lasts_s.get(state, math.inf)
        node.number = self.transitions = self.transitions + 1
        self.outcome.history[number].append((self.now_s, state))

    def start_those_whose_nodes_are_on(self) -> None:
        for job, given in self.given.items():
            if not given.started and all(self.nodes[node].state == "on" for node in given.tasks):
                given.started = True
                given.due_s = self.now_s + self.jobs[job].run_s
                self.outcome.start_s[job] = self.now_s
                for node, tasks in given.tasks.items():
                    self.lay(job, node, tasks)

    def lay(self, job: int, node: int, tasks: int) -> None:
        for cores in self.nodes[node].cores:
            for core, other in enumerate(cores):
                if other is None and tasks:
                    cores[core] = job
                    tasks -= 1
        assert tasks == 0, "more tasks than cores"

    def end(self, job: int) -> None:
        del self.given[job]
        for node in self.nodes:
            for cores in node.cores:
                cores[:] = [None if other == job else other for other in cores]
        self.over(job)

    def over(self, job: int) -> None:
        self.gone.add(job)
        self.outcome.end_s[job] = self.now_s
        if self.is_over():
            self.outcome.over_s = self.now_s
