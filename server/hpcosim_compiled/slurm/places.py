"""What nodes offer to a waiting job of `slurm`, now and in future, and the nodes that it gets.

The functions follow `slurm.future` and `slurm.select` of `hpcosim_schedulers`.
"""

from __future__ import annotations

import math

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.slurm.state import (
    ABOVE,
    AHEAD,
    BELOW,
    CAPACITY,
    CHOSEN,
    DISTANCE,
    ENDS,
    FREE,
    IN_USE,
    IS_TRIED,
    LEAF,
    LEFT,
    LEFT_THERE,
    NEVER,
    NO_MEMORY,
    NONE,
    OF_CORES,
    OF_NODE,
    OFFERED,
    ONE,
    RUN,
    RUN_CORES,
    RUN_NODES,
    TAKEN,
    TRIED,
    WEIGHTS,
    WORD,
    Site,
)
from hpcosim_compiled.state import Ints, Records, State
from hpcosim_schedulers.slurm.future import FIRST_WINDOW_S, MOST_TOGETHER

NOT_MADE = -1
"""Number of gains of an entry without them."""

PARTS = 2.0**20
"""Parts of an MB, see `demand.PARTS_PER_MB`; `NEVER` is `demand.UNLIMITED`."""

# Sets of nodes.


@compiled
def bit(node: int) -> np.uint64:
    """Return the bit of a node in its word."""
    return ONE << np.uint64(node % WORD)


