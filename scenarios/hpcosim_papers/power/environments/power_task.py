"""The task of a power manager: decision interval, observation and reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from hpcosim_client import Policy
from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_scenarios.running.policies import awareness_of
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.features import CALENDAR, FEATURES
from hpcosim_sim.engine.simulation import Rules

Kind = Literal["shares", "linear"]

DECIDES = 0
"""Action of an environment of a compiled vector: it carries out the switches of its agent."""

WEEK_S = 7 * 86_400.0

PolicyFactory = Callable[[], Policy]
"""Returns a new job scheduler in its initial state."""


class Interval(NamedTuple):
    """Measurements of the interval between two decisions.

    Attributes:
        wasted: energy not spent computing, divided by the energy of all nodes computing for
            `length_s`.
        waited_s: waiting time in the interval, summed over jobs, s.
        jobs: number of jobs that waited longer than 0 s in the interval.
        length_s: the nominal length, s, also if the last job ended earlier.
    """

    wasted: float
    waited_s: float
    jobs: int
    length_s: float


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of an interval; the maximum is 0.

    `shares` is equation (12) of "Improving the Efficiency of a Deep Reinforcement Learning-Based
    Power Management System for HPC Clusters Using Curriculum Learning": alpha R1 + beta R2. The
    paper's equations (10), (11) and (13) are interpreted as follows. R1 is minus the energy wasted
    in the interval, divided by nodes x power computing x length. R2 is minus the waiting time in
    the interval, divided by (number of jobs queued at some time in it) x length; it is 0 without
    such jobs. A job that starts when it is submitted was never queued; a job whose nodes boot
    counts as queued. R2 is thus minus the mean fraction of the interval that a queued job waited.

    `linear` is -(alpha x (wasted fraction, as above) + beta x (waiting time, s)). Its sum over a
    run ranks policies as a weighted sum of wasted energy and mean wait does; the sum of `shares`
    does not. Sensible values of its beta are 1e-6 to 1e-4 per second.

    Attributes:
        kind: `shares` or `linear`.
        alpha: weight of the wasted energy.
        beta: weight of the waiting time; per second for `linear`.
    """

    kind: Kind = "shares"
    alpha: float = 0.5
    beta: float = 0.5

    def of(self, interval: Interval) -> float:
        """Return the reward of an interval."""
        waited = interval.waited_s
        if self.kind == "shares":
            waited = waited / (interval.jobs * interval.length_s) if interval.jobs else 0.0
        return -(self.alpha * interval.wasted + self.beta * waited)


@dataclass(frozen=True, slots=True)
class PowerTask:
    """The task of a power manager, without the workload.

    Attributes:
        scheduler: creates the job scheduler, a new one for each episode.
        interval_s: time between two decisions, s.
        origin_s: second of the week, from Monday 00:00, at simulated time 0, see
            `features.features`; None: the observation has no calendar columns.
        seed: seed of the job scheduler and of random switching times.
    """

    platform: Platform
    scheduler: PolicyFactory
    interval_s: float = 1800.0
    origin_s: float | None = None
    reward: Reward = field(default_factory=Reward)
    rules: Rules = field(default_factory=Rules)
    seed: int = 0

    @property
    def columns(self) -> int:
        """Number of features of each node in the observation."""
        return FEATURES if self.origin_s is None else FEATURES + CALENDAR


def task_of(changes: Mapping[str, Any], scenario: Scenario) -> PowerTask:
    """Return the task of a scenario.

    Args:
        changes: fields of the task that replace their defaults.

    Raises:
        PolicyError: the scenario's scheduler is invalid.
    """
    own = scenario.scheduler
    scheduler = partial(make_policy, own.name, awareness_of(own))
    scheduler()  # reports an invalid scheduler now instead of at the first reset
    task = PowerTask(scenario.platform, scheduler, rules=rules_of(scenario), seed=scenario.seed)
    return replace(task, **changes)


def check_task(task: PowerTask) -> None:
    """Check the settings of a task."""
    if not _is_number(task.interval_s) or not 0.0 < task.interval_s < math.inf:
        raise ValueError(f"interval_s: expected a finite number > 0, got {task.interval_s!r}")
    origin_s = task.origin_s
    if origin_s is not None and not (_is_number(origin_s) and 0.0 <= origin_s <= WEEK_S):
        raise ValueError(f"origin_s: expected a number 0 to 604800 or None, got {origin_s!r}")
    reward, kinds = task.reward, get_args(Kind)
    if not isinstance(reward, Reward):
        raise ValueError(
            f"reward: expected Reward(kind, alpha, beta) with the kind {' or '.join(kinds)}, got "
            f"{reward!r}"
        )
    if reward.kind not in kinds:
        raise ValueError(f"reward.kind: expected one of {', '.join(kinds)}, got {reward.kind!r}")
    for name, weight in (("alpha", reward.alpha), ("beta", reward.beta)):
        if not _is_number(weight) or not 0.0 <= weight < math.inf:
            raise ValueError(f"reward.{name}: expected a finite number >= 0, got {weight!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, float | int | np.number) and not isinstance(value, bool)


def check_power_states(platform: Platform, path: Path | None) -> None:
    """Check that at least one node can be switched.

    Args:
        path: the scenario file, for the message; None: there is none.

    Raises:
        ScenarioError: no node has power states.
    """
    if all(group.power_states is None for group in platform.nodes):
        raise ScenarioError(
            "no node group has power_states, so a power manager has nothing to switch; "
            "add power_states to at least one group",
            path,
            field="$.platform.nodes",
        )
