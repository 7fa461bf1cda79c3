"""A learned linear rule that sets timeouts and a price of waiting by hour and load."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats
from hpcosim_client.power.features import DAY_S, WEEK_S
from hpcosim_client.power.manager import IdleClock, Manager
from hpcosim_client.power.submissions import Submissions
from hpcosim_client.view import View

FEW = 8
"""Number of idle nodes, the first that jobs are given, that have a timeout of their own."""

LOOK_S = 300.0
"""Simulated seconds after which the rule is evaluated again if no event comes before."""

FEATURES = 9
LEAST = np.log([20.0, 20.0, 350.0])
MOST = np.log([20_000.0, 20_000.0, 350_000.0])

FORMAT = "hpcosim adaptive timeouts 1"


class Controls(NamedTuple):
    """The outputs of the rule at one moment.

    Attributes:
        few_s: timeout of the first `FEW` idle nodes, s.
        rest_s: timeout of all other idle nodes, s.
        wait_price_w: see `PowerExchange.wait_price_w`, J/s.
    """

    few_s: float
    rest_s: float
    wait_price_w: float


class Rule(NamedTuple):
    """A learned rule.

    Attributes:
        weights: float64[3, 9]; times the features, they are the logarithms of the controls.
        origin_s: the second of the week, from Monday midnight, at which simulated time is 0.
    """

    weights: Floats
    origin_s: float


def adaptive(rule: Rule) -> Manager:
    """Return the manager that switches off idle nodes by timeouts that follow hour and load.

    `IdleClock` defines idle. The rule is evaluated at every event, and after `LOOK_S` without one.
    The lowest-numbered idle nodes come first, as jobs are given them first: a few that soon are
    needed again may stay on longer than the rest. The price of waiting decides whether sleeping
    nodes are woken for a job or the job waits for others; it takes effect from the next decision
    of a job scheduler that is aware of power states.
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
        return float(later_s.min(initial=view.now_s + LOOK_S))

    return manage


def features(view: View, submissions: int, origin_s: float) -> Floats:
    """Return the inputs of the rule, float64[9], each about from -1 to 1.

    1; sine and cosine of the time of day and of half a day; whether it is weekend; submissions
    of the last hour n, n / (n + 20); share of the nodes that jobs hold; jobs in the queue, 10 at
    most. The last three are stretched from [0, 1] to [-1, 1].
    """
    week_s = (origin_s + view.now_s) % WEEK_S
    turn = 2 * math.pi * week_s / DAY_S
    held = np.count_nonzero(view.nodes.jobs) / len(view.nodes.jobs)
    shares = (submissions / (submissions + 20.0), held, min(len(view.queue), 10) / 10.0)
    day = (wave(times * turn) for times in (1, 2) for wave in (math.sin, math.cos))
    return np.array([1.0, *day, float(week_s >= 5 * DAY_S), *(2 * share - 1 for share in shares)])


def controls(weights: Floats, seen: Floats) -> Controls:
    """Return the outputs of the rule, within bounds, for weights float64[3, 9] and features."""
    few_s, rest_s, price_w = np.exp(np.clip(weights @ seen, LEAST, MOST)).tolist()
    return Controls(few_s, rest_s, price_w)


def _due_s(idle: IdleClock, now: Controls) -> Floats:
    """Return when each node will have been idle long enough, float64[nodes]; infinity: never."""
    nodes = np.flatnonzero(~np.isnan(idle.since_s))
    due_s = np.full(len(idle.since_s), math.inf)
    timeouts_s = np.where(np.arange(len(nodes)) < FEW, now.few_s, now.rest_s)
    due_s[nodes] = idle.since_s[nodes] + timeouts_s
    return due_s


def save_rule(path: Path, rule: Rule) -> None:
    """Write a rule, safetensors, the same bytes for the same rule."""
    from safetensors.numpy import save_file

    # One entry: the library keeps several in no order.
    save_file({"weights": rule.weights}, path, {FORMAT: repr(rule.origin_s)})


def load_rule(path: Path, origin_s: float | None = None) -> Rule:
    """Return the rule in a file.

    Args:
        path: a file that `save_rule` wrote.
        origin_s: see `Rule`; None: as the file says.

    Raises:
        PolicyError: the file holds no rule; the message says what was expected.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            said = file.metadata() or {}
            weights = file.get_tensor("weights")
    except (OSError, SafetensorError) as error:
        raise PolicyError(f"{path} can't be read as learned timeouts: {error}") from None
    if FORMAT not in said or weights.shape != (3, FEATURES):
        found = f"{list(said)}, weights of shape {weights.shape}"
        raise PolicyError(f"{path} should say {FORMAT!r}, weights of shape (3, 9), not {found}")
    if weights.dtype != np.float64 or not np.isfinite(weights).all():
        raise PolicyError(f"{path} should have weights that are finite numbers of float64")
    return Rule(weights, float(said[FORMAT]) if origin_s is None else origin_s)
