"""What the compiled policy `slurm` knows of a site and its jobs before the run.

All that one job or one node decides is computed here by the reference policy, once for each kind
of jobs. This needs no Numba.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace as Fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.demand import PARTS_PER_MB
from hpcosim_client.free_resources import FreeResources
from hpcosim_client.job import Job
from hpcosim_compiled.job_kinds import kinds_of
from hpcosim_compiled.slurm.state import (
    ABOVE,
    ALL_MEMORY,
    AMOUNTS,
    ASSOCIATION,
    BY_CORES,
    BY_FACTOR,
    BY_MEMORY,
    BY_NODES,
    CANDIDATE,
    CHECK,
    CHOICE,
    DEVICES,
    DISTANCE,
    FIRST_MASK,
    GAIN,
    GLOBAL,
    GROUP,
    HELD,
    IN_USE,
    JOB,
    LEAF,
    NO_MEMORY,
    OF_CORES,
    OF_NODE,
    OFFER,
    OWNER,
    RESPONSE,
    SHAPE,
    SHAPE_FIELDS,
    TERM,
    TRES,
    WEIGHT,
    WEIGHTS,
    WORD,
    Offers,
    Places,
    Plan,
    Rules,
    Site,
)
from hpcosim_compiled.state import Ints, Records, records
from hpcosim_protocol import Platform
from hpcosim_protocol.resources import WHOLE_DEVICE, thousandths
from hpcosim_schedulers.slurm.candidates import Candidates, nodes_available
from hpcosim_schedulers.slurm.charges import BILLING, WALL, Charges, ShareTree
from hpcosim_schedulers.slurm.future import Candidate, Future, NodeSet, set_of_mask
from hpcosim_schedulers.slurm.limits import Check, GroupKey, Limits, counted_tres
from hpcosim_schedulers.slurm.multifactor import ConstantFactors
from hpcosim_schedulers.slurm.policy import Admission
from hpcosim_schedulers.slurm.select import NodeOrder, SwitchTree
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.timers import ROUNDING_S, NodePings, SiteClock
from hpcosim_schedulers.slurm.tres import GLOBAL as GLOBAL_TRES
from hpcosim_schedulers.slurm.tres import NO_REQUEST
from hpcosim_workloads.table import JobTable

OF_SIZE = ("cores", "placement", "memory_mb", "request")
OF_SITE = (*OF_SIZE, "requested_s", "user", "group", "account", "qos", "partition")
"""Columns that decide the kind of a job, without and with accounts and partitions."""

COUNTED = ("bf_max_job_user", "bf_max_job_user_part", "bf_max_job_part", "bf_max_job_assoc")
"""The parameters of the backfill scheduler that limit how many jobs a pass tests."""

MOST_OFFERS = 1 << 26
"""Most bytes of `Offers`, unless a single choice needs more."""


def has_rules(site: SiteSettings) -> bool:
    """Return whether a site has limits, or priorities that depend on usage."""
    by_share = site.priority.type == "multifactor" and site.priority.weight_fair_share > 0
    return by_share or not {"limits", "safe"}.isdisjoint(site.enforce)


def initial_site(
    platform: Platform,
    table: JobTable,
    settings: SiteSettings,
    feasible: NDArray[np.bool_],
    drained: Sequence[int] = (),
) -> SiteTables:
    """Return the state of the policy before its first call.

    Args:
        platform: the cluster.
        table: the workload.
        settings: settings of the site.
        feasible: bool[jobs], whether the server admits a job.
        drained: numbers of the nodes that get no jobs.
    """
    tables = _Tables(platform, settings, drained)
    plain = not (platform.partitions or settings.enforce or settings.qos or settings.accounts)
    plain = plain and not settings.priority.site_factors and not has_rules(settings)
    plain = plain and "small_relative_to_time" not in settings.priority.flags
    plain = plain and not any(getattr(settings.scheduler, name) for name in COUNTED)
    first, kind = kinds_of(table.take(feasible), OF_SIZE if plain else OF_SITE)
    rows = np.flatnonzero(feasible)
    kinds = [tables.kind(job) for job in _jobs(table, rows[first])]
    of_row: Ints = np.zeros(len(table), np.int64)
    of_row[rows] = kind
    known = np.ones(len(table), np.int64)
    known[rows[first]] = [each.known for each in kinds]
    jobs, candidates = _jobs_and_candidates(table, kinds, of_row)
    rules = None
    if has_rules(settings):
        rules = _rules(tables, table, kinds, of_row, np.maximum.accumulate(known))
    site = Site(
        s=_globals(tables, jobs),
        jobs=jobs,
        candidates=candidates,
        choices=_together(tables.choices, CHOICE),
        lists=np.zeros((8, len(table)), np.int64),
        places=_places(tables),
        offers=_offers(tables),
        plan=empty_plan(tables.platform, settings, candidates, len(tables.counters)),
        rules=rules,
    )
    set_clock(site, settings)
    return SiteTables(site, tables.reasons, known)


class SiteTables(NamedTuple):
    """The state of the policy before its first call.

    Attributes:
        reasons: its reasons for refusals.
        known: int64[jobs], associations that are known once each job has been looked at.
    """

    site: Site
    reasons: list[str]
    known: Ints


def set_clock(site: Site, settings: SiteSettings) -> None:
    """Set all that depends on when the controller started, in a state before the first call."""
    s, clock = site.s, SiteClock(settings)
    s.origin_s, s.loop_s = -clock.simulated(0), clock._loop_s
    s.begin = s.last = s.full_done = s.changed = clock.begin
    s.check_s = clock.backfill_begin_s + settings.scheduler.bf_interval_s
    s.bf_last = clock.begin - 1
    s.pings_s = NodePings(clock, settings.slurmd_timeout_s, 0).next_s
    s.first_s = s.last_s = -settings.dtstart_s
    site.places.nodes[RESPONSE] = clock.begin


class _Kind(NamedTuple):
    """Jobs that are equal for the site.

    Attributes:
        job: one of them.
        own: its `JOB`.
        candidates: its candidates, each a `CANDIDATE`.
        association: number of its association; -1: none.
        rows, factor: rows of usage that it charges, and the factor of what it charges.
        groups: groups of jobs that limits concern.
        submits: first and number of the limits at its submission.
        known: associations that exist once it has been submitted.
    """

    job: Job
    own: Fields
    candidates: list[Fields]
    association: int
    rows: list[int]
    factor: float
    groups: list[int]
    submits: tuple[int, int]
    known: int


class _Tables:
    """The reference policy for kinds of jobs, and what was found for them."""

    def __init__(self, platform: Platform, site: SiteSettings, drained: Sequence[int]) -> None:
        self.platform, self.site = platform, site
        self.free = FreeResources(platform)
        self.charges = Charges(site, platform, counted_tres(site))
        self.started_with = len(self.charges.associations.nodes)
        self.factors = ConstantFactors(
            site, platform, self.charges.associations, self.charges.tres_of
        )
        self.limits = Limits(site, platform, self.charges)
        self.of_jobs = Candidates(platform, self.free)
        self.in_use = nodes_available(self.free, drained)
        self.order = NodeOrder.of(platform, site.selection)
        self.empty = Future(self.free.slots.capacity, (), self.free.slots, self.order)
        self.admission = Admission(self.limits, self.of_jobs, self.empty)
        tiers = sorted({1, *(each.priority_tier for each in platform.partitions)})
        self.tier_1 = tiers.index(1)
        self.tiers = {each.name: tiers.index(each.priority_tier) for each in platform.partitions}
        names = [each.name for each in platform.partitions]
        down = [each for each in platform.partitions if each.state in ("down", "inactive")]
        self.closed = {each.name for each in down}
        self.partitions = {name: number for number, name in enumerate(("", *names))}
        self.masks: dict[NodeSet, int] = {}
        self.choices: list[Fields] = []
        self._choice_of: dict[tuple[object, ...], int] = {}
        self.devices: list[Fields] = []
        self._devices_of: dict[object, int] = {}
        self.tables: dict[str, int] = {}
        self.counters: dict[object, int] = {}
        self.reasons: list[str] = []
        self.groups: dict[GroupKey, int] = {}
        self.checks: list[Check] = []

    def kind(self, job: Job) -> _Kind:
        """Return what there is to know about a job."""
        request = job.request or NO_REQUEST
        if job.request is not None or not self.free.demands.is_plain:
            job.demand = self.free.demands.of(job)
        association = self.charges.association(job)
        known = len(self.charges.associations.nodes)
        found = self.of_jobs.of(job)
        own = _blank(JOB)
        best = self._priority(job, association, own)
        own.task_cores = request.cores_per_task
        own.candidates = len(found)
        own.held = -1
        self._set_memory(job, own)
        own.first_device, own.devices = self._device_records(job)
        refused = self.limits.not_allowed(job)
        denied = self.limits.denied(job) if self.limits.active and not refused else ""
        late = denied or ("" if refused else self.admission.misfit(job))
        if not has_rules(self.site):
            refused = refused or late
        own.refused, own.late = self.reason(refused), self.reason(late)
        never = "" if refused or late else self.limits.permanent(job, 0.0, self.admission.misfit)
        own.never = self.reason(never)
        rejected = bool(refused)
        return _Kind(
            job=job,
            own=own,
            candidates=[self._candidate(each, association, best) for each in found],
            association=-1 if association is None else association,
            rows=self._rows(job, association),
            factor=self._usage_factor(job),
            groups=[] if rejected or not self.limits.active else self._groups(job),
            submits=self._submits(job, association, rejected=rejected),
            known=known,
        )

    def _priority(self, job: Job, association: int | None, own: Fields) -> float:
        """Set the priority of a job; return the factor of its best partition."""
        request = job.request or NO_REQUEST
        names = self.charges.tres_of.partitions_of(job)
        each = [self.factors.of(job, association, name) for name in names]
        best = max(each, key=lambda factors: factors.partition)
        own.constant = sum(best[:-1]) - best.nice
        own.fixed = np.nan if request.priority is None else request.priority
        if self.site.priority.type == "basic":
            own.fixed = 1.0
        own.tier = max(self.tiers.get(name, self.tier_1) for name in names)
        return best.partition

    def _set_memory(self, job: Job, own: Fields) -> None:
        request = job.request or NO_REQUEST
        own.memory = NO_MEMORY
        if job.demand is None or not job.demand.holds_memory:
            return
        if request.all_memory:
            own.memory = ALL_MEMORY
        elif request.memory_per_node_mb > 0:
            own.memory = OF_NODE
            own.node_parts = int(request.memory_per_node_mb * PARTS_PER_MB)
        elif job.memory_mb > 0:
            own.memory, own.core_mb = OF_CORES, job.memory_mb

    def _candidate(self, candidate: Candidate, association: int | None, best: float) -> Fields:
        job, request, found = candidate.job, candidate.demand.request, _blank(CANDIDATE)
        found.partition = self.partitions[candidate.partition]
        found.tier = self.tiers.get(candidate.partition, self.tier_1)
        several = len(job.partitions) > 1 and request.priority is None
        if several and self.site.priority.type != "basic":
            own = self.factors.of(job, association, candidate.partition).partition
            found.more = own - best
        found.first, found.choices = self._first_choice(candidate), len(candidate.choices)
        found.suitable = self.mask(candidate.suitable)
        tasks = job.cores // request.cores_per_task
        found.cores, found.least = job.cores, candidate.least_nodes
        found.wanted = min(max(candidate.least_nodes, request.nodes_max), tasks)
        found.most, found.has_most = request.nodes_max or tasks, request.nodes_max > 0
        found.alone = candidate.alone
        found.counts_only = self.order.all_on_leaves and (candidate.counts_only or candidate.alone)
        found.closed = candidate.partition in self.closed
        found.held = bool(self.limits.of_partition(job, candidate.partition))
        found.fits = self.empty.fits(candidate, candidate.suitable & self.in_use)
        found.first_check = len(self.checks)
        if self.limits.active:
            self.checks += self.limits.checks(job, candidate.partition)
        found.checks = len(self.checks) - found.first_check
        part = candidate.partition
        keys = (job.user, (job.user, part), part, (job.account, job.user))
        found.counters = [
            self.counters.setdefault((name, key), len(self.counters))
            if getattr(self.site.scheduler, name)
            else -1
            for name, key in zip(COUNTED, keys, strict=True)
        ]
        return found

    def _first_choice(self, candidate: Candidate) -> int:
        """Return the number of the first choice of a candidate, which others have as well."""
        own = [self._choice(candidate, number) for number in range(len(candidate.choices))]
        key = tuple(tuple(vars(each).values()) for each in own)
        if key not in self._choice_of:
            self._choice_of[key] = len(self.choices)
            self.choices += own
        return self._choice_of[key]

    def _choice(self, candidate: Candidate, number: int) -> Fields:
        """Return a choice of a candidate."""
        job, demand, choice = candidate.job, candidate.demand, candidate.choices[number]
        request, own = demand.request, _blank(CHOICE)
        limit = request.tasks_per_node
        least = min(limit * request.cores_per_task, job.cores) if limit > 1 else 0
        own.least = max(least, job.cores if job.placement == "one_node" else 0, 1)
        own.mask = own.partition_mask = self.mask(set_of_mask(choice.nodes))
        own.whole, own.most = choice.whole, demand.node_cores
        own.task_cores = request.cores_per_task
        of_job = _blank(JOB)
        self._set_memory(job, of_job)
        own.memory, own.node_parts = of_job.memory, of_job.node_parts
        own.core_parts = of_job.core_mb * PARTS_PER_MB
        own.first_device, own.devices = self._device_records(job)
        limited = choice.whole or demand.node_cores or of_job.memory or own.devices
        own.plain = not limited and own.least == own.task_cores == 1 and choice.nodes.all()
        return own

    def _device_records(self, job: Job) -> tuple[int, int]:
        """Return the first entry and the number of the devices that a job requires on nodes."""
        request = job.request or NO_REQUEST
        key = (tuple(request.gres_per_node.items()), tuple(request.gres_per_task.items()))
        count = len(key[0]) + len(key[1])
        if key not in self._devices_of:
            self._devices_of[key] = len(self.devices)
            for amounts, of_task in ((key[0], False), (key[1], True)):
                for name, amount in amounts:
                    total, one = thousandths(amount), _blank(DEVICES)
                    one.table = self.tables.setdefault(name, len(self.tables))
                    one.part = min(total, WHOLE_DEVICE)
                    one.parts, one.of_task = total // min(total, WHOLE_DEVICE), of_task
                    self.devices.append(one)
        return self._devices_of[key], count

    def mask(self, nodes: NodeSet) -> int:
        """Return the number of a set of nodes."""
        return self.masks.setdefault(nodes, FIRST_MASK + len(self.masks))

    def reason(self, text: str) -> int:
        """Return the number of a reason; -1: the text is empty."""
        if not text:
            return -1
        if text not in self.reasons:
            self.reasons.append(text)
        return self.reasons.index(text)

    def _rows(self, job: Job, association: int | None) -> list[int]:
        """Return the rows of the usage that a job charges; see `Charges`."""
        rows = [self.charges.qos_rows[name] for name in self.charges.qos_of(job)]
        if association is not None:
            above = self.charges.associations.ancestors(association)
            rows += [self.charges.rows[each] for each in above]
        return rows

    def _usage_factor(self, job: Job) -> float:
        own = self.charges.own_qos(job)
        return self.site.qos[own].usage_factor if own in self.site.qos else 1.0

    def _groups(self, job: Job) -> list[int]:
        return [self.group(key) for key in self.limits.keys(job, "")]

    def group(self, key: GroupKey) -> int:
        """Return the number of a group of jobs."""
        return self.groups.setdefault(key, len(self.groups))

    def _submits(self, job: Job, association: int | None, *, rejected: bool) -> tuple[int, int]:
        first = len(self.checks)
        if self.limits.active and association is not None and not rejected:
            self.checks += self.limits.submitted(job, association)
        return first, len(self.checks) - first


def _jobs(table: JobTable, rows: Ints) -> Iterable[Job]:
    """Yield jobs as the scheduler sees them, with the number of the kind as their number."""
    chosen = table.take(rows)
    for number, spec in enumerate(chosen.rows()):
        yield Job(
            number,
            spec.submit_s,
            spec.cores,
            spec.requested_s,
            spec.placement,
            number,
            spec.memory_mb,
            user=spec.user,
            group=spec.group,
            account=spec.account,
            qos=spec.qos,
            partitions=tuple(spec.partition.split(",")) if spec.partition else (),
            request=spec.request,
        )


def _jobs_and_candidates(
    table: JobTable, kinds: Sequence[_Kind], of_row: Ints
) -> tuple[Records, Records]:
    """Return the records of all jobs, and of their candidates, those of a job together."""
    own = _together([each.own for each in kinds], JOB)
    jobs = own[of_row].view(np.recarray) if kinds else records(JOB, len(table))
    jobs.job_id, jobs.look_s, jobs.since_s = table.job_id, np.inf, np.nan
    jobs.first = np.cumsum(jobs.candidates) - jobs.candidates
    of_kinds = _together([found for each in kinds for found in each.candidates], CANDIDATE)
    first_of_kind = np.cumsum(own.candidates) - own.candidates
    rows = np.repeat(np.arange(len(table)), jobs.candidates)
    which = np.arange(len(rows)) - jobs.first[rows]
    if kinds:
        which += first_of_kind[of_row[rows]]
    candidates = of_kinds[which].view(np.recarray)
    candidates.row = rows
    candidates.limit = np.maximum(np.ceil(table.requested_s[rows] - ROUNDING_S), 1)
    if kinds:
        shape = np.unique(of_kinds[SHAPE_FIELDS], return_inverse=True)[1].reshape(-1)[which]
        limit = np.unique(candidates.limit, return_inverse=True)[1].reshape(-1)
        both = shape * (limit.max(initial=0) + 1) + limit
        candidates.shape = np.unique(both, return_inverse=True)[1].reshape(-1)
    return jobs, candidates


def _globals(tables: _Tables, jobs: Records) -> Records:
    platform, site, s = tables.platform, tables.site, records(GLOBAL, 1)
    parameters, order = site.scheduler, tables.order
    s.tick_s = parameters.loop_s
    s.period = max(int(parameters.sched_interval_s), 1)
    s.delay = int(parameters.batch_sched_delay_s)
    s.requested_s = s.immediate_s = np.inf
    s.depth, s.part_depth = parameters.default_queue_depth, parameters.partition_job_depth
    s.most_starts = parameters.sched_max_job_start
    s.ends_at_first = not platform.partitions
    s.backfills, s.interval_s = parameters.backfill, parameters.bf_interval_s
    s.job_cost_s = parameters.bf_job_cost_s
    s.ping_period = int(site.slurmd_timeout_s) // 3
    s.window, s.resolution = int(parameters.bf_window_s), max(int(parameters.bf_resolution_s), 1)
    s.most_tests, s.most_bf_starts = parameters.bf_max_job_test, parameters.bf_max_job_start
    s.most_reserved = parameters.bf_job_part_count_reserve
    s.one_plan = parameters.bf_one_resv_per_job
    s.kill_wait, s.over = int(site.kill_wait_s), int(site.over_time_limit_s)
    s.calculation_s = site.priority.calc_period_s
    s.multifactor = site.priority.type == "multifactor"
    s.only_up = "incr_only" in site.priority.flags
    s.accrues = "accrue_always" in site.priority.flags
    s.weight_age, s.max_age_s = site.priority.weight_age, site.priority.max_age_s
    s.stale = s.unplanned = True
    s.one_each = (jobs.candidates == 1).all() and not tables.closed
    s.free_cores, s.largest = platform.core_count, order.largest
    s.epoch = 1
    memory = tables.free.slots.memory
    s.memory = -1 if memory is None else memory
    s.weights = 1 if order.weight is None else len(np.unique(order.weight))
    s.leaves = 0 if order.leaf is None else order.leaves
    s.has_tree = order.tree is not None
    s.unused = -1 if _most_held(tables) == 0 else 0
    s.limits = [getattr(parameters, name) for name in COUNTED]
    usage, priority = tables.charges.usage, site.priority
    s.max_tres = "max_tres" in priority.flags
    s.weight_share = priority.weight_fair_share if priority.type == "multifactor" else 0
    s.decay_per_s = usage.decay_per_s
    s.known, s.by_usage = tables.started_with, tables.limits.depend_on_usage
    return s


def _most_held(tables: _Tables) -> int:
    """Return the most parts of devices that jobs can hold at the same time."""
    if not tables.devices:
        return 0
    least = min(each.part for each in tables.devices)
    count = sum(group.count * sum(group.gres.values()) for group in tables.platform.nodes)
    return count * (WHOLE_DEVICE // least)


def _leaves(leaves: int, tree: SwitchTree | None) -> Ints:
    """Return `Places.leaves`."""
    found = np.zeros((DISTANCE + leaves, leaves if tree is None else len(tree.above)), np.int64)
    if tree is not None:
        found[ABOVE] = tree.above
        found[DISTANCE:, :leaves] = tree.distance
    return found


def _places(tables: _Tables) -> Places:
    slots, order, nodes = tables.free.slots, tables.order, tables.platform.node_count
    words, found = -(-nodes // WORD), [slots.devices(name) for name in tables.tables]
    widest = max((each.shape[1] for each in found), default=0)
    by_name = np.full((len(found), nodes, widest), len(slots.capacity) - 1)
    for number, each in enumerate(found):
        by_name[number, :, : each.shape[1]] = each
    held = records(HELD, _most_held(tables))
    held.after = np.arange(1, len(held) + 1)
    held.after[-1:] = -1
    by_node = np.zeros((10, nodes), np.int64)
    by_node[LEAF] = -1 if order.leaf is None else order.leaf
    if order.weight is not None:
        by_node[WEIGHTS] = np.unique(order.weight, return_inverse=True)[1].reshape(-1)
    leaves = 0 if order.leaf is None else order.leaves
    masks = [bytes(8 * words * IN_USE), tables.in_use.to_bytes(8 * words, "little")]
    masks += [each.to_bytes(8 * words, "little") for each in tables.masks]
    capacity = slots.capacity
    return Places(
        amounts=np.array([capacity, capacity, capacity]),
        masks=np.frombuffer(b"".join(masks), np.uint64).reshape(-1, words).copy(),
        nodes=by_node,
        leaves=_leaves(leaves, order.tree),
        tables=by_name,
        devices=_together(tables.devices, DEVICES),
        held=held,
    )


def _offers(tables: _Tables) -> Offers:
    nodes, most = tables.platform.node_count, tables.platform.core_count
    size = most * GAIN.itemsize + nodes * 8
    count = max(min(len(tables.choices), MOST_OFFERS // size), 1)
    each = records(OFFER, count)
    each.choice = -1
    return Offers(
        each=each,
        now=np.zeros((count, nodes), np.int64),
        idle=np.zeros((count, -(-nodes // WORD)), np.uint64),
        gains=np.zeros((count, most), GAIN).view(np.recarray),
    )


def empty_plan(
    platform: Platform, settings: SiteSettings, candidates: Records, counters: int
) -> Plan:
    """Return the plan before the first pass."""
    words, count = -(-platform.node_count // WORD), len(candidates)
    most = 2 * min(count, settings.scheduler.bf_max_job_test + 1) + 3
    running = min(count, platform.core_count)
    return Plan(
        queue=np.zeros(count, np.int64),
        times=np.zeros((3, most), np.int64),
        sets=np.zeros((most, words), np.uint64),
        free=np.zeros((most, words * WORD), np.int32),
        ends=np.zeros(running, np.int64),
        held=np.zeros((running, words), np.uint64),
        shapes=records(SHAPE, candidates["shape"].max(initial=-1) + 1),
        partitions=np.zeros((2, len(platform.partitions) + 1), np.int64),
        counters=np.zeros(counters, np.int64),
    )


# Usage, fair-share and limits.


def _rules(
    tables: _Tables, table: JobTable, kinds: Sequence[_Kind], of_row: Ints, known: Ints
) -> Rules:
    charges, usage = tables.charges, tables.charges.usage
    tres = _Names(("billing", "cpu", "node", *charges.tres))
    checks = [_check(tables, tres, each) for each in tables.checks]
    weights = _weights(tables, tres)
    terms: list[Fields] = []
    owners = records(OWNER, len(kinds))
    numbers: list[int] = []
    of_weights: list[Fields] = []
    first_weight: dict[str, int] = {}
    for owner, each in zip(owners, kinds, strict=True):
        owner.association, owner.factor = each.association, each.factor
        owner.first_row, owner.rows = len(numbers), len(each.rows)
        numbers += each.rows
        owner.first_group, owner.groups = len(numbers), len(each.groups)
        numbers += each.groups
        owner.first_submit, owner.submits = each.submits
        part = charges.tres_of.partitions_of(each.job)[0]
        if part not in first_weight:
            first_weight[part] = len(of_weights)
            of_weights += weights.get(part, [])
        owner.first_weight, owner.weights = first_weight[part], len(weights.get(part, []))
        own = list(_terms(tables, tres, each.job, part))
        owner.first_term, owner.terms = len(terms), len(own)
        terms += own
    of_jobs = owners[of_row].view(np.recarray) if kinds else records(OWNER, len(table))
    of_jobs.job_id, of_jobs.known = table.job_id, known
    columns = [0, 0, *(tres.number(name) for name in charges.tres)]
    by_tres = records(TRES, max(len(tres.all), len(columns)))
    by_tres.of_column[: len(columns)] = columns
    decays = np.broadcast_to(usage.decays, usage.amounts.shape)
    nodes = tables.platform.nodes
    return Rules(
        owners=of_jobs,
        associations=_associations(tables),
        usage=np.array([usage.amounts, np.zeros_like(usage.amounts), decays]),
        tres=by_tres,
        numbers=np.array(numbers, np.int64),
        groups=records(GROUP, len(tables.groups)),
        tres_of=np.zeros((len(tables.groups), len(by_tres))),
        terms=_together(terms, TERM),
        weights=_together(of_weights, WEIGHT),
        checks=_together(checks, CHECK),
        node_mb=np.repeat(
            np.array([group.memory_mb for group in nodes], np.float64),
            [group.count for group in nodes],
        ),
    )


class _Names:
    """Numbers of names."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all: dict[str, int] = {}
        for name in names:
            self.number(name)

    def number(self, name: str) -> int:
        """Return the number of a name, a new one if it has none."""
        return self.all.setdefault(name, len(self.all))


