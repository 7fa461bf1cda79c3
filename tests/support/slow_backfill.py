"""A pass of the backfill scheduler that plans every job, slow and obvious, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from hpcosim_client.demand import NodeChoice
from hpcosim_client.job import Ints
from hpcosim_client.placing import Placing, offered
from hpcosim_client.slots import Slots
from hpcosim_client.slurm.backfill import PassSettings, Planned, Windows, _Counts
from hpcosim_client.slurm.future import FIRST_WINDOW_S, MOST_TOGETHER, Candidate, Found, Future
from hpcosim_client.slurm.node_sets import NodeSet
from hpcosim_client.slurm.plan import NodeSpace
from hpcosim_client.slurm.select import NodeOrder, choose_nodes, usable_cores


def slow_backfill(
    queue: Iterable[Candidate],
    future: Callable[[], Future],
    held: Callable[[Candidate], bool],
    start: Callable[[Candidate, Found], bool],
    preempt: Callable[[Candidate, NodeSet], Found | None],
    windows: Windows | None,
    settings: PassSettings,
) -> list[Planned]:
    """Do what `backfill` of the policy does, without preemption and reservations."""
    del preempt
    assert windows is None
    parameters, now = settings.parameters, settings.now
    window, resolution = int(parameters.bf_window_s), max(int(parameters.bf_resolution_s), 1)
    space = NodeSpace(now, now + window, settings.available, resolution)
    counts = _Counts(parameters)
    for candidate in queue:
        if held(candidate) or not counts.admit(candidate):
            continue
        if counts.tested > parameters.bf_max_job_test:
            break
        found = _earliest(candidate, space, future(), settings)
        if found is None or found[0] > now + window:
            continue
        if found[0] > now:
            space.reserve(found[0], found[0] + candidate.limit, found[1].node_set)
        elif start(candidate, found[1]):
            counts.started += 1
            if counts.started == parameters.bf_max_job_start:
                break
    return []


def _earliest(
    candidate: Candidate, space: NodeSpace, free: Future, settings: PassSettings
) -> tuple[int, Found] | None:
    """Return the earliest start of a job beside planned jobs."""
    at: int | None = settings.now
    while at is not None:
        nodes, later = space.free_during(at, at + candidate.limit)
        for time, found in _alone(candidate, nodes & candidate.suitable, free, settings):
            start = max(time, at)
            if later is None or start <= later:
                return start, found
        at = later
    return None


def _alone(
    candidate: Candidate, nodes: NodeSet, free: Future, settings: PassSettings
) -> Iterator[tuple[int, Found]]:
    """Yield the earliest start of a job on some nodes if no other job started, and its place."""
    now, amounts = settings.now, free.amounts(0)
    slots, order = free._slots, free._order
    found = _find(candidate, nodes, amounts, slots, order)
    if found is not None:
        yield now, found
        return
    window = FIRST_WINDOW_S
    ends = [each for each in free.ends if each.nodes & nodes]
    while ends:
        group = [each for each in ends if each.end <= ends[0].end + window]
        group = group[: MOST_TOGETHER + 1]
        for each in group:
            amounts = amounts.copy()
            amounts[each.allocation.nodes] += each.allocation.cores_per_node
            if each.allocation.held is not None:
                amounts[each.allocation.held.slots] += each.allocation.held.amounts
        ends = ends[len(group) :]
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
                return Found(choice, chosen, cores[chosen])
    return None


def _cores(
    candidate: Candidate, choice: NodeChoice, nodes: NodeSet, amounts: Ints, slots: Slots
) -> Ints:
    """Return int64[nodes]: the cores that a job could get on each node."""
    demand, job = candidate.demand, candidate.job
    cores = usable_cores(demand, job, offered(Placing(job, demand, choice, amounts, slots)))
    return np.array([cores[n] if nodes >> n & 1 else 0 for n in range(len(cores))])
