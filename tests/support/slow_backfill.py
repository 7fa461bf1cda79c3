"""A pass of the backfill scheduler that plans every job, slow and obvious, for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hpcosim_client.demand import NodeChoice, Slots
from hpcosim_client.job import Ints
from hpcosim_client.placing import Placing, offered
from hpcosim_schedulers.slurm.backfill import (
    BackfillCounts,
    BackfillSettings,
    NodeSpace,
    PassContext,
    Planned,
)
from hpcosim_schedulers.slurm.future import (
    FIRST_WINDOW_S,
    MOST_TOGETHER,
    Candidate,
    Found,
    Future,
    NodeSet,
    RunningEnd,
    set_of,
)
from hpcosim_schedulers.slurm.select import NodeOrder, choose_nodes, usable_cores


def slow_backfill(
    queue: Iterable[Candidate], context: PassContext, settings: BackfillSettings
) -> list[Planned]:
    """Do what `backfill` of the policy does, without preemption and reservations."""
    assert context.windows is None
    parameters, now = settings.parameters, context.now
    window, resolution = int(parameters.bf_window_s), max(int(parameters.bf_resolution_s), 1)
    space = NodeSpace(now, now + window, context.available, resolution)
    counts = BackfillCounts(parameters)
    for candidate in queue:
        if context.held(candidate) or not counts.admit(candidate):
            continue
        if counts.no_more_tests:
            break
        found = _earliest(candidate, space, context, settings)
        if found is None or found[0] > now + window:
            continue
        if found[0] > now:
            if context.reserves(candidate):
                space.reserve(found[0], found[0] + candidate.limit, found[1].node_set)
        elif context.start(candidate, found[1]):
            counts.started += 1
            if counts.no_more_starts:
                break
    return []


def _earliest(
    candidate: Candidate, space: NodeSpace, context: PassContext, settings: BackfillSettings
) -> tuple[int, Found] | None:
    """Return the earliest start of a job beside planned jobs."""
    free = context.future()
    at: int | None = context.now
    while at is not None:
        nodes, later = space.free_during(at, at + candidate.limit)
        alone = _alone(candidate, nodes & candidate.suitable, free, context.now, settings)
        for time, found in alone:
            start = max(time, at)
            if later is None or start <= later:
                if start == at or not space.overlaps(
                    start, start + candidate.limit, found.node_set
                ):
                    return start, found
                later = start
        at = later
    return None


def _alone(
    candidate: Candidate, nodes: NodeSet, free: Future, now: int, settings: BackfillSettings
) -> Iterator[tuple[int, Found]]:
    """Yield the earliest start of a job on some nodes if no other job started, and its place."""
    amounts = free.amounts(0)
    slots, order = free._slots, free._order
    found = _find(candidate, nodes, amounts, slots, order)
    if found is not None:
        yield now, found
        return
    window, barrier, left = FIRST_WINDOW_S, 0, list(free.ends)
    while left:
        group: list[RunningEnd] = []
        while left:
            each = left.pop(0)
            if not each.nodes & nodes:
                continue
            barrier = barrier or each.end + FIRST_WINDOW_S - each.end % FIRST_WINDOW_S
            group.append(each)
            amounts = amounts.copy()
            amounts[each.allocation.nodes] += each.allocation.cores_per_node
            if each.allocation.held is not None:
                amounts[each.allocation.held.slots] += each.allocation.held.amounts
            if left and (left[0].end > barrier + window or len(group) > MOST_TOGETHER):
                break
        if not group:
            return
        if left and left[0].end <= barrier + window:
            continue  # too many to be tested together
        window *= 2
        while left and left[0].end > barrier + window:
            window *= 2
        found = _find(candidate, nodes, amounts, slots, order)
        if found is not None:
            end = group[-1].end
            yield (end if end > now else max(end + settings.kill_wait, now + 1)), found
            return


def _find(
    candidate: Candidate, nodes: NodeSet, amounts: Ints, slots: Slots, order: NodeOrder
) -> Found | None:
    """Return nodes for a job among `nodes`; None: there are too few."""
    for choice in candidate.choices:
        cores = _cores(candidate, choice, nodes, amounts, slots)
        if cores.sum() >= candidate.job.cores:
            chosen = choose_nodes(candidate.job, candidate.demand, choice, cores, order)
            if chosen is not None:
                return Found(choice, chosen, cores[chosen], set_of(chosen.tolist()))
    return None


def _cores(
    candidate: Candidate, choice: NodeChoice, nodes: NodeSet, amounts: Ints, slots: Slots
) -> Ints:
    """Return int64[nodes]: the cores that a job could get on each node."""
    demand, job = candidate.demand, candidate.job
    cores = usable_cores(demand, job, offered(Placing(job, demand, choice, amounts, slots)))
    return np.array([cores[n] if nodes >> n & 1 else 0 for n in range(len(cores))])
