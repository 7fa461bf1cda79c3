"""What jobs of `slurm` are charged, and the fair-share factors of users.

The functions follow `slurm.charges` and `slurm.tres` of `hpcosim_schedulers`.
"""

from __future__ import annotations

import math

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.slurm.lists import drop
from hpcosim_compiled.slurm.state import (
    BY_CORES,
    BY_FACTOR,
    BY_MEMORY,
    BY_NODES,
    CAPACITY,
    DECAYS,
    FRESH,
    RATES,
    USAGE,
    Rules,
    Site,
)
from hpcosim_compiled.state import State
from hpcosim_schedulers.slurm.charges import BILLING, WALL, times_decayed

BILLED, CORES, NODES = range(3)
"""The first TRES of `Rules.tres`."""

_times_decayed = compiled(times_decayed)


@compiled_apart
def set_tres(state: State, own: Site, rules: Rules, row: int) -> None:
    """Set `Rules.tres` to the TRES that a job holds; see `tres.TresOf.of_job`."""
    owner, job = rules.owners[row], own.jobs[row]
    period = state.periods[state.jobs[row].period]
    cores, memory_mb = 0, 0.0
    for at in range(period.first_place, period.first_place + period.places):
        node = state.places[at].node
        cores += own.places.amounts[CAPACITY, node] if job.whole else state.places[at].tasks
        memory_mb += rules.node_mb[node]
    for each in range(len(rules.tres)):
        rules.tres[each].amount = 0.0
    rules.tres[CORES].amount, rules.tres[NODES].amount = cores, period.places
    for at in range(owner.first_term, owner.first_term + owner.terms):
        term = rules.terms[at]
        if term.of == BY_FACTOR:
            rules.tres[term.tres].amount += term.amount * term.factor
        elif term.of == BY_NODES:
            rules.tres[term.tres].amount += term.amount * period.places
        elif term.of == BY_CORES:
            rules.tres[term.tres].amount += term.amount * cores
        elif term.of == BY_MEMORY:
            rules.tres[term.tres].amount += memory_mb
    if owner.weights == 0:
        rules.tres[BILLED].amount = rules.tres[CORES].amount
        return
    total = of_nodes = most = 0.0
    for at in range(owner.first_weight, owner.first_weight + owner.weights):
        amount = rules.weights[at].weight * rules.tres[rules.weights[at].tres].amount
        total += amount
        if rules.weights[at].of_node:
            of_nodes += amount
            most = max(most, amount)
    rules.tres[BILLED].amount = most + total - of_nodes if own.s[0].max_tres else total


@compiled
def _rate(rules: Rules, row: int, column: int) -> float:
    """Return what a job whose TRES are set uses in a second of a column."""
    factor = rules.owners[row].factor
    if column == WALL:
        return factor * 1.0
    return factor * rules.tres[BILLED if column == BILLING else rules.tres[column].of_column].amount


@compiled
def begin_usage(state: State, own: Site, rules: Rules, row: int) -> None:
    """Start to charge a job."""
    r = own.s[0]
    rules.owners[row].since_s, rules.owners[row].is_fresh = state.jobs[row].start_s, True
    place = r.fresh
    while place > 0 and rules.owners[own.lists[FRESH, place - 1]].job_id > rules.owners[row].job_id:
        own.lists[FRESH, place] = own.lists[FRESH, place - 1]
        place -= 1
    own.lists[FRESH, place] = row
    r.fresh += 1
    r.charged += 1


@compiled_apart
def end_usage(state: State, own: Site, rules: Rules, row: int) -> None:
    """Charge the rest of a job that is over; its TRES are set."""
    r, owner = own.s[0], rules.owners[row]
    r.charged -= 1
    _add(own, rules, row, state.g[0].now_s)
    if owner.is_fresh:
        owner.is_fresh = False
        drop(own, FRESH, r.fresh, row)
        r.fresh -= 1
    elif r.charged > r.fresh:
        for at in range(owner.first_row, owner.first_row + owner.rows):
            for column in range(rules.usage.shape[2]):
                rules.usage[RATES, rules.numbers[at], column] -= _rate(rules, row, column)
    else:
        for each in range(rules.usage.shape[1]):
            for column in range(rules.usage.shape[2]):
                rules.usage[RATES, each, column] = 0.0


@compiled
def _add(own: Site, rules: Rules, row: int, until_s: float) -> None:
    """Add the usage of a job since the last calculation, decayed by that time."""
    r, owner = own.s[0], rules.owners[row]
    ran_s = until_s - max(owner.since_s, r.last_s)
    if ran_s > 0.0:
        decay = math.pow(r.decay_per_s, ran_s)
        for at in range(owner.first_row, owner.first_row + owner.rows):
            each = rules.numbers[at]
            left = decay if rules.usage[DECAYS, each, 0] > 0.0 else 1.0
            for column in range(rules.usage.shape[2]):
                amount = _rate(rules, row, column) * ran_s
                rules.usage[USAGE, each, column] += amount * left


