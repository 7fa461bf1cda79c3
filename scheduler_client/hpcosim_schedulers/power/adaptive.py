"""The power manager whose timeouts and price of waiting follow hour and load.

A learned linear rule maps features of the moment to the three values.
A file without a rule is a `PolicyError`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats
from hpcosim_client.safetensors_file import ArraysFile, load_arrays, save_arrays
from hpcosim_client.view import View
from hpcosim_schedulers.power.account import Submissions
from hpcosim_schedulers.power.features import DAY_S, WEEK_S
from hpcosim_schedulers.power.manager import IdleClock, Manager

FEW = 8
"""Number of idle nodes, the lowest-numbered, that have a timeout of their own."""

REFRESH_S = 300.0
"""Interval after which the rule is evaluated again without an event, simulated seconds."""

FEATURES = 9
LEAST = np.log([20.0, 20.0, 350.0])
MOST = np.log([20_000.0, 20_000.0, 350_000.0])

FORMAT = "hpcosim adaptive timeouts 1"

_FILE = ArraysFile("learned timeouts", FORMAT, "hpcosim train adaptive", {"weights": (3, FEATURES)})


class Controls(NamedTuple):
    """The outputs of the rule at one moment.

    Attributes:
        few_s: timeout of the first `FEW` idle nodes, in seconds.
        rest_s: timeout of all other idle nodes, in seconds.
        wait_price_w: see `PowerExchange.wait_price_w`, in J/s.
    """

    few_s: float
    rest_s: float
    wait_price_w: float


class TimeoutRule(NamedTuple):
    """A learned rule.

    Attributes:
        weights: float64[3, 9]; the product with the features is the logarithm of the controls.
        origin_s: second of the week, from Monday midnight, at which the simulation starts.
    """

    weights: Floats
    origin_s: float


def adaptive(rule: TimeoutRule) -> Manager:
    """Return the manager that switches off idle nodes by timeouts that follow hour and load.

    `IdleClock` defines idle. The rule is evaluated at every event and after `REFRESH_S` without
    one. The lowest-numbered idle nodes, which jobs are allocated first, have a timeout of their
    own. The price of waiting takes effect at the next call of the job scheduler.
    """
    idle, submissions = IdleClock(), Submissions()

    def manage(view: View) -> float | None:
        idle.update(view)
        submissions.update(view)
        seen = features(view, submissions.in_last_hour(view.now_s), rule.origin_s)
        now = controls(rule.weights, seen)
        view.power_exchange.wait_price_w = now.wait_price_w
        due_s = _due_s(idle, now)
        planned = view.power_exchange.planned
        for node in np.flatnonzero((due_s <= view.now_s) & ~planned).tolist():
            view.set_node_power(node, on=False)
        later_s = due_s[due_s > view.now_s]
        return float(later_s.min(initial=view.now_s + REFRESH_S))

    return manage


def features(view: View, submissions: int, origin_s: float) -> Floats:
    """Return the features, float64[9].

    | index | feature | range |
    |---|---|---|
    | 0 | 1 | 1 |
    | 1, 2 | sine and cosine of the time of day | -1 to 1 |
    | 3, 4 | sine and cosine of the time of half a day | -1 to 1 |
    | 5 | weekend | 0 or 1 |
    | 6 | submissions n in the last hour, 2 n / (n + 20) - 1 | -1 to 1 |
    | 7 | share h of nodes with jobs, 2 h - 1 | -1 to 1 |
    | 8 | jobs q in the queue, 2 min(q, 10) / 10 - 1 | -1 to 1 |
    """
    week_s = (origin_s + view.now_s) % WEEK_S
    turn = 2 * math.pi * week_s / DAY_S
    held = np.count_nonzero(view.nodes.jobs) / len(view.nodes.jobs)
    shares = (submissions / (submissions + 20.0), held, min(len(view.queue), 10) / 10.0)
    day = (wave(times * turn) for times in (1, 2) for wave in (math.sin, math.cos))
    return np.array([1.0, *day, float(week_s >= 5 * DAY_S), *(2 * share - 1 for share in shares)])


def controls(weights: Floats, seen: Floats) -> Controls:
    """Return the outputs of the rule, clipped, for weights float64[3, 9] and features."""
    few_s, rest_s, price_w = np.exp(np.clip(weights @ seen, LEAST, MOST)).tolist()
    return Controls(few_s, rest_s, price_w)


def _due_s(idle: IdleClock, now: Controls) -> Floats:
    """Return when each node reaches its timeout, float64[nodes]; infinity: it is not idle."""
    nodes = np.flatnonzero(~np.isnan(idle.since_s))
    due_s = np.full(len(idle.since_s), math.inf)
    timeouts_s = np.where(np.arange(len(nodes)) < FEW, now.few_s, now.rest_s)
    due_s[nodes] = idle.since_s[nodes] + timeouts_s
    return due_s


def save_rule(path: Path, rule: TimeoutRule) -> None:
    """Write a rule as a safetensors file, the same bytes for the same rule."""
    save_arrays(_FILE, path, {"weights": rule.weights}, repr(rule.origin_s))


def load_rule(path: Path, origin_s: float | None = None) -> TimeoutRule:
    """Return the rule in a file.

    Args:
        origin_s: see `TimeoutRule`; None: the value in the file.
    """
    arrays, origin = load_arrays(_FILE, path)
    try:
        found_s = float(origin)
    except ValueError:
        found_s = math.nan
    if not math.isfinite(found_s):
        raise PolicyError(f"{path}: expected a finite time in {FORMAT!r}, got {origin!r:.60}")
    return TimeoutRule(arrays["weights"], found_s if origin_s is None else origin_s)