def _check(tables: _Tables, tres: _Names, check: Check) -> Fields:
    present, found = check.present, _blank(CHECK)
    found.what, found.number = AMOUNTS.index(present.what), present.number
    found.own, found.limit, found.most = check.own, check.limit, check.most
    found.reason = tables.reason(check.reason)
    if present.group:
        found.group = tables.group(present.group)
    if present.what.startswith("used") or present.what == "planned":
        fixed = {"billing": BILLING, "wall": WALL}
        of_usage = tables.charges.tres
        found.column = fixed.get(present.tres, WALL + 1)
        if present.tres not in fixed:
            found.column += of_usage.index(present.tres)
    if present.tres and present.tres != "wall":
        found.tres = tres.number(present.tres)
    return found


def _weights(tables: _Tables, tres: _Names) -> dict[str, list[Fields]]:
    """Return the weights of the billing by partition."""
    found: dict[str, list[Fields]] = {}
    for name, settings in tables.site.partitions.items():
        found[name] = []
        for each, amount in settings.billing_weights.items():
            weight = _blank(WEIGHT)
            weight.tres, weight.weight = tres.number(each), amount
            weight.of_node = not each.startswith(GLOBAL_TRES)
            found[name].append(weight)
    return found


def _terms(tables: _Tables, tres: _Names, job: Job, partition: str) -> Iterable[Fields]:
    """Yield the parts of the TRES of a job that runs, which count; see `TresOf.of_job`."""
    for each in tables.charges.tres_of.parts_of(job, partition):
        if each.tres in tres.all:
            term = _blank(TERM)
            term.tres, term.amount = tres.all[each.tres], each.amount
            term.of = {"node": BY_NODES, "core": BY_CORES, "memory": BY_MEMORY}.get(
                each.of, BY_FACTOR
            )
            term.factor = each.times
            yield term


def _associations(tables: _Tables) -> Records:
    """Return the records of all associations, with as much space to rank users."""
    charges, tree = tables.charges, ShareTree(tables.charges.associations)
    found = records(ASSOCIATION, len(tree.parent))
    found.row, found.parent = charges.rows, tree.parent
    found.competes, found.is_user, found.shares = tree.competes, tree.is_user, tree.shares
    found.total = charges.usage.amounts[charges.rows, BILLING]
    found.child = found.sibling = -1
    for number, below in enumerate(tree.children):
        found.child[number] = below[0] if below else -1
        found.sibling[below[:-1]] = below[1:]
    return found


def _blank(kind: np.dtype[Any]) -> Fields:
    """Return the fields of a record, each 0. To set those of an array takes 20 times as long."""
    return Fields(**dict.fromkeys(kind.names or (), 0))


def _together(each: Sequence[Fields], kind: np.dtype[Any]) -> Records:
    """Return records together."""
    return np.array([tuple(vars(one).values()) for one in each], kind).view(np.recarray)
