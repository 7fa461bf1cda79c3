"""Reference implementation of power-aware EASY with the timeout power manager, in whole seconds.

It follows the docstrings of `heuristics/power_aware`, `heuristics/easy_aware` and `power/timeout`,
and sections 4.2 and 5.7 of the protocol. Nodes have one core, times are integers, and nothing is
random. The calendar has one bit for each node and second.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

Row = tuple[int, int, int, int]  # submit_s, run_s, nodes, requested_s
Switching = tuple[int, int, str]  # time, node, entered state


@dataclass(eq=False)
class Job:
    """A job; `ready_s` is the expected time at which its allocated nodes are on."""

    submit_s: int
    run_s: int
    need: int
    requested_s: int
    nodes: list[Node] = field(default_factory=list)
    ready_s: int = -1
    start_s: int = -1
    over: bool = False


@dataclass(eq=False)
class Node:
    """A node; `left_s` is the end of its transitional state."""

    number: int
    on_takes_s: int
    off_takes_s: int
    state: str = "on"
    left_s: int = -1
    job: Job | None = None
    idle_s: int = -1

    def expected_on_s(self, now_s: int) -> int:
        """Return the time at which it is on if it is switched on from now on."""
        if self.state == "on":
            return now_s
        if self.state == "switching_on":
            return max(self.left_s, now_s)
        asleep_s = self.left_s if self.state == "switching_off" else now_s
        return max(asleep_s, now_s) + self.on_takes_s

    def asleep_soon(self) -> bool:
        """Return whether it stays off until it is switched on."""
        return self.state in ("switching_off", "sleeping")


def bits(first: int, count: int) -> int:
    """Return a mask of `count` ones from bit `first`."""
    return ((1 << count) - 1) << first


@dataclass
class Reservation:
    """Nodes reserved from `start_s`; the job runs from `runs_s`, after booting nodes are on."""

    start_s: int
    runs_s: int
    nodes: list[Node]

    def rank(self) -> tuple[int, int]:
        """Return start time and boot time; the lowest rank is the best."""
        return self.runs_s, self.runs_s - self.start_s


class Calendar(list[int]):
    """For each node, a bit for every second from now on: 1 if the node is free.

    Attributes:
        now_s: time of the lowest bit, s.
        changes_s: times at which a reservation begins or ends, s.
    """

    def __init__(self, now_s: int) -> None:
        super().__init__()
        self.now_s = now_s
        self.changes_s = {now_s}

    def has(self, node: Node, start_s: int, seconds: int) -> bool:
        """Return whether a node is free for a duration."""
        wanted = bits(start_s - self.now_s, seconds)
        return self[node.number] & wanted == wanted

    def before(self, node: Node, start_s: int) -> int:
        """Return the number of preceding changes at which a node is free."""
        return sum(
            self[node.number] >> (at_s - self.now_s) & 1
            for at_s in self.changes_s
            if at_s < start_s
        )

    def fill(self, reservation: Reservation, job: Job) -> None:
        """Mark the nodes of a reservation as occupied."""
        start_s, end_s = reservation.start_s, reservation.runs_s + job.requested_s
        self.changes_s |= {start_s, end_s}
        for node in reservation.nodes:
            self[node.number] &= ~bits(start_s - self.now_s, end_s - start_s)


class Oracle:
    """One simulation.

    Args:
        nodes: durations of switching each node on and off, s.
        rows: the jobs, in order of submission.
        awareness: power awareness of the scheduler.
        timeout_s: timeout of the power manager, s.
        looks_s: times of additional calls of the scheduler, s.
    """

    def __init__(
        self,
        nodes: list[tuple[int, int]],
        rows: list[Row],
        awareness: Literal["aware", "planned"],
        timeout_s: int,
        looks_s: Collection[float] = (),
    ) -> None:
        self.nodes = [Node(number, *times) for number, times in enumerate(nodes)]
        self.jobs = [Job(*row) for row in rows]
        self.awareness = awareness
        self.timeout_s = timeout_s
        self.looks_s = frozenset(looks_s)
        self.now_s = rows[0][0]
        self.queue: list[Job] = []
        self.running: list[Job] = []
        self.switchings: list[Switching] = []
        self.wake_s, self.due_s = math.inf, math.inf  # the two alarms
        self.kept_on: set[int] = set()
        longest_s = sum(job.requested_s for job in self.jobs) + sum(sum(times) for times in nodes)
        self.latest_s = rows[-1][0] + sum(job.run_s for job in self.jobs) + 100 * len(rows)
        self.horizon_s = longest_s + max(job.requested_s for job in self.jobs) + 1

    def run(self) -> tuple[list[int], list[Switching]]:
        """Return the start times of the jobs and the changes of power states."""
        while not all(job.over for job in self.jobs):
            if self._time_brings_something():
                while self._decide() and not all(job.over for job in self.jobs):
                    pass  # a switched node is an event at this instant
            self.now_s += 1
            assert self.now_s < self.latest_s, "the reference is stuck"
        return [job.start_s for job in self.jobs], sorted(self.switchings)

    def _time_brings_something(self) -> bool:
        now_s, happened = self.now_s, False
        for job in [job for job in self.running if 0 <= job.start_s == now_s - job.run_s]:
            self.running.remove(job)
            job.over = happened = True
            for node in job.nodes:
                node.job = None
        for node in self.nodes:
            if node.left_s == now_s and node.state in ("switching_on", "switching_off"):
                self._enter(node, "on" if node.state == "switching_on" else "sleeping")
                happened = True
        self._start_the_ready()
        new = [job for job in self.jobs if job.submit_s == now_s]
        self.queue += new
        if now_s in (self.wake_s, self.due_s):
            happened = True
            self.wake_s = math.inf if self.wake_s == now_s else self.wake_s
            self.due_s = math.inf if self.due_s == now_s else self.due_s
        return happened or bool(new) or now_s in self.looks_s

    def _enter(self, node: Node, state: str) -> None:
        node.state = state
        node.left_s = self.now_s + {
            "switching_on": node.on_takes_s,
            "switching_off": node.off_takes_s,
        }.get(state, 0)
        self.switchings.append((self.now_s, node.number, state))

    def _start_the_ready(self) -> None:
        for job in self.running:
            if job.start_s < 0 and all(node.state == "on" for node in job.nodes):
                job.start_s = self.now_s

    # The job scheduler

    def _decide(self) -> bool:
        """Decide and return whether a node was switched."""
        before = len(self.switchings)
        reservations = self._go_through()
        self.kept_on = {
            node.number
            for reservation in reservations
            for node in reservation.nodes
            if reservation.start_s < self.now_s + node.off_takes_s + node.on_takes_s
        }
        if self.awareness == "planned":
            self._wake_ahead(reservations)
        if not all(job.over for job in self.jobs):
            self._switch_off(self.timeout_s)
        return len(self.switchings) > before

    def _go_through(self) -> list[Reservation]:
        """Start the jobs that fit and return the reservations of the others."""
        free, reservations = self._calendar(), list[Reservation]()
        soon_s = self.now_s + max(node.on_takes_s for node in self.nodes)
        find = self._earliest_given if self.awareness == "aware" else self._earliest_on
        for job in list(self.queue):
            best = find(free, job, soon_s if reservations else None, self.nodes)
            idle = [node for node in self.nodes if node.job is None]
            now = find(free, job, self.now_s, idle)
            if best is not None and now is not None and now.rank() <= best.rank():
                self._give(job, now.nodes)
                free.fill(now, job)
            elif best is not None and (not reservations or self.awareness == "planned"):
                free.fill(best, job)
                reservations.append(best)
        return reservations

    def _calendar(self) -> Calendar:
        """Return when nodes are expected to be available (aware) or on (planned)."""
        calendar = Calendar(self.now_s)
        for node in self.nodes:
            if node.job is not None:
                begun_s = node.job.start_s if node.job.start_s >= 0 else node.job.ready_s
                from_s = max(begun_s + node.job.requested_s, self.now_s)
            elif self.awareness == "planned":
                from_s = node.expected_on_s(self.now_s)
            else:
                from_s = node.left_s if node.state == "switching_off" else self.now_s
            calendar.append(bits(from_s - self.now_s, self.horizon_s))
            calendar.changes_s.add(from_s)
        return calendar

    def _earliest_on(
        self, free: Calendar, job: Job, until_s: int | None, among: list[Node]
    ) -> Reservation | None:
        """Return the earliest start, preferring nodes that are on."""
        start_s = self.now_s
        while until_s is None or start_s <= until_s:
            room = [node for node in among if free.has(node, start_s, job.requested_s)]
            if len(room) >= job.need:
                room.sort(key=lambda node: (node.asleep_soon(), free.before(node, start_s)))
                return Reservation(start_s, start_s, room[: job.need])
            start_s += 1
        return None

    def _earliest_given(
        self, free: Calendar, job: Job, until_s: int | None, among: list[Node]
    ) -> Reservation | None:
        """Return the allocation with the earliest start, then the shortest boot time."""
        best: Reservation | None = None
        start_s = self.now_s
        while (until_s is None or start_s <= until_s) and (best is None or start_s <= best.runs_s):
            boot_s = {node.number: node.expected_on_s(start_s) - start_s for node in among}
            for most_s in sorted(set(boot_s.values())):
                room = [
                    node
                    for node in among
                    if boot_s[node.number] <= most_s
                    and free.has(node, start_s, most_s + job.requested_s)
                ]
                if len(room) < job.need:
                    continue
                room.sort(key=lambda node: (boot_s[node.number], free.before(node, start_s)))
                nodes = room[: job.need]
                runs_s = start_s + max(boot_s[node.number] for node in nodes)
                found = Reservation(start_s, runs_s, nodes)
                if best is None or found.rank() < best.rank():
                    best = found
            start_s += 1
        return best

    def _give(self, job: Job, nodes: list[Node]) -> None:
        self.queue.remove(job)
        self.running.append(job)
        job.nodes = nodes
        job.ready_s = max(node.expected_on_s(self.now_s) for node in nodes)
        for node in nodes:
            node.job = job
            if node.state == "sleeping":
                self._enter(node, "switching_on")
        self._start_the_ready()

    def _wake_ahead(self, reservations: list[Reservation]) -> None:
        next_s = math.inf
        for reservation in reservations:
            for node in reservation.nodes:
                if node.state != "sleeping":
                    continue
                wake_s = reservation.start_s - node.on_takes_s
                if wake_s <= self.now_s:
                    self._enter(node, "switching_on")
                else:
                    next_s = min(next_s, wake_s)
        self.wake_s = next_s

    # The power manager

    def _switch_off(self, timeout_s: int) -> None:
        self.due_s = math.inf
        for node in self.nodes:
            if node.state != "on" or node.job is not None:
                node.idle_s = -1
                continue
            if node.idle_s < 0:
                node.idle_s = self.now_s
            due_s = node.idle_s + timeout_s
            if due_s > self.now_s:
                self.due_s = min(self.due_s, due_s)
            elif node.number not in self.kept_on:
                self._enter(node, "switching_off")
                node.idle_s = -1
