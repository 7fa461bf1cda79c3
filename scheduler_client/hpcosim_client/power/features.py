"""What a learned power manager sees of each node, and what it may do with it.

The columns of an observation, each from 0 to 1. The first five are the same for all nodes.

| column | what, by Table 2 of the paper | value |
|---|---|---|
| 0 | number of jobs in the queue q | q / (q + 10) |
| 1 | arrival rate: submissions of the last hour n | n / (n + 20) |
| 2 | mean wait so far of the jobs in the queue w | w / (w + 3600 s) |
| 3 | wasted energy of all nodes | over (elapsed time x power of all nodes computing) |
| 4 | mean requested time of the jobs in the queue r | r / (r + 3600 s) |
| 5 | power state | sleeping 0, switching off 1/3, switching on 2/3, on 1 |
| 6 | idle: on, and held by no job | 0 or 1 |
| 7 | for how long it has been idle i | i / (i + 3600 s) |
| 8 | until its last job is expected to end t | t / (t + 3600 s) |
| 9 | its wasted energy | over (elapsed time x its power computing) |
| 10 | seconds it spent being switched on and off | over elapsed time |

Jobs in the queue are those that wait to start, with those whose nodes boot for them. With
`origin_s` four columns follow that the paper does not have, from -1 to 1: sine and cosine of the
time of day, sine and cosine of the time of week.

The paper is "Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management
System for HPC Clusters Using Curriculum Learning"; it gives no scales, these are ours.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.power.account import ON, SLEEPING, SWITCHING_ON, Account, Bools
from hpcosim_client.power.submissions import HOUR_S
from hpcosim_client.view import View

FEATURES = 11
CALENDAR = 4
SCALES = 1
"""The version of the scales above. A model trained with others would be misled."""

DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
JOBS = 10.0
JOBS_PER_HOUR = 20.0

Observation = NDArray[np.float32]


def features(view: View, account: Account, origin_s: float | None = None) -> Observation:
    """Return what is known of each node, float32[nodes, 11], or [nodes, 15] with `origin_s`.

    Args:
        view: the view.
        account: the account, updated with the view.
        origin_s: the second of the week, from Monday midnight, at which simulated time is 0;
            None: the paper's features alone.
    """
    columns = FEATURES if origin_s is None else FEATURES + CALENDAR
    seen = np.zeros((len(account.state), columns), dtype=np.float32)
    seen[:, :5] = _shared(view, account)
    idle = ~np.isnan(account.idle_since_s)
    seen[:, 5] = account.state / ON
    seen[:, 6] = idle
    seen[:, 7] = _saturating(np.where(idle, view.now_s - account.idle_since_s, 0.0), HOUR_S)
    seen[:, 8] = _saturating(_release_s(view), HOUR_S)
    if account.elapsed_s > 0.0:
        above_0_w = np.where(account.on_w > 0.0, account.on_w, 1.0)  # without power it wastes none
        seen[:, 9] = account.wasted_j / (account.elapsed_s * above_0_w)
        seen[:, 10] = account.switching_s / account.elapsed_s
    np.clip(seen, 0.0, 1.0, out=seen)
    if origin_s is not None:
        seen[:, FEATURES:] = _calendar(origin_s + view.now_s)
    return seen


def action_mask(view: View, account: Account) -> Bools:
    """Return what may be asked of each node, bool[nodes, 2]: to be off (column 0), or on.

    To stay as it is may be asked of any node: of one that is on, to be on; of one that sleeps,
    to be off; of one that is being switched, to be what it becomes. A node that runs a job, is held
    for one, or is reserved for one (`PowerExchange.planned`) must stay on. So where only one column
    is true, there is no choice.
    """
    nodes, state, planned = view.nodes, account.state, view.power_exchange.planned
    free = nodes.jobs == 0
    goes_on = (state == ON) | (state == SWITCHING_ON)
    off = ~goes_on | ((state == ON) & nodes.on & free & ~planned & nodes.can_sleep)
    on = goes_on | ((state == SLEEPING) & free)
    return np.stack([off, on], axis=1)


def _shared(view: View, account: Account) -> list[float]:
    jobs, now_s = account.waiting, view.now_s
    waited_s = requested_s = 0.0
    if jobs:
        waited_s = sum(now_s - job.submit_s for job in jobs) / len(jobs)
        requested_s = sum(job.requested_s for job in jobs) / len(jobs)
    submitted = account.submissions.in_last_hour(account.now_s)
    whole_j = account.elapsed_s * float(account.on_w.sum())
    return [
        len(jobs) / (len(jobs) + JOBS),
        submitted / (submitted + JOBS_PER_HOUR),
        waited_s / (waited_s + HOUR_S),
        float(account.wasted_j.sum()) / whole_j if whole_j > 0.0 else 0.0,
        requested_s / (requested_s + HOUR_S),
    ]


def _release_s(view: View) -> NDArray[np.float64]:
    """Return in how many seconds the last job of each node is expected to end; 0: it has none."""
    release_s = np.zeros(len(view.nodes.jobs))
    for job in view.running.values():
        if job.place is not None:
            left_s = job.expected_end_s(view.now_s) - view.now_s
            release_s[job.place.nodes] = np.maximum(release_s[job.place.nodes], left_s)
    return release_s


def _saturating(values: NDArray[np.float64], half: float) -> NDArray[np.float64]:
    return values / (values + half)


def _calendar(week_s: float) -> list[float]:
    turns = [2 * math.pi * (week_s / period_s) for period_s in (DAY_S, WEEK_S)]
    return [wave(turn) for turn in turns for wave in (math.sin, math.cos)]