@compiled
def is_in_use(own: Site, node: int) -> bool:
    """Return whether a node may get jobs. One that is drained has no free cores."""
    return own.places.masks[IN_USE, node // WORD] & bit(node) != NONE


@compiled
def set_words(own: Site, mask: int) -> None:
    """Set the words of the nodes to try to those of a mask."""
    masks = own.places.masks
    for word in range(own.places.masks.shape[1]):
        own.places.masks[TRIED, word] = masks[mask, word]


@compiled
def count_nodes(own: Site) -> int:
    """Return the number of nodes to try, from their words."""
    count = 0
    for word in range(own.places.masks.shape[1]):
        left = own.places.masks[TRIED, word]
        while left != NONE:
            left &= left - ONE
            count += 1
    return count


@compiled
def unpack(own: Site) -> None:
    """Set the nodes to try to those of the words."""
    for node in range(own.places.nodes.shape[1]):
        own.places.nodes[IS_TRIED, node] = own.places.masks[TRIED, node // WORD] & bit(node) != NONE


# What a job takes, and what running jobs free.


@compiled
def held_cores(own: Site, row: int, node: int, tasks: int) -> int:
    """Return the cores that a running job holds on a node where it has tasks on some."""
    return own.places.amounts[CAPACITY, node] if own.jobs[row].whole else tasks


@compiled
def take(state: State, own: Site, row: int) -> None:
    """Take what a job holds on its nodes, with the devices that the server chooses."""
    job, s = own.jobs[row], own.s[0]
    period = state.periods[state.jobs[row].period]
    job.held = -1
    for at in range(period.first_place, period.first_place + period.places):
        node, tasks = state.places[at].node, state.places[at].tasks
        held = held_cores(own, row, node, tasks)
        own.places.amounts[FREE, node] -= held
        s.free_cores -= held
        if job.memory != NO_MEMORY:
            own.places.amounts[FREE, s.memory + node] -= _memory_held(own, row, node, tasks)
        for each in range(job.first_device, job.first_device + job.devices):
            _take_devices(own, row, each, node, tasks)
    s.epoch += 1


@compiled_apart
def _take_devices(own: Site, row: int, each: int, node: int, tasks: int) -> None:
    """Take the free devices with the least free part that is sufficient, for each part."""
    s, job, places, wanted = own.s[0], own.jobs[row], own.places, own.places.devices[each]
    parts = wanted.parts * (tasks // job.task_cores) if wanted.of_task else wanted.parts
    for _ in range(parts):
        best = -1
        for place in range(places.tables.shape[2]):
            slot = places.tables[wanted.table, node, place]
            if places.amounts[FREE, slot] >= wanted.part and (
                best < 0 or places.amounts[FREE, slot] < places.amounts[FREE, best]
            ):
                best = slot
        places.amounts[FREE, best] -= wanted.part
        entry = s.unused
        s.unused = places.held[entry].after
        places.held[entry].slot, places.held[entry].amount = best, wanted.part
        places.held[entry].after, job.held = job.held, entry


@compiled
def _memory_held(own: Site, row: int, node: int, tasks: int) -> int:
    """Return the memory that a job holds on a node, in parts of an MB."""
    job = own.jobs[row]
    if job.memory == OF_CORES:
        return int(job.core_mb * tasks * PARTS)
    if job.memory == OF_NODE:
        return job.node_parts
    whole = own.places.amounts[CAPACITY, own.s[0].memory + node]
    return 0 if whole == NEVER else whole


@compiled
def give_back(state: State, own: Site, row: int) -> None:
    """Free what a job held that is over."""
    s, job, period = own.s[0], own.jobs[row], state.periods[state.jobs[row].period]
    _free(state, own, row, FREE)
    for at in range(period.first_place, period.first_place + period.places):
        node, tasks = state.places[at].node, state.places[at].tasks
        if is_in_use(own, node):
            s.free_cores += held_cores(own, row, node, tasks)
    while job.held >= 0:
        entry = job.held
        job.held = own.places.held[entry].after
        own.places.held[entry].after, s.unused = s.unused, entry
    s.epoch += 1


@compiled
def _free(state: State, own: Site, row: int, which: int) -> None:
    """Add what a running job holds to amounts: those that are free, or ahead."""
    job, period = own.jobs[row], state.periods[state.jobs[row].period]
    amounts = own.places.amounts
    for at in range(period.first_place, period.first_place + period.places):
        node, tasks = state.places[at].node, state.places[at].tasks
        if which == AHEAD or is_in_use(own, node):
            amounts[which, node] += held_cores(own, row, node, tasks)
        if job.memory != NO_MEMORY:
            amounts[which, own.s[0].memory + node] += _memory_held(own, row, node, tasks)
    entry = job.held
    while entry >= 0:
        amounts[which, own.places.held[entry].slot] += own.places.held[entry].amount
        entry = own.places.held[entry].after


# Offers.


@compiled
def _offer_of(own: Site, choice: Records, node: int, which: int) -> int:
    """Return the cores that a node offers to jobs of a choice; see `placing.offered`."""
    cores = own.places.amounts[which, node]
    if choice.whole and cores != own.places.amounts[CAPACITY, node]:
        return 0
    if choice.most > 0:
        cores = min(cores, choice.most)
    if choice.memory != NO_MEMORY:
        cores = min(cores, _cores_by_memory(own, choice, node, which))
    for each in range(choice.first_device, choice.first_device + choice.devices):
        cores = min(cores, _cores_by_devices(own, choice, each, node, which))
    if choice.task_cores > 1:
        cores -= cores % choice.task_cores
    return cores if cores >= choice.least else 0


@compiled
def _cores_by_memory(own: Site, choice: Records, node: int, which: int) -> int:
    slot, every = own.s[0].memory + node, own.places.amounts[CAPACITY, node]
    free = own.places.amounts[which, slot]
    if choice.memory == OF_CORES:
        return math.floor(free / choice.core_parts + 1e-12)
    if choice.memory == OF_NODE:
        return every if free >= choice.node_parts else 0
    whole = own.places.amounts[CAPACITY, slot]
    return every if free == whole or whole == NEVER else 0


@compiled
def _cores_by_devices(own: Site, choice: Records, each: int, node: int, which: int) -> int:
    wanted, tables, found = own.places.devices[each], own.places.tables, 0
    for place in range(tables.shape[2]):
        free = own.places.amounts[which, tables[wanted.table, node, place]]
        if wanted.of_task:
            found += free // wanted.part
        elif free >= wanted.part:
            found += 1
    if wanted.of_task:
        return found // wanted.parts * choice.task_cores
    return own.places.amounts[CAPACITY, node] if found >= wanted.parts else 0


@compiled
def offers_of(own: Site, number: int) -> int:
    """Return the entry of `Site.offers` of a choice, which is made anew if it is not up to date."""
    entry = number % len(own.offers.each)
    found = own.offers.each[entry]
    if found.choice != number or found.epoch != own.s[0].epoch:
        _make_offers(own, number, entry)
    return entry


@compiled_apart
def _make_offers(own: Site, number: int, entry: int) -> None:
    choice, places, offers = own.choices[number], own.places, own.offers
    found, now, masks = offers.each[entry], offers.now, places.masks
    found.choice, found.epoch, found.gains = number, own.s[0].epoch, NOT_MADE
    for word in range(places.masks.shape[1]):
        offers.idle[entry, word] = NONE
    if choice.plain:
        for node in range(places.nodes.shape[1]):
            now[entry, node] = places.amounts[FREE, node]
            offers.idle[entry, node // WORD] |= bit(node) if now[entry, node] > 0 else NONE
        return
    for node in range(places.nodes.shape[1]):
        now[entry, node] = 0
        if masks[choice.mask, node // WORD] & bit(node) != NONE:
            now[entry, node] = _offer_of(own, choice, node, FREE)
            if now[entry, node] > 0:
                offers.idle[entry, node // WORD] |= bit(node)


@compiled
def _gains_of(state: State, own: Site, entry: int) -> int:
    """Return the number of gains of an entry, which are made if they are not."""
    if own.offers.each[entry].gains == NOT_MADE:
        _make_gains(state, own, entry)
    return own.offers.each[entry].gains


@compiled_apart
def _make_gains(state: State, own: Site, entry: int) -> None:
    """Note what a choice gains by the ends of the running jobs."""
    nodes = own.places.nodes
    places, offers, found = own.places, own.offers, own.offers.each[entry]
    choice, masks = own.choices[found.choice], own.places.masks
    for slot in range(0 if choice.plain else places.amounts.shape[1]):
        places.amounts[AHEAD, slot] = places.amounts[FREE, slot]
    for node in range(nodes.shape[1]):
        nodes[LEFT, node] = offers.now[entry, node]
    found.gains = 0
    for ended in range(own.s[0].running):
        row = own.lists[ENDS, ended]
        period = state.periods[state.jobs[row].period]
        if not choice.plain:
            _free(state, own, row, AHEAD)
        for at in range(period.first_place, period.first_place + period.places):
            node, cores = state.places[at].node, state.places[at].tasks
            if choice.plain:
                cores = nodes[LEFT, node] + held_cores(own, row, node, cores)
            elif masks[choice.mask, node // WORD] & bit(node) == NONE:
                continue
            else:
                cores = _offer_of(own, choice, node, AHEAD)
            if cores > nodes[LEFT, node]:
                gain = offers.gains[entry, found.gains]
                gain.ended, gain.node = ended + 1, node
                gain.cores = cores - nodes[LEFT, node]
                gain.begins = nodes[LEFT, node] == 0
                nodes[LEFT, node] = cores
                found.gains += 1


@compiled
def ended_by(own: Site, time: int) -> int:
    """Return how many running jobs of the plan end at a time or before."""
    low, high = 0, own.s[0].running
    while low < high:
        middle = (low + high) // 2
        if time < own.plan.ends[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_apart
def may_fit_after(state: State, own: Site, candidate: Records, most: int) -> int:
    """Return how many running jobs must end before the nodes to try offer enough; `NEVER`.

    Args:
        most: number of ends of interest.
    """
    needed = NEVER
    for number in range(candidate.first, candidate.first + candidate.choices):
        entry = offers_of(own, number)
        needed = min(needed, _enough_after(state, own, candidate, entry, min(most, needed)))
    return needed


@compiled
def _enough_after(state: State, own: Site, candidate: Records, entry: int, most: int) -> int:
    """Return what `may_fit_after` does, for one choice."""
    nodes, now = own.places.nodes, own.offers.now
    cores, missing, largest = candidate.cores, candidate.least, 0
    for node in range(nodes.shape[1]):
        if nodes[IS_TRIED, node] and now[entry, node] > 0:
            cores -= now[entry, node]
            missing -= 1
            largest = max(largest, now[entry, node])
    if (largest >= candidate.cores) if candidate.alone else (cores <= 0 and missing <= 0):
        return 0
    if most == 0:
        return NEVER
    gains = _gains_of(state, own, entry)
    if candidate.alone:
        for node in range(nodes.shape[1]):
            nodes[OFFERED, node] = now[entry, node]
        for at in range(gains):
            gain = own.offers.gains[entry, at]
            if gain.ended > most:
                return NEVER
            nodes[OFFERED, gain.node] += gain.cores
            if nodes[IS_TRIED, gain.node] and nodes[OFFERED, gain.node] >= candidate.cores:
                return gain.ended
        return NEVER
    for at in range(gains):
        gain = own.offers.gains[entry, at]
        if gain.ended > most:
            return NEVER
        if nodes[IS_TRIED, gain.node]:
            cores -= gain.cores
            missing -= gain.begins
            if cores <= 0 and missing <= 0:
                return gain.ended
    return NEVER


@compiled
def _offer_after(state: State, own: Site, entry: int, ended: int) -> int:
    """Note the cores that the nodes to try offer after some ends; return their sum."""
    nodes = own.places.nodes
    total = 0
    for node in range(nodes.shape[1]):
        nodes[OFFERED, node] = own.offers.now[entry, node] * nodes[IS_TRIED, node]
        total += nodes[OFFERED, node]
    if ended > 0:
        for at in range(_gains_of(state, own, entry)):
            gain = own.offers.gains[entry, at]
            if gain.ended > ended:
                break
            if nodes[IS_TRIED, gain.node]:
                nodes[OFFERED, gain.node] += gain.cores
                total += gain.cores
    return total


@compiled_apart
def find(state: State, own: Site, candidate: Records, ended: int) -> bool:
    """Choose nodes among those to try once some jobs have ended; return whether there are enough.

    The chosen nodes are in `Places.nodes`; row `OFFERED` says what they offer the job.
    """
    for number in range(candidate.first, candidate.first + candidate.choices):
        entry = offers_of(own, number)
        if _offer_after(state, own, entry, ended) >= candidate.cores and _choose_nodes(
            own, candidate
        ):
            own.s[0].choice = number
            return True
    return False


@compiled_apart
def fits(state: State, own: Site, candidate: Records, ended: int) -> bool:
    """Return whether `find` finds nodes."""
    if not candidate.counts_only:
        return find(state, own, candidate, ended)
    for number in range(candidate.first, candidate.first + candidate.choices):
        entry = offers_of(own, number)
        if _offer_after(state, own, entry, ended) < candidate.cores:
            continue
        nodes = largest = 0
        for node in range(own.places.nodes.shape[1]):
            nodes += own.places.nodes[OFFERED, node] > 0
            largest = max(largest, own.places.nodes[OFFERED, node])
        if (largest >= candidate.cores) if candidate.alone else (nodes >= candidate.least):
            return True
    return False


@compiled
def earliest_alone(
    state: State, own: Site, candidate: Records, now: int, needed: int
) -> tuple[int, int]:
    """Return when a job could start on the nodes to try if no other did, and how many must end.

    See `future.Future.earliest`.

    Args:
        needed: number of running jobs after whose ends the nodes offer enough.
    """
    s, counts, ends = own.s[0], candidate.counts_only, own.plan.ends
    if needed == 0 and (counts or fits(state, own, candidate, 0)):
        return now, 0
    if s.running == 0:
        return NEVER, 0
    if not counts and not fits(state, own, candidate, s.running):
        return NEVER, 0
    last = latest = removed = 0  # see `future.Future._groups`
    window = FIRST_WINDOW_S
    for at in range(1, s.running + 1):
        if not _has_node_to_try(own, at - 1):
            continue
        last, removed = ends[at - 1], removed + 1
        if latest == 0:
            latest = (last // FIRST_WINDOW_S + 1) * FIRST_WINDOW_S
        following = ends[at] if at < s.running else latest
        if following > latest + window:
            if at >= needed and (counts or fits(state, own, candidate, at)):
                return last if last > now else max(last + s.kill_wait, now + 1), at
            window, removed = 2 * window, 0
            while following > latest + window:
                window *= 2
        elif removed > MOST_TOGETHER:
            removed = 0
    if removed > 0 and (counts or fits(state, own, candidate, s.running)):
        return last if last > now else max(last + s.kill_wait, now + 1), s.running
    return NEVER, 0


@compiled
def _has_node_to_try(own: Site, place: int) -> bool:
    for word in range(own.plan.held.shape[1]):
        if own.plan.held[place, word] & own.places.masks[TRIED, word] != NONE:
            return True
    return False


# The choice of nodes.


@compiled
def _choose_nodes(own: Site, candidate: Records) -> bool:
    """Choose nodes of those that offer cores; see `select.choose_nodes`."""
    nodes = own.places.nodes
    few = 0
    for node in range(nodes.shape[1]):
        nodes[LEFT, node] = nodes[OFFERED, node]
    while not _choose(own, candidate):
        if not candidate.has_most:
            return False
        fewest = NEVER
        for node in range(nodes.shape[1]):
            if few < nodes[OFFERED, node] < fewest:
                fewest = nodes[OFFERED, node]
        few, total = fewest, 0
        for node in range(nodes.shape[1]):
            nodes[LEFT, node] = nodes[OFFERED, node] if nodes[OFFERED, node] > few else 0
            total += nodes[LEFT, node]
        if total < candidate.cores:
            return False
    return True


@compiled
def _choose(own: Site, candidate: Records) -> bool:
    """Choose nodes of those that are left, by their weights; return whether they suffice."""
    nodes = own.places.nodes
    s, places = own.s[0], own.places
    s.chosen = 0
    s.cores, s.nodes, s.most = candidate.cores, candidate.wanted, candidate.most
    for weight in range(s.weights):
        if s.cores <= 0 and s.nodes <= 0:
            break
        if s.leaves == 0:
            _take_runs(own, weight)
        else:
            for leaf in range(s.leaves):
                places.leaves[TAKEN, leaf] = 0
            for number in range(s.chosen):
                if nodes[LEAF, nodes[CHOSEN, number]] >= 0:
                    places.leaves[TAKEN, nodes[LEAF, nodes[CHOSEN, number]]] += 1
            _take_leaves(own, weight)
    return s.cores <= 0 and s.chosen >= candidate.least


@compiled
def _take_node(own: Site, node: int) -> None:
    """Take a node, unless nothing more is needed."""
    s = own.s[0]
    if s.most > 0 and (s.cores > 0 or s.nodes > 0):
        own.places.nodes[CHOSEN, s.chosen] = node
        s.chosen += 1
        s.cores -= own.places.nodes[LEFT, node]
        s.nodes -= 1
        s.most -= 1


@compiled
def _take_runs(own: Site, weight: int) -> None:
    """Take runs of consecutive nodes of a weight; see `select._consecutive`."""
    nodes = own.places.nodes
    s, count, before = own.s[0], 0, -2
    for node in range(nodes.shape[1]):
        if nodes[LEFT, node] > 0 and nodes[WEIGHTS, node] == weight:
            if node != before + 1:
                nodes[RUN, count] = node
                nodes[RUN_NODES, count] = nodes[RUN_CORES, count] = 0
                count += 1
            before = node
            nodes[RUN_NODES, count - 1] += 1
            nodes[RUN_CORES, count - 1] += nodes[LEFT, node]
    while (s.cores > 0 or s.nodes > 0) and s.most > 0:
        best, largest = -1, 0
        for run in range(count):
            suffices = 0 < nodes[RUN_CORES, run] >= s.cores and nodes[RUN_NODES, run] >= s.nodes
            if suffices and (best < 0 or nodes[RUN_CORES, run] < nodes[RUN_CORES, best]):
                best = run
            if nodes[RUN_CORES, run] > nodes[RUN_CORES, largest]:
                largest = run
        best = best if best >= 0 else largest
        if count == 0 or nodes[RUN_CORES, best] == 0:
            return
        for node in range(nodes[RUN, best], nodes[RUN, best] + nodes[RUN_NODES, best]):
            _take_node(own, node)
        nodes[RUN_CORES, best] = 0


@compiled
def _take_leaves(own: Site, weight: int) -> None:
    """Take nodes of a weight switch by switch; see `select._of_leaves`."""
    nodes = own.places.nodes
    s, places = own.s[0], own.places
    for leaf in range(s.leaves):
        places.leaves[LEFT_THERE, leaf] = 0
    for node in range(nodes.shape[1]):
        if nodes[LEFT, node] > 0 and nodes[WEIGHTS, node] == weight and nodes[LEAF, node] >= 0:
            places.leaves[LEFT_THERE, nodes[LEAF, node]] += 1
    if s.has_tree:
        _count_below(own)
    for leaf in range(s.leaves):
        if places.leaves[TAKEN, leaf] > 0:
            _take_leaf(own, weight, leaf)
    while (s.cores > 0 or s.nodes > 0) and s.most > 0:
        if s.has_tree:
            best = _best_leaf(own)
            if best < 0:
                return
            _take_leaf(own, weight, best)
            places.leaves[TAKEN, best] += 1
            continue
        best, largest = -1, 0
        for leaf in range(s.leaves):
            if places.leaves[LEFT_THERE, leaf] >= max(s.nodes, 1) and (
                best < 0 or places.leaves[LEFT_THERE, leaf] < places.leaves[LEFT_THERE, best]
            ):
                best = leaf
            if places.leaves[LEFT_THERE, leaf] > places.leaves[LEFT_THERE, largest]:
                largest = leaf
        best = best if best >= 0 else largest
        if places.leaves[LEFT_THERE, best] == 0:
            return
        _take_leaf(own, weight, best)


@compiled
def _count_below(own: Site) -> None:
    """Count the nodes below each switch; see `select._below`."""
    leaves = own.places.leaves
    for switch in range(leaves.shape[1]):
        leaves[BELOW, switch] = 0
    for leaf in range(own.s[0].leaves):
        switch = leaf
        while leaves[ABOVE, switch] != switch:
            switch = leaves[ABOVE, switch]
            leaves[BELOW, switch] += leaves[LEFT_THERE, leaf] + leaves[TAKEN, leaf]


@compiled
def _best_leaf(own: Site) -> int:
    """Return the next leaf switch; -1: none has nodes left. See `select._best_leaf`."""
    leaves, best, least = own.places.leaves, -1, 0
    for leaf in range(own.s[0].leaves):
        if leaves[LEFT_THERE, leaf] == 0:
            continue
        distance = 0
        for used in range(own.s[0].leaves):
            distance += leaves[DISTANCE + used, leaf] if leaves[TAKEN, used] > 0 else 0
        better = 1 if best < 0 else _fits_better(leaves, own.s[0].nodes, leaf, best)
        is_closer = distance < least and better >= 0
        if best < 0 or is_closer or (distance == least and better > 0):
            best, least = leaf, distance
    return best


@compiled
def _fits_better(leaves: Ints, nodes: int, one: int, other: int) -> int:
    """Return what `select._fits_better` does."""
    first, second = leaves[LEFT_THERE, one], leaves[LEFT_THERE, other]
    while True:
        if first >= nodes and second >= nodes:
            if first != second:
                return 1 if first < second else -1
            break
        if first >= nodes or second >= nodes:
            return 1 if first >= nodes else -1
        if leaves[ABOVE, one] == leaves[ABOVE, other]:
            break
        one, other = leaves[ABOVE, one], leaves[ABOVE, other]
        first, second = leaves[BELOW, one], leaves[BELOW, other]
    return int(first > second) - int(first < second)


@compiled
def _take_leaf(own: Site, weight: int, leaf: int) -> None:
    places, nodes = own.places, own.places.nodes
    for node in range(nodes.shape[1]):
        if nodes[LEFT, node] > 0 and nodes[WEIGHTS, node] == weight and nodes[LEAF, node] == leaf:
            _take_node(own, node)
    places.leaves[LEFT_THERE, leaf] = 0
