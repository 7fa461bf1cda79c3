"""The task of a power manager: when it decides, and what rewards it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hpcosim_client import Policy, make_policy
from hpcosim_client.power.features import CALENDAR, FEATURES
from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.chosen import awareness_of
from hpcosim_scenarios.running.library import rules_of
from hpcosim_server.engine.simulation import Rules

NewPolicy = Callable[[], Policy]
"""Returns a job scheduler without any state."""


class Interval(NamedTuple):
    """What happened between two decisions.

    Attributes:
        wasted: energy not spent computing, over that of all nodes computing for `length_s`.
        waited_s: seconds that jobs waited, summed over jobs.
        jobs: how many jobs waited for a time above 0.
        length_s: from one decision to the next, even if the last job ended before the next.
    """

    wasted: float
    waited_s: float
    jobs: int
    length_s: float


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of an interval, 0 at best.

    `shares` is equation (12) of "Improving the Efficiency of a Deep Reinforcement Learning-Based
    Power Management System for HPC Clusters Using Curriculum Learning": alpha R1 + beta R2. The
    paper's formulas (10), (11) and (13) are read so: R1 is minus the energy wasted in the
    interval over nodes x power computing x length. R2 is minus the seconds that jobs waited in it
    over (jobs in the queue at some time in it) x length, 0 where there was none. A job that
    starts the instant it is submitted was never in the queue; one whose nodes boot is in it. So R2
    is the mean share of the interval for which a job waited, however many did.

    `linear` is -(alpha x (share wasted, as above) + beta x (seconds waited)): its sum over a run
    orders policies as a weighted sum of wasted energy and mean wait does, which `shares` does
    not. Its beta is per second; 1e-6 to 1e-4 are sensible.
    """

    kind: Literal["shares", "linear"] = "shares"
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
    """The task of a power manager, whatever the jobs.

    Attributes:
        platform: the cluster.
        scheduler: makes the job scheduler beside it, a new one for each run.
        interval_s: seconds between two decisions.
        origin_s: the second of the week at which simulated time is 0, see `features.features`;
            None: no calendar is observed.
        reward: the reward.
        rules: the rules of the simulation.
        seed: seed of the job scheduler's draws, and of switching times that vary.
    """

    platform: Platform
    scheduler: NewPolicy
    interval_s: float = 1800.0
    origin_s: float | None = None
    reward: Reward = field(default_factory=Reward)
    rules: Rules = field(default_factory=Rules)
    seed: int = 0

    @property
    def columns(self) -> int:
        """How many features of a node are observed."""
        return FEATURES if self.origin_s is None else FEATURES + CALENDAR


def task_of(changes: Mapping[str, Any], scenario: Scenario) -> PowerTask:
    """Return the task of a scenario.

    Args:
        changes: fields of the task that differ from their defaults.
        scenario: the scenario; its own power manager is ignored.

    Raises:
        PolicyError: its scheduler is invalid.
    """
    own = scenario.scheduler
    scheduler = partial(make_policy, own.name, awareness_of(own))
    scheduler()  # an invalid one is reported now, not at the first run
    task = PowerTask(scenario.platform, scheduler, rules=rules_of(scenario), seed=scenario.seed)
    return replace(task, **changes)


def check_power_states(platform: Platform, path: Path | None) -> None:
    """Check that nodes can be switched.

    Args:
        platform: the cluster.
        path: the scenario's file, for the message; None: there is none.

    Raises:
        ScenarioError: no node has power states.
    """
    if all(group.power_states is None for group in platform.nodes):
        raise ScenarioError("has no nodes with power_states: nothing can be learned", path)
