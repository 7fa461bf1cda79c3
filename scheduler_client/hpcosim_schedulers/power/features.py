"""Observations and valid actions of a learned power manager.

An observation has a row for each node. Its columns range from 0 to 1; the first five are the same
for all nodes.

| column | feature of table 2 of the paper | value |
|---|---|---|
| 0 | number of jobs in the queue q | q / (q + 10) |
| 1 | arrival rate: submissions n in the last hour | n / (n + 20) |
| 2 | mean wait so far of the jobs in the queue w | w / (w + 3600 s) |
| 3 | wasted energy of all nodes | divided by (elapsed time x power of all nodes computing) |
| 4 | mean requested time of the jobs in the queue r | r / (r + 3600 s) |
| 5 | power state | sleeping 0, switching off 1/3, switching on 2/3, on 1 |
| 6 | idle: on and without a job | 0 or 1 |
| 7 | idle time i | i / (i + 3600 s) |
| 8 | time t until its last job is expected to end | t / (t + 3600 s) |
| 9 | its wasted energy | divided by (elapsed time x its power computing) |
| 10 | time spent switching on and off | divided by elapsed time |

The queue includes jobs whose nodes boot. With `origin_s` four columns follow that the paper does
not have, from -1 to 1: sine and cosine of the time of day, sine and cosine of the time of week.

The paper is "Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management
System for HPC Clusters Using Curriculum Learning". It states no scales; these are hpcosim's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.view import View
from hpcosim_schedulers.power.account import HOUR_S, Account, Bools
from hpcosim_schedulers.power.watts import ON, SLEEPING, SWITCHING_ON

FEATURES = 11
CALENDAR = 4
SCALES = 1
"""Version of the scales above. Models record it; a model of another version is rejected."""

DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
JOBS = 10.0
JOBS_PER_HOUR = 20.0

Observation = NDArray[np.float32]


def features(view: View, account: Account, origin_s: float | None = None) -> Observation:
    """Return the observation, float32[nodes, 11], or float32[nodes, 15] with `origin_s`.

    Args:
        view: the view.
        account: the account, updated with the view.
        origin_s: second of the week, from Monday midnight, at which the simulation starts; None: no
            calendar columns.
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
        above_0_w = np.where(
            account.on_w > 0.0, account.on_w, 1.0
        )  # a node without power wastes none
        seen[:, 9] = account.wasted_j / (account.elapsed_s * above_0_w)
        seen[:, 10] = account.switching_s / account.elapsed_s
    np.clip(seen, 0.0, 1.0, out=seen)
    if origin_s is not None:
        seen[:, FEATURES:] = _calendar(origin_s + view.now_s)
    return seen


def action_mask(view: View, account: Account) -> Bools:
    """Return the valid actions of each node, bool[nodes, 2]: off (column 0), on (column 1).

    Every node can keep its state: on if it is on or booting, off if it sleeps or is being switched
    off. A node that is allocated or reserved (`PowerExchange.planned`) must stay on. A row with one
    true column leaves no choice.
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
    """Return the seconds until the last job of each node is expected to end; 0: no job."""
    release_s = np.zeros(len(view.nodes.jobs))
    for job in view.running.values():
        if job.allocation is not None:
            left_s = job.expected_end_s(view.now_s) - view.now_s
            release_s[job.allocation.nodes] = np.maximum(release_s[job.allocation.nodes], left_s)
    return release_s


def _saturating(values: NDArray[np.float64], half: float) -> NDArray[np.float64]:
    return values / (values + half)


def _calendar(week_s: float) -> list[float]:
    turns = [2 * math.pi * (week_s / period_s) for period_s in (DAY_S, WEEK_S)]
    return [wave(turn) for turn in turns for wave in (math.sin, math.cos)]
