"""How far the demand for nodes rose in the past, and the number of spare nodes that follows.

The demand is the number of nodes that the running and the waiting jobs need. At fixed steps of time
its rises within each of `HOLDS` are counted, in one group of each of several `TABLES`: by the hour,
the recent submissions, the level of the demand and others. The forecast of a rise is the weighted
mean of the tables for the present groups, corrected by a linear function of the moment.

The functions are loops over scalars, which `hpcosim_papers` also compiles: a compiled simulation
has the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_schedulers.predictive.manager import SOONEST, next_step_s

EDGES = (
    *(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024),
    *(1536, 2048, 3072, 4096),
)
"""Rises in nodes that are counted; greater ones count as the last."""
HOLDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Times for which a node may be held, relative to `NodeFacts.even_s`."""
LEVELS, TIMES = len(EDGES), len(HOLDS)

STEP = 0.25
"""Time between two counts, relative to `NodeFacts.even_s`."""
LEAST_STEP_S = 60.0
RECENT = 4
"""Steps in which submissions and ends are recent."""
STEPS = 64
"""Steps that are remembered; a count is complete `HOLDS[-1]` after its step."""
ARRIVALS = 4096
"""Submissions that are remembered."""

TABLES = 7
GROUPS = 66
FIRST = (0, 1, 2, 26, 32, 52, 60)
"""First group of each table: all steps, all steps, the hour of the day, the number of recent
submissions, the logarithm of the demand, the time since the last submission, the number of recent
ends."""
MEMORY = (600.0, 16.0, 40.0, 200.0, 100.0, 200.0, 200.0)
"""Counts after which those before are forgotten to 1/e, of each table."""
FEW = 8.0
"""Counts at which a table has half of its weight."""

TERMS = 13
PRIOR, PRICE, CHANCE = TABLES, TABLES + 1, TABLES + 2
WAITS = CHANCE + TERMS
WEIGHTS = WAITS + TERMS
"""Number of learned weights: the logarithms of the weights of the tables, of that of the records to
come and of a factor on the price, and the linear corrections of the log-odds of a rise and of the
logarithm of the waits."""
MOST_LOG_ODDS, MOST_LOG = 8.0, 4.0
"""Bounds of the corrections."""
LEAST_CHANCE = 1e-4

DAY_S, HOUR_S = 86_400.0, 3600.0

BEGAN_S, DEMAND, LAST_S, DUE_S, PAUSE_S, DECIDED_S, MOST = range(7)
STEPPED, SUBMITTED, ENDED = range(3)


class NodeFacts(NamedTuple):
    """The nodes that can be switched, on average, and the price of waiting.

    Attributes:
        boot_s: time to switch one on, s.
        even_s: the larger of that and of the idle time that costs as much as a cycle, s.
        hold_w: power of an idle node less that of one asleep, W.
        cycle_j: energy of switching one off and on, less that of sleeping, J.
        price_w: price of waiting, J/s.
        nodes: number of nodes of the cluster.
    """

    boot_s: float
    even_s: float
    hold_w: float
    cycle_j: float
    price_w: float
    nodes: float


class Moment(NamedTuple):
    """The jobs at a decision.

    Attributes:
        waiting: number of waiting jobs.
        waiting_nodes: nodes that they need.
        busy: nodes that running jobs need.
        released: nodes that running jobs release within `NodeFacts.even_s`, if a job that has run
            for `a` ends in it with probability `even_s / (even_s + a)`.
    """

    now_s: float
    waiting: int
    waiting_nodes: float
    busy: float
    released: float


