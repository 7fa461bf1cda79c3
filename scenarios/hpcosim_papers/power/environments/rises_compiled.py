"""Compiled simulations of the power manager `empirical`, for its training.

The job scheduler is `easy` with `power_awareness: planned`, on nodes of one group with power
states and jobs on whole nodes. The decisions are those of `hpcosim_schedulers.predictive.rises`,
which is compiled; what surrounds them is that of `hpcosim_schedulers.predictive.empirical`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_compiled.compiler import Function, compiled, compiled_apart, entry_with
from hpcosim_compiled.loop import DECIDE, FINISHED, FULL, GOES_ON, has_room, next_instant, settle
from hpcosim_compiled.node_power import is_short, see_if_on_first, switch
from hpcosim_compiled.policies import PolicyCode, policy_code
from hpcosim_compiled.state import (
    NO_MANAGER,
    ON,
    SLEEPING,
    SWITCHING_ON,
    ManagerCode,
    State,
    initial_state,
    with_room,
)
from hpcosim_compiled.waiting import ANY, next_place
from hpcosim_protocol import Platform
from hpcosim_schedulers.predictive import empirical, manager, rises
from hpcosim_schedulers.predictive.empirical import facts_of
from hpcosim_schedulers.predictive.rises import (
    DUE_S,
    ENDED,
    SUBMITTED,
    Moment,
    NodeFacts,
    Rises,
    new_rises,
)
from hpcosim_workloads.table import JobTable

_aware = DECIDE["aware"]


def _calling(function: Function, **callees: Callable[..., Any]) -> Function:
    """Return a function that calls others under these names."""
    names = {**function.__globals__, **callees}
    return cast("Function", FunctionType(function.__code__, names))


_classify, _count = compiled_apart(rises.classify), compiled_apart(rises.count)
_pass_time = compiled_apart(_calling(rises.pass_time, classify=_classify, count=_count))
_predict = compiled_apart(_calling(rises.predict, classify=_classify))
_is_due = compiled(_calling(rises.is_due, next_step_s=compiled(manager.next_step_s)))
_submit = compiled(rises.submit)
_best_number, _releases = compiled_apart(rises.best_number), compiled(empirical.releases)


def simulate(platform: Platform, jobs: JobTable, weights: Floats, wait_price_w: float) -> State:
    """Return the state at the end of a simulation.

    Args:
        platform: the cluster; its nodes are of one group, which has power states.
        jobs: the workload; each job takes whole nodes, and fits.
        weights: float64[WEIGHTS], see `rises`.
        wait_price_w: price of waiting, J/s.
    """
    feasible = np.ones(len(jobs), np.bool_)
    policy, rng = policy_code("easy", "planned"), np.random.default_rng(0)
    assert policy is not None
    state = initial_state(
        platform,
        jobs,
        feasible,
        np.arange(len(jobs)),
        kill_at_walltime=False,
        reference_ghz=None,
        names_nodes=True,
        manager=ManagerCode(NO_MANAGER),
    )
    past, facts = new_rises(), facts_of(platform, wait_price_w)
    while play(state, policy, past, facts, weights) != FINISHED:
        state = with_room(state, rng, rng)
    settle(state)
    return state


@entry_with(rises, empirical, manager)
def play(state: State, policy: PolicyCode, past: Rises, facts: NodeFacts, weights: Floats) -> int:
    """Simulate until all jobs are over, or until `with_room` is needed."""
    g, result = state.g[0], GOES_ON
    while result == GOES_ON:
        if g.over == g.jobs:
            result = FINISHED
        elif is_short(state, state.power):
            result = FULL
        elif not g.is_woken:
            g.is_woken = next_instant(state, False)
        elif not has_room(state, state.ahead, state.said, state.processors, state.power):
            result = FULL
        else:
            g.is_woken = False
            see_if_on_first(state.power)
            _aware(state, policy)
            if g.submitted < g.jobs or g.queued > 0 or g.running > 0:
                _manage(state, state.power, past, facts, weights)
    return result


@compiled_apart
def _manage(state: State, power: Any, past: Rises, facts: NodeFacts, weights: Floats) -> None:
    """Call the power manager; see `empirical`."""
    if power is None:
        return
    g, jobs, capacity = state.g[0], state.jobs, state.nodes[0].capacity
    busy = released = waiting = new = 0.0
    for entry in range(g.running):
        job = jobs[state.due[entry].number]
        nodes = float(math.ceil(job.cores / capacity))
        busy += nodes
        released += _releases(nodes, g.now_s - job.start_s, facts.even_s)
    place = next_place(state, g.first, ANY)
    while place < g.last:
        waiting += float(math.ceil(jobs[state.queue[place]].cores / capacity))
        place = next_place(state, place + 1, ANY)
    known, demand = past.n[SUBMITTED], busy + waiting
    has_changed = g.submitted > known or g.over != past.n[ENDED]
    _pass_time(past, facts, g.now_s, g.over)
    for row in range(known, g.submitted):
        new += float(math.ceil(jobs[row].cores / capacity))
    before = demand - new
    for row in range(known, g.submitted):
        before += float(math.ceil(jobs[row].cores / capacity))
        _submit(past, g.now_s, before)
    if _is_due(past, facts, g.now_s, demand, has_changed):
        moment = Moment(g.now_s, g.queued, waiting, busy, released)
        _decide(state, power, past, facts, moment, weights)
    power.g[0].alarm_s = past.g[DUE_S]


@compiled_apart
def _decide(
    state: State, power: Any, past: Rises, facts: NodeFacts, moment: Moment, weights: Floats
) -> None:
    idle = booting = asleep = 0
    for node in range(len(power.nodes)):
        if state.free[node] == state.nodes[node].capacity:
            each = power.nodes[node]
            idle += each.state == ON and not each.is_planned
            booting += each.state == SWITCHING_ON and not each.is_planned
            asleep += each.state == SLEEPING
    if idle + booting + asleep == 0:
        return
    _predict(past, facts, moment, weights)
    best = _best_number(past, facts, weights, idle, booting, asleep)
    left, more = best, best - idle - booting
    for node in range(len(power.nodes)):
        each = power.nodes[node]
        is_free = state.free[node] == state.nodes[node].capacity
        if is_free and each.state == ON and not each.is_planned:
            left -= 1
            if left < 0:
                switch(state, power, node)
    for node in range(len(power.nodes)):
        is_free = state.free[node] == state.nodes[node].capacity
        if more > 0 and is_free and power.nodes[node].state == SLEEPING:
            switch(state, power, node)
            more -= 1
