"""List scheduling: jobs start in the order of a key until one does not fit."""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.cluster import start
from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.explanations import explain_queue, sleep
from hpcosim_compiled.policies import KEYS
from hpcosim_compiled.state import State
from hpcosim_compiled.waiting import ANY, next_place
from hpcosim_schedulers.heuristics import list_scheduling

_wfp3 = compiled(list_scheduling.wfp3_key)
_unicep = compiled(list_scheduling.unicep_key)
_lxf = compiled(list_scheduling.lxf_key)

WFP3, UNICEP = KEYS.index("wfp3"), KEYS.index("unicep")


@compiled
def key_now(state: State, key: int, row: int) -> float:
    """Return the key of a waiting job; `key` is an index into `policies.KEYS`."""
    job = state.jobs[row]
    if key == 0:
        return float(job.rank)
    wait_s = state.g[0].now_s - job.submit_s
    if key == WFP3:
        return _wfp3(wait_s, job.requested_s, job.cores)
    if key == UNICEP:
        return _unicep(wait_s, job.requested_s, job.cores)
    return _lxf(wait_s, job.requested_s, job.cores)


@compiled
def by_submission(state: State) -> None:
    """Start jobs in submission order until one does not fit."""
    g = state.g[0]
    while g.queued > 0 and start(state, state.queue[g.first]):
        pass


@compiled
def first_come_first_served(state: State) -> None:
    """Start jobs in submission order until one does not fit, and explain the others."""
    by_submission(state)
    sleep(state, state.said, True)
    explain_queue(state, state.said, -1, np.nan)


@compiled
def by_rank(state: State) -> None:
    """Start jobs by rank until one does not fit, and explain the others."""
    while state.g[0].keyed > 0 and start(state, state.keyed[0]):
        pop_by_rank(state)
    sleep(state, state.said, state.g[0].free_cores == 0)
    head = state.keyed[0] if state.g[0].keyed > 0 else -1
    explain_queue(state, state.said, head, np.nan)


@compiled
def pop_by_rank(state: State) -> None:
    """Remove the first job from the heap of ranks."""
    g, keyed = state.g[0], state.keyed
    g.keyed -= 1
    keyed[0] = keyed[g.keyed]
    place = 0
    while True:
        child = 2 * place + 1
        if child + 1 < g.keyed and _ranks_before(state, child + 1, child):
            child += 1
        if child >= g.keyed or _ranks_before(state, place, child):
            break
        keyed[place], keyed[child] = keyed[child], keyed[place]
        place = child


@compiled
def push_by_rank(state: State, row: int) -> None:
    """Add a submitted job to the heap of ranks."""
    keyed, place = state.keyed, state.g[0].keyed
    keyed[place] = row
    state.g[0].keyed += 1
    while place > 0:
        parent = (place - 1) // 2
        if _ranks_before(state, parent, place):
            break
        keyed[place], keyed[parent] = keyed[parent], keyed[place]
        place = parent


@compiled
def _ranks_before(state: State, one: int, other: int) -> bool:
    return state.jobs[state.keyed[one]].rank < state.jobs[state.keyed[other]].rank


@compiled
def by_key_now(state: State, key: int) -> None:
    """Start jobs by a key that changes with time until one does not fit; explain the others."""
    head = _start_by_key_now(state, key)
    sleep(state, state.said, state.g[0].free_cores == 0)
    explain_queue(state, state.said, head, np.nan)


@compiled
def _start_by_key_now(state: State, key: int) -> int:
    """Start jobs by key; return the first that does not fit, -1: none."""
    g, rows, keys = state.g[0], state.rows, state.keys
    if g.free_cores == 0 and not g.explains:
        return -1
    size, place = 0, next_place(state, g.first, ANY)
    while place < g.last:
        rows[size], keys[size] = state.queue[place], key_now(state, key, state.queue[place])
        size, place = size + 1, next_place(state, place + 1, ANY)
    while size > 0:
        least = 0
        for entry in range(1, size):
            if keys[entry] < keys[least]:
                least = entry
        if not start(state, rows[least]):
            return rows[least]
        size -= 1
        for entry in range(least, size):  # of equal keys, the job that was submitted first starts
            keys[entry], rows[entry] = keys[entry + 1], rows[entry + 1]
    return -1
