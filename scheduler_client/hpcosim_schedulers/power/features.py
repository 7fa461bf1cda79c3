"""Observations, valid actions and the fixed decision interval of learned power managers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.view import View
from hpcosim_schedulers.power.account import (
    HOUR_S,
    ON,
    SLEEPING,
    SWITCHING_ON,
    Bools,
    EnergyAccount,
    listen,
)

FEATURES = 11
CALENDAR = 4
SCALES = 1
"""Version of the scales above. Models record it; a model of another version is rejected."""

DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
JOBS = 10.0
JOBS_PER_HOUR = 20.0

Observation = NDArray[np.float32]


Actions = NDArray[np.int64]
"""int64[nodes]; 0: off, 1: on."""


def features(view: View, account: EnergyAccount, origin_s: float | None = None) -> Observation:
    """Return the observation, float32[nodes, 11], or float32[nodes, 15] with `origin_s`.

    Args:
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
        seen[:, FEATURES:] = calendar(origin_s + view.now_s)
    return seen


def action_mask(view: View, account: EnergyAccount) -> Bools:
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


def _shared(view: View, account: EnergyAccount) -> list[float]:
    jobs, now_s = account.waiting, view.now_s
    waited_s = requested_s = 0.0
    for job in jobs:  # `sum` rounds in another way since Python 3.12
        waited_s += now_s - job.submit_s
        requested_s += job.requested_s
    if jobs:
        waited_s, requested_s = waited_s / len(jobs), requested_s / len(jobs)
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


def calendar(week_s: float) -> list[float]:
    """Return sine and cosine of the time of day and of the time of week."""
    turns = [2 * math.pi * (week_s / period_s) for period_s in (DAY_S, WEEK_S)]
    return [wave(turn) for turn in turns for wave in (math.sin, math.cos)]


class Periodic:
    """Decisions at fixed intervals, and the account that they are based on.

    The first decision is due at the first call of `due`, the next one `interval_s` after each.

    Attributes:
        account: the account; set by the first call of `due`.
    """

    account: EnergyAccount

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._next_s = -math.inf

    def due(self, view: View) -> bool:
        """Update the account, and return whether a decision is due.

        It is called at every event, after the job scheduler.
        """
        if not hasattr(self, "account"):
            self.account = EnergyAccount(view.platform)
        self.account.update(view)
        listen(view)
        return view.now_s >= self._next_s

    def decide(self, view: View, actions: Actions) -> float:
        """Switch nodes.

        Args:
            actions: int64[nodes], 0: off, 1: on; invalid actions are ignored.

        Returns:
            The simulated second at which the next decision is due.
        """
        mask = action_mask(view, self.account)
        chosen = mask[np.arange(len(actions)), actions]
        state = self.account.state
        for node in np.flatnonzero(chosen & (actions == 0) & (state == ON)).tolist():
            view.set_node_power(node, on=False)
        for node in np.flatnonzero(chosen & (actions == 1) & (state == SLEEPING)).tolist():
            view.set_node_power(node, on=True)
        self._next_s = view.now_s + self.interval_s
        return self._next_s