class Rises(NamedTuple):
    """What is remembered, and space for a decision.

    Attributes:
        g: begin, demand, last submission, next and last decision (s), pause, greatest demand.
        n: numbers of steps, of submissions and of ends.
        arrived_s, arrived: time of each submission, and the demand after it.
        demand, submitted, ended: of each step.
        group: int64[steps, tables], the groups of each step.
        next_step, next_arrival: of each of `HOLDS`, what is to be counted next.
        counts: float64[groups, times], counts.
        rose: float64[groups, times, levels], those with a rise of at least a level.
        waits: float64[groups, times, levels], jobs that would have waited for the boot of nodes at
            a level, in boots, between one time and the next.
        chance, saved: float64[times, levels], the forecast of both for the next decision.
        idle_s, boot_idle_s, first_s, found, kept, woken, here: space.
    """

    g: Floats
    n: Ints
    arrived_s: Floats
    arrived: Floats
    demand: Floats
    submitted: Ints
    ended: Ints
    group: Ints
    next_step: Ints
    next_arrival: Ints
    counts: Floats
    rose: Floats
    waits: Floats
    chance: Floats
    saved: Floats
    idle_s: Floats
    boot_idle_s: Floats
    first_s: Floats
    found: Floats
    kept: Floats
    woken: Floats
    here: Ints


def new_rises() -> Rises:
    """Return the memory before the first call."""
    return Rises(
        g=np.array([math.nan, 0.0, math.nan, -math.inf, 0.0, -math.inf, 0.0]),
        n=np.zeros(3, np.int64),
        arrived_s=np.zeros(ARRIVALS),
        arrived=np.zeros(ARRIVALS),
        demand=np.zeros(STEPS),
        submitted=np.zeros(STEPS, np.int64),
        ended=np.zeros(STEPS, np.int64),
        group=np.zeros((STEPS, TABLES), np.int64),
        next_step=np.zeros(TIMES, np.int64),
        next_arrival=np.zeros(TIMES, np.int64),
        counts=np.zeros((GROUPS, TIMES)),
        rose=np.zeros((GROUPS, TIMES, LEVELS)),
        waits=np.zeros((GROUPS, TIMES, LEVELS)),
        chance=np.zeros((TIMES, LEVELS)),
        saved=np.zeros((TIMES, LEVELS)),
        idle_s=np.zeros((TIMES, LEVELS)),
        boot_idle_s=np.zeros(LEVELS),
        first_s=np.zeros(LEVELS),
        found=np.zeros(LEVELS),
        kept=np.zeros(LEVELS),
        woken=np.zeros(LEVELS),
        here=np.zeros(TABLES, np.int64),
    )


