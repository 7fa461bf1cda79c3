"""The steps of a profile: `State.profile` has a number of free cores from a time to the next."""

from __future__ import annotations

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.state import State


@compiled
def step_at(state: State, at_s: float) -> int:
    """Return the step of a time; 0: it is before all."""
    low, high = 0, state.g[0].steps
    while low < high:
        middle = (low + high) // 2
        if at_s < state.profile[middle].at_s:
            high = middle
        else:
            low = middle + 1
    return max(low - 1, 0)


@compiled
def split(state: State, at_s: float) -> int:
    """Make a step begin at a time, and return its number."""
    profile, g = state.profile, state.g[0]
    step = step_at(state, at_s)
    if profile[step].at_s == at_s:
        return step
    for later in range(g.steps, step + 1, -1):
        profile[later].at_s = profile[later - 1].at_s
        profile[later].number = profile[later - 1].number
    profile[step + 1].at_s, profile[step + 1].number = at_s, profile[step].number
    g.steps += 1
    return step + 1