@compiled_apart
def calculate_usage(state: State, own: Site, rules: Rules, due: int) -> None:
    """Make the calculations of usage up to a number; see `charges.Usage.advance`."""
    s = own.s[0]
    while due > s.calculations:
        count = 1 if s.fresh > 0 else due - s.calculations
        decay = math.pow(s.decay_per_s, s.calculation_s)
        times, decayed = _times_decayed(decay, count), math.pow(decay, count)
        for each in range(rules.usage.shape[1]):
            decays = rules.usage[DECAYS, each, 0] > 0.0
            for column in range(rules.usage.shape[2]):
                added = (
                    rules.usage[RATES, each, column] * s.calculation_s * (decay if decays else 1.0)
                )
                if count > 1:
                    added *= times if decays else float(count)
                rules.usage[USAGE, each, column] *= decayed if decays else 1.0
                rules.usage[USAGE, each, column] += added
        s.calculations += count
        at_s, kept = s.first_s + s.calculations * s.calculation_s, 0
        for place in range(s.fresh):
            row = own.lists[FRESH, place]
            if rules.owners[row].since_s < at_s:
                _settle(state, own, rules, row, at_s)
            else:
                own.lists[FRESH, kept] = row
                kept += 1
        s.fresh, s.last_s = kept, at_s
    for number in range(len(rules.associations)):
        association = rules.associations[number]
        association.total = rules.usage[USAGE, association.row, BILLING]
    s.has_shares = False


@compiled
def _settle(state: State, own: Site, rules: Rules, row: int, at_s: float) -> None:
    """Charge a job that started after the last calculation, and note its rates."""
    owner = rules.owners[row]
    set_tres(state, own, rules, row)
    _add(own, rules, row, at_s)
    owner.is_fresh = False
    for at in range(owner.first_row, owner.first_row + owner.rows):
        for column in range(rules.usage.shape[2]):
            rules.usage[RATES, rules.numbers[at], column] += _rate(rules, row, column)


# Fair-share.


@compiled
def share_of(own: Site, rules: Rules, number: int) -> float:
    """Return the fair-share factor of an association at the last calculation."""
    if not own.s[0].has_shares:
        _rank(own, rules)
    return rules.associations[number].share


@compiled_apart
def _rank(own: Site, rules: Rules) -> None:
    """Rank the users; see `charges.ShareTree.fair_tree`."""
    r, each = own.s[0], rules.associations
    r.has_shares = True
    users = _set_levels(own, rules)
    left = rank = users
    filled = _add_children(own, rules, 0, 0)
    each[0].begin, each[0].end, each[0].tied, depth = 0, filled, 0, 1
    while depth > 0:
        depth -= 1
        begin, end, tied = each[depth].begin, each[depth].end, each[depth].tied
        if begin == end:
            continue
        _sort(rules, begin, end)
        level, stop, count = each[rules.associations[begin].walk].level, begin, 0
        while stop < end and each[rules.associations[stop].walk].level == level:
            count += each[rules.associations[stop].walk].is_user
            stop += 1
        if stop < end:
            each[depth].begin, each[depth].end, each[depth].tied = stop, end, 0
            depth += 1
        if count > 0:
            rank = rank if tied else left
            left -= count
        first = filled
        for place in range(begin, stop):
            if each[rules.associations[place].walk].is_user:
                each[rules.associations[place].walk].share = rank / users
            else:
                filled = _add_children(own, rules, rules.associations[place].walk, filled)
        if filled > first:
            each[depth].begin, each[depth].end = first, filled
            each[depth].tied = 1 if tied or count > 0 else 0
            depth += 1


@compiled
def _set_levels(own: Site, rules: Rules) -> int:
    """Set the level fair-share of the known associations; return the number of users."""
    each, known, users = rules.associations, own.s[0].known, 0
    for number in range(len(each)):
        each[number].of_level = 0.0
        each[number].share = 0.0 if number < known else 1.0
    for number in range(1, known):
        each[each[number].parent].of_level += each[number].shares
    for number in range(known):
        one = each[number]
        users += one.is_user
        above = each[max(one.parent, 0)]
        share = used = 0.0
        if number > 0 and above.of_level > 0.0:
            share = one.shares / above.of_level
        if above.total > 0.0:
            used = one.total / above.total
        one.level = np.inf
        if used > 0.0:
            one.level = share / used
        if share == 0.0:
            one.level = 0.0
        if not one.competes:
            one.level = np.inf
    return users


@compiled
def _add_children(own: Site, rules: Rules, number: int, filled: int) -> int:
    """Append the known associations that compete below one to the walk; return its length."""
    child = rules.associations[number].child
    while 0 <= child < own.s[0].known:
        rules.associations[filled].walk = child
        filled += 1
        child = rules.associations[child].sibling
    return filled


@compiled
def _sort(rules: Rules, begin: int, end: int) -> None:
    """Sort a part of the walk by descending level fair-share."""
    each = rules.associations
    for place in range(begin + 1, end):
        number, at = rules.associations[place].walk, place
        while at > begin and each[rules.associations[at - 1].walk].level < each[number].level:
            rules.associations[at].walk = rules.associations[at - 1].walk
            at -= 1
        rules.associations[at].walk = number
