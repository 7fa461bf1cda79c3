"""Reference implementation of the choices and features of a pairing agent, in plain Python.

Written from the tables of `paper_features` and `forecast_features` and the docstrings beside them.
The state contains past events only. Each forecast of a node is recomputed from its first job.
Speeds change at every start and end, by section 5.4 of the specification as in
`contention_oracle`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_protocol import Contention, NodeGroup, Platform
from support.contention_oracle import speed_of

WEIGHTS = (0.0, 0.02, 0.05, 0.2)
LATE = 0.01
COLUMNS = 45
INSTANT = 1e-9  # relative tolerance of equal times
NOTHING_J = 1e-8  # absolute tolerance of equal costs


class Kind(NamedTuple):
    """The attributes that define the kind of a job."""

    cores: int
    requested_s: float
    volume_mb: float
    most_j: float


class Choice(NamedTuple):
    """A pair or the wait action.

    Attributes:
        action: action number.
        row: features.
        as_well: alternative values of columns, because two options have equal costs.
    """

    action: int
    row: list[float]
    as_well: Mapping[int, list[float]]


class Machine(NamedTuple):
    """Properties of a node from the platform."""

    group: int
    cores: int
    ops_per_s: float
    static_w: float
    idle_w: float
    core_w: float
    contention: Contention | None


class Happening(NamedTuple):
    """A job started or ended on a node, or the forecast was updated (no job)."""

    time_s: float
    what: Literal["came", "left", "heard"]
    job_id: int = -1
    kind: Kind = Kind(0, 0.0, 0.0, 0.0)


@dataclass
class Guest:
    """A job on a node in a forecast.

    Attributes:
        job_id, kind: id and kind of the job.
        start_s: start time, s.
        alone_s: run time without contention, s.
        mbps: memory bandwidth demand of each task, MB/s.
        left_s: remaining work, in seconds at full speed.
        end_s: expected end, s; infinity: not computed yet.
    """

    job_id: int
    kind: Kind
    start_s: float
    alone_s: float
    mbps: float
    left_s: float
    end_s: float = math.inf

    @property
    def requested_mbps(self) -> float:
        """Memory bandwidth demand of all its tasks, MB/s."""
        return self.kind.cores * self.mbps


class Option(NamedTuple):
    """A job on a node at the earliest possible start."""

    start_s: float
    end_s: float
    extra_j: float
    delay_s: float
    alone_s: float


def kind_of(job: Job) -> Kind:
    """Return the kind of a job."""
    return Kind(job.cores, job.requested_s, job.memory_volume_mb, job.max_energy_j)


def share(value: float, scale: float) -> float:
    """Return value / (value + scale)."""
    return max(value, 0.0) / (max(value, 0.0) + scale)


def over(part_j: float, whole_j: float) -> float:
    """Return part / whole; 1 if the whole is 0."""
    return 1.0 if whole_j < NOTHING_J else part_j / whole_j


def of_the_most(value: float, values: Iterable[float]) -> float:
    """Return value / maximum; 0 if the maximum is 0."""
    most = max(values)
    return value / most if most else 0.0


def machine_of(number: int, group: NodeGroup) -> Machine:
    """Return the properties of a node of a group."""
    parts = group.processors
    return Machine(
        group=number,
        cores=sum(part.cores for part in parts),
        ops_per_s=min(part.clock_ghz * part.flops_per_cycle * 1e9 for part in parts),
        static_w=sum(part.static_w for part in parts),
        idle_w=sum(part.static_w * part.idle_fraction for part in parts),
        core_w=max(part.dynamic_w for part in parts),
        contention=parts[0].contention if len(parts) == 1 else None,
    )


class Site:
    """A node with its past events and forecasts.

    Args:
        machine: properties of the node.
        slowest_ops_per_s: core speed for which requested times hold, operations/s.
    """

    def __init__(self, machine: Machine, slowest_ops_per_s: float) -> None:
        self.machine = machine
        self.slowness = slowest_ops_per_s / machine.ops_per_s
        self.happened: list[Happening] = []

    def guests(self, now_s: float) -> list[Guest]:
        """Return its jobs with their remaining work now."""
        guests: list[Guest] = []
        past_s = 0.0
        for event in self.happened:
            let_run(self.machine, guests, past_s, event.time_s)
            past_s = event.time_s
            if event.what == "came":
                guests.append(self.guest(event.job_id, event.kind, past_s))
            elif event.what == "left":
                guests = [guest for guest in guests if guest.job_id != event.job_id]
            else:
                be_late(guests, past_s)
        let_run(self.machine, guests, past_s, now_s)
        return guests

    def to_the_end(self, now_s: float) -> list[Guest]:
        """Return its jobs with their expected ends."""
        guests = self.guests(now_s)
        let_run(self.machine, guests, now_s, math.inf)
        return guests

    def guest(self, job_id: int, kind: Kind, start_s: float) -> Guest:
        """Return a job that starts on this node."""
        alone_s = kind.requested_s * self.slowness
        return Guest(job_id, kind, start_s, alone_s, kind.volume_mb / alone_s, alone_s)

    def option(self, now_s: float, kind: Kind) -> Option | None:
        """Return the option of a job of this kind; None if it is too large."""
        if kind.cores > self.machine.cores:
            return None
        without = self.to_the_end(now_s)
        start_s = self.room_s(now_s, without, kind.cores)
        guests = self.guests(now_s)
        let_run(self.machine, guests, now_s, start_s)
        new = self.guest(-1, kind, start_s)
        let_run(self.machine, [*guests, new], start_s, math.inf)
        extra_j = self.spent_j([*guests, new], now_s) - self.spent_j(without, now_s)
        delays_s = [late.end_s - early.end_s for late, early in zip(guests, without, strict=True)]
        return Option(start_s, new.end_s, extra_j, sum(delays_s), new.alone_s)

    def room_s(self, now_s: float, guests: Sequence[Guest], cores: int) -> float:
        """Return the time at which a number of cores is expected to be free, s."""
        free = self.machine.cores - sum(guest.kind.cores for guest in guests)
        room_s = now_s
        for guest in sorted(guests, key=lambda guest: guest.end_s):
            if free >= cores:
                break
            free += guest.kind.cores
            room_s = max(guest.end_s, now_s)
        return room_s

    def spent_j(self, guests: Iterable[Guest], now_s: float) -> float:
        """Return its energy from now on beyond its idle energy, J."""
        machine, computing_s, core_s, busy_until_s = self.machine, 0.0, 0.0, now_s
        for guest in sorted(guests, key=lambda guest: guest.start_s):
            start_s = max(guest.start_s, now_s)
            core_s += guest.kind.cores * max(guest.end_s - start_s, 0.0)
            computing_s += max(guest.end_s - max(start_s, busy_until_s), 0.0)
            busy_until_s = max(busy_until_s, guest.end_s)
        return (machine.static_w - machine.idle_w) * computing_s + machine.core_w * core_s

    def like(self, other: Site, now_s: float) -> bool:
        """Return whether it equals another node in properties, jobs and expected ends."""
        ours, theirs = (
            sorted((guest.kind, guest.end_s) for guest in site.to_the_end(now_s))
            for site in (self, other)
        )
        return (
            self.machine.group == other.machine.group
            and len(ours) == len(theirs)
            and all(
                kind == like and math.isclose(end_s, like_s, rel_tol=INSTANT)
                for (kind, end_s), (like, like_s) in zip(ours, theirs, strict=True)
            )
        )


def be_late(guests: Iterable[Guest], now_s: float) -> None:
    """Extend the forecast of jobs that are past their expected end."""
    for guest in guests:
        if guest.end_s < now_s * (1 - INSTANT):
            guest.left_s, guest.end_s = LATE * guest.alone_s, math.inf


def let_run(machine: Machine, guests: Iterable[Guest], from_s: float, until_s: float) -> None:
    """Advance the jobs with contention until a time or their ends."""
    now_s = from_s
    while going := [guest for guest in guests if guest.end_s == math.inf]:
        rates = [speed(machine, going, guest) for guest in going]
        ends_s = [now_s + guest.left_s / rate for guest, rate in zip(going, rates, strict=True)]
        next_s = min(*ends_s, until_s)
        for guest, rate, end_s in zip(going, rates, ends_s, strict=True):
            guest.left_s -= rate * (next_s - now_s)
            if min(ends_s) <= until_s and end_s <= next_s * (1 + INSTANT):
                guest.left_s, guest.end_s = 0.0, next_s
        if next_s == until_s:
            return
        now_s = next_s


def speed(machine: Machine, going: Iterable[Guest], guest: Guest) -> float:
    """Return the speed of each task of a job beside the other jobs."""
    if machine.contention is None:
        return 1.0
    total_mbps = sum(each.requested_mbps for each in going)
    others = sum(each.kind.cores for each in going) - 1
    return speed_of(machine.contention, total_mbps, guest.mbps, others)


class Oracle:
    """One simulation as an agent sees it.

    Args:
        settings: settings of the agent.
        platform: description of the cluster.

    Attributes:
        committed_j: expected energy of the placed jobs beyond that of the idle cluster, J.
        wakes_s: time of the next wake-up by an alarm, s; infinity: none.
        woken: whether the current call is for that alarm.
    """

    def __init__(self, settings: Pairing, platform: Platform) -> None:
        self.settings = settings
        machines = [
            machine_of(number, group)
            for number, group in enumerate(platform.nodes)
            for _ in range(group.count)
        ]
        slowest = min(machine.ops_per_s for machine in machines)
        self.sites = [Site(machine, slowest) for machine in machines]
        self.machines = machines
        self.placed: dict[int, int] = {}  # running jobs with their nodes
        self.began_s: float | None = None
        self.first_s: float | None = None
        self.over = False
        self.waits_since_s: float | None = None
        self.committed_j = 0.0
        self.wakes_s = math.inf
        self.woken = False

    # Rounds

    def begin(self, view: View) -> None:
        """Apply an event."""
        now_s, self.over = view.now_s, False
        self.began_s = now_s if self.began_s is None else self.began_s
        if view.arrived and self.first_s is None:
            self.first_s = now_s
        for job_id in [job_id for job_id in self.placed if job_id not in view.running]:
            self.sites[self.placed.pop(job_id)].happened.append(Happening(now_s, "left", job_id))
        for site in self.sites:
            site.happened.append(Happening(now_s, "heard"))
        self.woken = self.wakes_s == now_s
        if self.woken:
            self.wakes_s = math.inf

    def took(self, view: View, job: Job | None, node: int = 0) -> None:
        """Apply a chosen action before it is carried out: a job and a node, or wait."""
        settings, now_s = self.settings, view.now_s
        if job is None:
            self.over = True
            self.waits_since_s = now_s if self.waits_since_s is None else self.waits_since_s
            bound_s = self.waits_since_s + settings.most_wait_s
            again_s = math.inf if settings.wait_s is None else now_s + settings.wait_s
            self.wakes_s = min(bound_s, again_s)
            return
        self.over = settings.placements_per_event == "one"
        self.waits_since_s, self.wakes_s = None, math.inf
        option = self.sites[node].option(now_s, kind_of(job))
        assert option is not None
        self.committed_j += option.extra_j
        self.placed[job.job_id] = node
        self.sites[node].happened.append(Happening(now_s, "came", job.job_id, kind_of(job)))

    def choices(self, view: View) -> list[Choice]:
        """Return the choices by action number."""
        if self.over or not view.queue:
            return []
        foreseen = self.settings.sees == "foreseen"
        chosen = self.foreseen_pairs(view) if foreseen else self.papers_pairs(view)
        if chosen and self.may_wait(view):
            waiting = self.settings.window_jobs * len(self.sites)
            row = self.row_to_wait(view, chosen) if foreseen else [0.0] * len(chosen[0].row)
            chosen.append(Choice(waiting, row, {}))
        return chosen

    def may_wait(self, view: View) -> bool:
        """Return whether the wait action is allowed."""
        if not self.settings.wait or (view.no_more_jobs and not view.running):
            return False
        since_s = self.waits_since_s
        return since_s is None or view.now_s < since_s + self.settings.most_wait_s

    def may_go(self, job: Job, node: int, view: View) -> bool:
        """Return whether a job may start on a node now, by free cores and energy limit."""
        return (
            self.free(node, view) >= job.cores
            and self.estimate_j(job, node, view) <= job.max_energy_j
        )

    def estimate_j(self, job: Job, node: int, view: View) -> float:
        """Return the energy estimate of a pair by equation 1, J."""
        machine, jobs = self.machines[node], len(self.on(node, view))
        run_s = job.requested_s * self.sites[node].slowness
        return run_s * (machine.static_w / (jobs + 1) + job.cores * machine.core_w)

    def on(self, node: int, view: View) -> list[Job]:
        """Return the jobs on a node."""
        placed = [(job, job.allocation) for job in view.running.values()]
        return [job for job, allocation in placed if allocation and allocation.nodes[0] == node]

    def free(self, node: int, view: View) -> int:
        """Return the number of free cores of a node."""
        return self.machines[node].cores - sum(job.cores for job in self.on(node, view))

    # The papers' features

    def papers_pairs(self, view: View) -> list[Choice]:
        """Return every pair with its row."""
        jobs = list(view.queue.values())[: self.settings.window_jobs]
        return [
            Choice(slot * len(self.sites) + node, self.papers_row(job, node, view), {})
            for slot, job in enumerate(jobs)
            for node in range(len(self.sites))
            if self.may_go(job, node, view)
        ]

    def papers_row(self, job: Job, node: int, view: View) -> list[float]:
        """Return the features of table 1 for a pair."""
        settings, machines = self.settings, self.machines
        machine, free = machines[node], self.free(node, view)
        assert self.first_s is not None
        row = [
            share(view.now_s - job.submit_s, settings.time_s),
            share(job.requested_s, settings.time_s),
            share(job.submit_s - self.first_s, settings.time_s),
            job.cores / max(each.cores for each in machines),
            free / machine.cores,
            of_the_most(machine.ops_per_s, [each.ops_per_s for each in machines]),
            1.0,
        ]
        if settings.sees == "papers_no_energy":
            return row
        static_w = machine.static_w if self.on(node, view) else machine.idle_w
        dynamic_w = (machine.cores - free) * machine.core_w
        return [
            *row,
            of_the_most(static_w, [each.static_w for each in machines]),
            of_the_most(dynamic_w, [each.cores * each.core_w for each in machines]),
            share(self.estimate_j(job, node, view), settings.energy_j),
        ]

    # Forecast features

    def distinct(self, now_s: float) -> list[int]:
        """Return the first node of each group of equal nodes."""
        firsts: list[int] = []
        for node, site in enumerate(self.sites):
            if not any(site.like(self.sites[first], now_s) for first in firsts):
                firsts.append(node)
        return firsts

    def kinds(self, view: View) -> list[Job]:
        """Return the first waiting job of each kind in the window."""
        firsts: dict[Kind, Job] = {}
        for job in view.queue.values():
            firsts.setdefault(kind_of(job), job)
        return list(firsts.values())[: self.settings.window_jobs]

    def ends_s(self, now_s: float) -> list[float]:
        """Return the expected end of each running job."""
        return [guest.end_s for site in self.sites for guest in site.to_the_end(now_s)]

    def horizon_s(self, now_s: float) -> float:
        """Return the latest expected end of the running jobs, at least now."""
        return max([now_s, *self.ends_s(now_s)])

    def prices_w(self, view: View) -> list[float]:
        """Return the cost of each second of makespan for each weight, W."""
        idle_w = sum(machine.idle_w for machine in self.machines)
        price_w = idle_w
        if self.settings.objective == "edp":
            assert self.began_s is not None
            span_s = self.horizon_s(view.now_s) - self.began_s
            price_w += idle_w + (self.committed_j / span_s if span_s else 0.0)
        return [price_w * (1.0 if view.no_more_jobs else weight) for weight in WEIGHTS]

    def foreseen_pairs(self, view: View) -> list[Choice]:
        """Return the pairs of first jobs of a kind and first of equal nodes."""
        nodes = self.distinct(view.now_s)
        chosen = []
        for slot, job in enumerate(self.kinds(view)):
            options = {node: self.sites[node].option(view.now_s, kind_of(job)) for node in nodes}
            may = [node for node in nodes if self.may_go(job, node, view)]
            for node in may:
                row, as_well = self.foreseen_row(view, job, node, options, may)
                chosen.append(Choice(slot * len(self.sites) + node, row, as_well))
        return chosen

    def foreseen_row(
        self,
        view: View,
        job: Job,
        node: int,
        options: Mapping[int, Option | None],
        may: Sequence[int],
    ) -> tuple[list[float], dict[int, list[float]]]:
        """Return the row of a pair, and alternative values of columns with equal costs.

        Args:
            view: the view of the agent.
            job: the job of the pair.
            node: the node of the pair.
            options: options of the job by node; None: the node is too small.
            may: nodes that the job may start on now.
        """
        now_s, as_well = view.now_s, dict[int, list[float]]()
        there = {each: option for each, option in options.items() if option is not None}
        horizon_s, prices_w = self.horizon_s(now_s), self.prices_w(view)
        row = self.of_all(view)
        row[0:4] = self.of_job(view, job)
        row[4:10] = self.of_node(view, node)
        row[10:17] = self.of_pair(there[node], there.values(), horizon_s)
        row[24] = self.machines[node].cores / max(each.cores for each in self.machines)
        for column, price_w in zip(range(25, COLUMNS, 5), prices_w, strict=True):
            costs_j = dict.fromkeys(options, math.inf)
            costs_j |= {each: cost_j(option, horizon_s, price_w) for each, option in there.items()}
            row[column : column + 5] = self.of_costs(costs_j, node, may)
            least_j = min(costs_j.values())
            as_well[column + 2] = [
                share(option.start_s - now_s, self.settings.time_s)
                for each, option in there.items()
                if math.isclose(costs_j[each], least_j, rel_tol=1e-9, abs_tol=NOTHING_J)
            ]
        return row, as_well

    def of_job(self, view: View, job: Job) -> list[float]:
        """Return columns 0 to 3."""
        alike = [other for other in view.queue.values() if kind_of(other) == kind_of(job)]
        return [
            share(view.now_s - job.submit_s, self.settings.time_s),
            share(job.requested_s, self.settings.time_s),
            job.cores / max(each.cores for each in self.machines),
            share(len(alike), 5.0),
        ]

    def of_node(self, view: View, node: int) -> list[float]:
        """Return columns 4 to 9."""
        machine, guests = self.machines[node], self.sites[node].guests(view.now_s)
        return [
            of_the_most(machine.ops_per_s, [each.ops_per_s for each in self.machines]),
            of_the_most(machine.static_w, [each.static_w for each in self.machines]),
            of_the_most(machine.core_w, [each.core_w for each in self.machines]),
            self.free(node, view) / machine.cores,
            1.0 if guests else 0.0,
            share(sum(guest.requested_mbps for guest in guests), 1e5),
        ]

    def of_pair(self, option: Option, options: Iterable[Option], horizon_s: float) -> list[float]:
        """Return columns 10 to 16 of an option."""
        time_s, run_s = self.settings.time_s, option.end_s - option.start_s
        return [
            share(run_s, time_s),
            min(option.alone_s / run_s, 1.0),
            share(option.delay_s, time_s),
            share(option.extra_j, self.settings.energy_j),
            share(option.end_s - horizon_s, time_s),
            share(horizon_s - option.end_s, time_s),
            share(option.end_s - min(each.end_s for each in options), time_s),
        ]

    def of_costs(self, costs_j: Mapping[int, float], node: int, may: Sequence[int]) -> list[float]:
        """Return the five columns of a weight, with 0 in the third."""
        in_order_j = sorted(costs_j.values())
        least_j = in_order_j[0]
        second_j = in_order_j[1] if len(in_order_j) > 1 else least_j
        return [
            share(costs_j[node], self.settings.energy_j),
            over(least_j, costs_j[node]),
            0.0,
            over(least_j, second_j),
            over(min(costs_j[each] for each in may), costs_j[node]),
        ]

    def of_all(self, view: View) -> list[float]:
        """Return a row with the columns common to all pairs: 17 to 22."""
        row, time_s, nodes = [0.0] * COLUMNS, self.settings.time_s, range(len(self.sites))
        free = sum(self.free(node, view) for node in nodes)
        row[17] = free / sum(machine.cores for machine in self.machines)
        row[18] = sum(not self.on(node, view) for node in nodes) / len(nodes)
        if ends_s := self.ends_s(view.now_s):
            row[19] = share(max(ends_s) - view.now_s, time_s)
            row[20] = share(min(ends_s) - view.now_s, time_s)
        row[21] = share(len(view.queue), 10.0)
        row[22] = float(view.no_more_jobs)
        return row

    def row_to_wait(self, view: View, pairs: Iterable[Choice]) -> list[float]:
        """Return the row of the wait action."""
        row = self.of_all(view)
        row[23] = 1.0
        for column in range(26, COLUMNS, 5):
            row[column] = max(pair.row[column] for pair in pairs)
        return row


def cost_j(option: Option, horizon_s: float, price_w: float) -> float:
    """Return the cost of an option, J."""
    return option.extra_j + price_w * max(option.end_s - horizon_s, 0.0)