def classify(rises: Rises, facts: NodeFacts, now_s: float, groups: Ints) -> None:
    """Write the group of a moment in each table."""
    g, steps = rises.g, rises.n[STEPPED]
    submitted, ended = rises.n[SUBMITTED], rises.n[ENDED]
    if steps >= RECENT:
        submitted -= rises.submitted[(steps - RECENT) % STEPS]
        ended -= rises.ended[(steps - RECENT) % STEPS]
    pause = (now_s - g[LAST_S]) / facts.even_s
    for table in range(TABLES):
        groups[table] = FIRST[table]
    groups[2] += int(now_s % DAY_S // HOUR_S)
    groups[3] += min(submitted, 2) + (submitted > 2) + (submitted > 4) + (submitted > 8)
    groups[4] += min(int(2.0 * math.log2(g[DEMAND] + 1.0)), 19)
    for step in range(7):
        groups[5] += pause >= 2.0 ** (step - 4)
    groups[6] += min(ended, 2) + (ended > 2) + (ended > 4) + (ended > 8)


def count(rises: Rises, facts: NodeFacts, spaced_s: float, time: int, step: int) -> None:
    """Count the rise after a step within a time to hold, and the jobs that would have waited."""
    at_s, submitted, first_s = rises.g[BEGAN_S] + step * spaced_s, rises.n[SUBMITTED], rises.first_s
    from_s = at_s if time == 0 else at_s + HOLDS[time - 1] * facts.even_s
    to_s, most = at_s + HOLDS[time] * facts.even_s, 0.0
    each = max(rises.next_arrival[time], submitted - ARRIVALS)
    while each < submitted and rises.arrived_s[each % ARRIVALS] <= at_s:
        each += 1
    rises.next_arrival[time] = each
    for level in range(LEVELS):
        first_s[level], rises.found[level] = np.inf, 0.0
    while each < submitted and rises.arrived_s[each % ARRIVALS] <= to_s:
        came_s = rises.arrived_s[each % ARRIVALS]
        rise = rises.arrived[each % ARRIVALS] - rises.demand[step % STEPS]
        if rise > 0.0:
            level = 0
            while level < LEVELS - 1 and EDGES[level] < rise:
                level += 1
            below = level
            while below >= 0 and first_s[below] == np.inf:  # this job would have begun their boot
                first_s[below] = came_s
                below -= 1
            most = max(most, rise)
            if came_s > from_s:
                wait_s = first_s[level] + facts.boot_s - came_s
                rises.found[level] += max(wait_s, 0.0) / facts.boot_s
        each += 1
    for table in range(TABLES):
        group, kept = rises.group[step % STEPS, table], 1.0 - 1.0 / MEMORY[table]
        rises.counts[group, time] = rises.counts[group, time] * kept + 1.0
        for level in range(LEVELS):
            rose = 1.0 if most >= EDGES[level] else 0.0
            rises.rose[group, time, level] = rises.rose[group, time, level] * kept + rose
            waits = rises.waits[group, time, level] * kept + rises.found[level]
            rises.waits[group, time, level] = waits


def pass_time(rises: Rises, facts: NodeFacts, now_s: float, ended: int) -> None:
    """Count the rises of the steps up to now, before the submissions of now.

    Args:
        ended: number of jobs that have ended.
    """
    g, n, spaced_s = rises.g, rises.n, max(STEP * facts.even_s, LEAST_STEP_S)
    if np.isnan(g[BEGAN_S]):
        g[BEGAN_S] = g[LAST_S] = now_s
    while g[BEGAN_S] + n[STEPPED] * spaced_s <= now_s:
        step = n[STEPPED]
        at_s, place = g[BEGAN_S] + step * spaced_s, step % STEPS
        classify(rises, facts, at_s, rises.group[place])
        rises.demand[place] = g[DEMAND]
        rises.submitted[place], rises.ended[place] = n[SUBMITTED], n[ENDED]
        n[STEPPED] = step + 1
        for time in range(TIMES):
            over_s = at_s - HOLDS[time] * facts.even_s
            while g[BEGAN_S] + rises.next_step[time] * spaced_s <= over_s:
                count(rises, facts, spaced_s, time, rises.next_step[time])
                rises.next_step[time] += 1
    n[ENDED] = ended


def submit(rises: Rises, now_s: float, demand: float) -> None:
    """Note a submission, and the demand after it."""
    place = rises.n[SUBMITTED] % ARRIVALS
    rises.arrived_s[place], rises.arrived[place] = now_s, demand
    rises.n[SUBMITTED] += 1
    rises.g[LAST_S] = now_s


def is_due(rises: Rises, facts: NodeFacts, now_s: float, demand: float, has_changed: bool) -> bool:
    """Return whether to decide now. If so, set the time of the next decision without an event.

    Args:
        demand: the demand now.
        has_changed: whether jobs were submitted or have ended.
    """
    g = rises.g
    g[DEMAND], g[MOST] = demand, max(g[MOST], demand)
    if has_changed:
        g[DUE_S], g[PAUSE_S] = min(g[DUE_S], g[DECIDED_S] + SOONEST * facts.even_s), 0.0
    if now_s < g[DUE_S]:
        return False
    g[PAUSE_S] = next_step_s(g[PAUSE_S], facts.even_s)
    g[DECIDED_S], g[DUE_S] = now_s, now_s + g[PAUSE_S]
    return True


def predict(rises: Rises, facts: NodeFacts, moment: Moment, weights: Floats) -> None:
    """Write the forecast of rises and waits, for weights float64[WEIGHTS]."""
    g, now_s, submitted = rises.g, moment.now_s, rises.n[SUBMITTED]
    classify(rises, facts, now_s, rises.here)
    seen_s, recent = max(now_s - g[BEGAN_S], 1.0), submitted
    if rises.n[STEPPED] >= RECENT:
        recent -= rises.submitted[(rises.n[STEPPED] - RECENT) % STEPS]
    rate = submitted / max(seen_s / facts.even_s, 1.0)
    worth = facts.price_w * facts.boot_s / max(facts.cycle_j, 1e-9)
    age = math.log(1.0 + seen_s / facts.even_s) / 5.0 - 0.7
    is_waiting = 1.0 if moment.waiting > 0 else 0.0
    load = moment.busy / facts.nodes - 0.5
    surge = math.log((recent + 1.0) / (rate + 1.0))
    pause = math.log(1.0 + 8.0 * (now_s - g[LAST_S]) / facts.even_s)
    price = 0.5 * math.log(max(worth, 1e-9))
    prior = math.exp(weights[PRIOR]) * (FEW / (rises.counts[0, TIMES - 1] + FEW) + 0.02)
    for time in range(TIMES):
        hold_s, total = HOLDS[time] * facts.even_s, prior
        log_hold = math.log(HOLDS[time])
        since = 0.0 if time == 0 else HOLDS[time - 1]
        share = (HOLDS[time] - since) / HOLDS[time]
        above = 0.0
        for place in range(LEVELS):  # records to come, see `futures.Records` and its `EXPONENT`
            level = LEVELS - 1 - place
            ratio = (g[DEMAND] + EDGES[level]) / max(g[MOST], 1.0)
            record = hold_s / (seen_s + hold_s)
            if ratio > 1.0:
                record /= ratio * math.sqrt(ratio)
            rises.chance[time, level] = prior * record
            rises.saved[time, level] = prior * (record - above) * share
            above = record
        for table in range(TABLES):
            group = rises.here[table]
            counts = rises.counts[group, time]
            weight = math.exp(weights[table]) / (counts + FEW)
            total += weight * counts
            for level in range(LEVELS):
                rises.chance[time, level] += weight * rises.rose[group, time, level]
                rises.saved[time, level] += weight * rises.waits[group, time, level]
        for level in range(LEVELS):
            nodes = float(EDGES[level])
            chance = min(max(rises.chance[time, level] / total, LEAST_CHANCE), 1.0 - LEAST_CHANCE)
            log_odds = math.log(chance / (1.0 - chance))
            size, relative = math.log(nodes) / 5.0, math.log(nodes / facts.nodes) / 5.0 + 0.5
            asked = min(moment.waiting_nodes / nodes, 1.0)
            released = math.log((nodes + moment.released) / nodes)
            odds = logarithm = 0.0
            for output in range(2):
                at = CHANCE if output == 0 else WAITS
                value = weights[at] + weights[at + 1] * log_hold + weights[at + 2] * size
                value += weights[at + 3] * age + weights[at + 4] * is_waiting
                value += weights[at + 5] * asked + weights[at + 6] * load
                value += weights[at + 7] * surge + weights[at + 8] * pause
                value += weights[at + 9] * released + weights[at + 10] * price
                value += weights[at + 11] * (0.2 * log_odds) + weights[at + 12] * relative
                odds, logarithm = (value, 0.0) if output == 0 else (odds, value)
            odds = log_odds + min(max(odds, -MOST_LOG_ODDS), MOST_LOG_ODDS)
            chance = 1.0 / (1.0 + math.exp(-odds))
            if time > 0:
                chance = max(chance, rises.chance[time - 1, level])
            if level > 0:
                chance = min(chance, rises.chance[time, level - 1])
            rises.chance[time, level] = chance
            factor = math.exp(min(max(logarithm, -MOST_LOG), MOST_LOG))
            rises.saved[time, level] = rises.saved[time, level] / total * factor


def best_number(
    rises: Rises, facts: NodeFacts, weights: Floats, idle: int, booting: int, asleep: int
) -> int:
    """Return the number of spare nodes of the least expected cost; see `manager.costs_j`.

    Only numbers of `EDGES`, `idle`, `idle + booting` and all are compared.

    Args:
        weights: float64[WEIGHTS].
        idle, booting, asleep: numbers of nodes without a job, in the order in which jobs use them.
    """
    boot_s, hold_w, cycle_j = facts.boot_s, facts.hold_w, facts.cycle_j
    price_w, pause_s = facts.price_w * math.exp(weights[PRICE]), rises.g[PAUSE_S]
    warm, whole, best, least_j = idle + booting, idle + booting + asleep, 0, 0.0
    for level in range(LEVELS):  # the mean time until a rise, within the hold and within the boot
        idle_s = from_s = chance = within_s = 0.0
        for time in range(TIMES):
            to_s, later = HOLDS[time] * facts.even_s, rises.chance[time, level]
            if from_s < boot_s <= to_s:
                at = chance + (later - chance) * ((boot_s - from_s) / (to_s - from_s))
                within_s = idle_s + (boot_s - from_s) * (1.0 - 0.5 * (chance + at))
            idle_s += (to_s - from_s) * (1.0 - 0.5 * (chance + later))
            rises.idle_s[time, level] = idle_s
            from_s, chance = to_s, later
        rises.boot_idle_s[level] = within_s
        rises.kept[level] = rises.woken[level] = 0.0
    from_s = 0.0
    for time in range(TIMES):
        to_s = HOLDS[time] * facts.even_s
        mean_s, share = 0.5 * (from_s + to_s), 0.0
        if mean_s <= boot_s + pause_s:
            share = min(mean_s, boot_s) / max(boot_s, 1e-9)
        for level in range(LEVELS):  # waits that a kept, and that a woken node saves, in boots
            rises.kept[level] += rises.saved[time, level]
            rises.woken[level] += rises.saved[time, level] * share
        from_s, number, level, cost_j = to_s, 0, 0, 0.0
        while number < whole:
            while level < LEVELS - 1 and EDGES[level + 1] <= number:
                level += 1
            upper = 0 if number == 0 else min(level + 1, LEVELS - 1)
            to = EDGES[upper] if EDGES[upper] > number else whole
            for bound in (idle, warm, whole):
                if number < bound < to:
                    to = bound
            nodes, share = float(to - number), 0.0
            if upper > level:  # the mean over these nodes of their place between the edges
                low, high = EDGES[level], EDGES[upper]
                share = (0.5 * (number + 1 + to) - low) / (high - low)
            chance = (1.0 - share) * rises.chance[time, level]
            chance += share * rises.chance[time, upper]
            idle_s = (1.0 - share) * rises.idle_s[time, level]
            idle_s += share * rises.idle_s[time, upper]
            width = EDGES[upper] - (EDGES[upper - 1] if upper > 0 else 0)
            saved = energy_j = 0.0
            if to <= idle:
                energy_j, saved = hold_w * idle_s - cycle_j * chance, rises.kept[upper]
            elif number >= warm:
                energy_j, saved = cycle_j * (1.0 - chance), rises.woken[upper]
                if to_s > boot_s:
                    low_s, high_s = rises.boot_idle_s[level], rises.boot_idle_s[upper]
                    energy_j += hold_w * (idle_s - (1.0 - share) * low_s - share * high_s)
            if number >= EDGES[LEVELS - 1]:
                saved = 0.0
            cost_j += nodes * (energy_j - price_w * boot_s * (saved / width))
            number = to
            if cost_j < least_j:
                least_j, best = cost_j, number
    return best
