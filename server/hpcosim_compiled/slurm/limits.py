"""The limits of a site that refuse or hold jobs of `slurm`; see `slurm.limits` there."""

from __future__ import annotations

import numpy as np

from hpcosim_compiled.compiler import compiled, compiled_apart
from hpcosim_compiled.slurm.charges import begin_usage, end_usage, set_tres, share_of
from hpcosim_compiled.slurm.lists import drop
from hpcosim_compiled.slurm.state import AMOUNTS, STARTED, USAGE, Rules, Site
from hpcosim_compiled.state import Records, State

(
    NOTHING,
    RUNNING,
    SUBMITTED,
    TRES,
    MINUTES,
    USED,
    USED_MINUTES,
    PLANNED,
    UNFAIR,
) = range(len(AMOUNTS))


@compiled
def is_held(state: State, own: Site, rules: Rules | None, candidate: Records) -> bool:
    """Return whether a limit holds a job in a partition."""
    if rules is None:
        return candidate.held
    first, count = candidate.first_check, candidate.checks
    return candidate.held or _first_that_holds(state, own, rules, first, count) >= 0


@compiled_apart
def _first_that_holds(state: State, own: Site, rules: Rules, first: int, count: int) -> int:
    """Return the reason of the first of some limits that holds; -1: none does."""
    for at in range(first, first + count):
        check = rules.checks[at]
        if _present(state, own, rules, check) + check.own > check.most:
            return check.reason
    return -1


@compiled
def _present(state: State, own: Site, rules: Rules, check: Records) -> float:
    """Return what there is of what a limit concerns; see `limits.Limits.present`."""
    if check.what == NOTHING:
        return 0.0
    if check.what == RUNNING:
        return float(rules.groups[check.group].running)
    if check.what == SUBMITTED:
        group = rules.groups[check.group]
        return float(group.waiting + group.running)
    if check.what == TRES:
        return rules.tres_of[check.group, check.tres]
    if check.what == MINUTES:
        return _run_minutes(state, own, rules, check)
    if check.what == UNFAIR:
        return -share_of(own, rules, check.number) if check.number >= 0 else 0.0
    used = rules.usage[USAGE, check.number, check.column]
    if check.what == PLANNED:
        return used / 60.0 + _run_minutes(state, own, rules, check)
    if check.what == USED_MINUTES:
        used = used / 60.0
    return np.inf if used >= check.limit else used


@compiled_apart
def _run_minutes(state: State, own: Site, rules: Rules, check: Records) -> float:
    """Return the TRES-minutes that the running jobs of a group may still use."""
    left = 0.0
    for place in range(own.s[0].running):
        row = own.lists[STARTED, place]
        if _is_of(rules, row, check.group):
            set_tres(state, own, rules, row)
            end_s = state.jobs[row].start_s + state.jobs[row].requested_s
            left += rules.tres[check.tres].amount * max(end_s - state.g[0].now_s, 0.0)
    return left / 60.0


@compiled
def _is_of(rules: Rules, row: int, group: int) -> bool:
    owner = rules.owners[row]
    for at in range(owner.first_group, owner.first_group + owner.groups):
        if rules.numbers[at] == group:
            return True
    return False


# Jobs that are submitted, start and leave.


@compiled
def refusal(state: State, own: Site, rules: Rules | None, row: int) -> int:
    """Return the reason to reject a job at its submission; -1: none."""
    if rules is None or own.jobs[row].refused >= 0:
        return own.jobs[row].refused
    return _submit(state, own, rules, row)


@compiled_apart
def _submit(state: State, own: Site, rules: Rules, row: int) -> int:
    owner = rules.owners[row]
    reason = _first_that_holds(state, own, rules, owner.first_submit, owner.submits)
    if reason < 0 and own.jobs[row].late >= 0:
        reason = own.jobs[row].late
    if reason < 0:
        count_submission(own, rules, row)
    return reason


@compiled
def count_submission(own: Site, rules: Rules | None, row: int) -> None:
    """Count a job that was not rejected."""
    if rules is not None:
        owner = rules.owners[row]
        for at in range(owner.first_group, owner.first_group + owner.groups):
            rules.groups[rules.numbers[at]].waiting += 1


@compiled
def forget_submission(own: Site, rules: Rules | None, row: int) -> None:
    """Count a job no more that was cancelled while it waited."""
    if rules is not None:
        owner = rules.owners[row]
        for at in range(owner.first_group, owner.first_group + owner.groups):
            rules.groups[rules.numbers[at]].waiting -= 1


@compiled
def charge(state: State, own: Site, rules: Rules | None, row: int) -> None:
    """Count a job that started, the last of the running ones."""
    if rules is None:
        return
    _charge(state, own, rules, row)


@compiled_apart
def _charge(state: State, own: Site, rules: Rules, row: int) -> None:
    owner = rules.owners[row]
    begin_usage(state, own, rules, row)
    own.lists[STARTED, own.s[0].running - 1] = row
    if owner.groups == 0:
        return
    set_tres(state, own, rules, row)
    for at in range(owner.first_group, owner.first_group + owner.groups):
        group = rules.numbers[at]
        rules.groups[group].waiting -= 1
        rules.groups[group].running += 1
        for tres in range(len(rules.tres)):
            rules.tres_of[group, tres] += rules.tres[tres].amount


@compiled
def discharge(state: State, own: Site, rules: Rules | None, row: int) -> None:
    """Count a job no more that is over; it is still among the running ones."""
    if rules is None:
        return
    _discharge(state, own, rules, row)


@compiled_apart
def _discharge(state: State, own: Site, rules: Rules, row: int) -> None:
    owner = rules.owners[row]
    set_tres(state, own, rules, row)
    end_usage(state, own, rules, row)
    drop(own, STARTED, own.s[0].running, row)
    for at in range(owner.first_group, owner.first_group + owner.groups):
        group = rules.numbers[at]
        rules.groups[group].running -= 1
        for tres in range(len(rules.tres)):
            rules.tres_of[group, tres] -= rules.tres[tres].amount
