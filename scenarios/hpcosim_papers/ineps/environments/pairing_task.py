"""The task of a pairing agent: its decisions, observations and reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from hpcosim_gym.environments.arguments import check_power, settings_of
from hpcosim_papers.ineps.agent.forecast_features import Choices
from hpcosim_papers.ineps.agent.settings import Pairing, Sees
from hpcosim_protocol import Platform
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_sim.engine.simulation import Rules

Reward = Literal["spent", "foreseen"]
Invalid = Literal["raise", "first"]

MAX_LISTED = 12  # actions listed in an error message


def default_reward(sees: Sees) -> Reward:
    """Return the default reward for an observation type."""
    return "foreseen" if sees == "foreseen" else "spent"


@dataclass(frozen=True, slots=True)
class PairingTask:
    """The task of a pairing agent, without the workload.

    Attributes:
        reward: the reward of a decision. `spent`: minus the energy spent until the next decision,
            J; under the objective `edp`, multiplied by the time until then, J s, as in Lopez,
            Stafford, Bosque 2025, section 3.3.3 (the sum of these products is not the EDP of the
            run). `foreseen`: minus the increase of the predicted objective of all jobs placed so
            far. The last reward replaces the prediction by the actual objective, so the rewards of
            a run sum to minus its objective. `foreseen` requires `sees: foreseen`.
        seed: seed of random switching times.
    """

    platform: Platform
    settings: Pairing = field(default_factory=Pairing)
    reward: Reward = "foreseen"
    rules: Rules = field(default_factory=Rules)
    seed: int = 0


def task_of(
    settings: Pairing | Mapping[str, Any], reward: Reward | None, scenario: Scenario
) -> PairingTask:
    """Return the task of a scenario.

    Args:
        settings: the settings, or some of their fields by name.
        reward: the reward; None: `default_reward`.

    Raises:
        ValueError: the settings are invalid.
    """
    pairing = settings if isinstance(settings, Pairing) else settings_of(settings, Pairing)
    reward = reward or default_reward(pairing.sees)
    return PairingTask(scenario.platform, pairing, reward, rules_of(scenario), scenario.seed)


def check_task(task: PairingTask, path: Path | None) -> None:
    """Check that a task can be learned.

    Args:
        path: the scenario file, for messages; None: there is none.

    Raises:
        ScenarioError: no node draws power.
        ValueError: the reward is unknown or does not fit the observation.
    """
    if task.reward not in get_args(Reward):
        expected = ", ".join(get_args(Reward))
        raise ValueError(f"reward: expected one of {expected}, got {task.reward!r}")
    if task.reward == "foreseen" and task.settings.sees != "foreseen":
        raise ValueError(
            f"reward foreseen requires sees=foreseen, not sees={task.settings.sees}; set "
            "reward=spent, or sees=foreseen"
        )
    check_power(task.platform, path)


def check_arguments(reward_scale: float, max_decisions: int | None, invalid: str) -> None:
    """Check the other arguments of the environment."""
    if not 0.0 < reward_scale < np.inf:
        raise ValueError(f"reward_scale: expected a finite number > 0, got {reward_scale}")
    if max_decisions is not None and max_decisions < 1:
        raise ValueError(f"max_decisions: expected an integer >= 1 or None, got {max_decisions}")
    if invalid not in get_args(Invalid):
        expected = ", ".join(get_args(Invalid))
        raise ValueError(f"invalid: expected one of {expected}, got {invalid!r}")


def check_one_task(
    task: PairingTask | None, settings: Mapping[str, Any], reward: Reward | None
) -> None:
    """Check that a task is given without what it already has."""
    if task is not None and (settings or reward is not None):
        raise ValueError(
            "task= already defines settings and reward; change them in the task, or pass "
            "scenario= instead"
        )


def choice_of(choices: Choices, action: np.int64 | int, actions: int, invalid: Invalid) -> int:
    """Return the index of an action in `choices`.

    Args:
        invalid: `first`: return 0 for a masked action.

    Raises:
        InvalidAction: the action does not exist, or it is masked and `invalid` is `raise`.
    """
    from gymnasium.error import InvalidAction  # the tasks are read without gymnasium

    try:
        number = index(action)
    except TypeError:
        raise InvalidAction(f"action: expected an integer, got {action!r}") from None
    if not 0 <= number < actions:
        raise InvalidAction(f"action: expected 0 to {actions - 1}, got {number}")
    allowed = choices.actions
    choice = int(allowed.searchsorted(number))
    if choice < len(allowed) and allowed[choice] == number:
        return choice
    if invalid == "first":
        return 0
    job_ids = [job.job_id for job in choices.jobs]
    raise InvalidAction(
        forbidden_message(allowed.tolist(), job_ids, choices.nodes, actions, number)
    )


def forbidden_message(
    allowed: Sequence[int], job_ids: Sequence[int], nodes: int, actions: int, action: int
) -> str:
    """Return the error message for a masked action: its meaning, and the allowed actions.

    Args:
        allowed: the allowed actions.
        job_ids: numbers of the jobs, by slot.
        nodes: number of nodes.
        actions: number of actions.
        action: the masked one.
    """
    if action == actions - 1:
        what = f"action {action} (wait)"
    else:
        slot, node = divmod(action, nodes)
        job = f"job {job_ids[slot]}" if slot < len(job_ids) else "empty"
        what = f"action {action} (slot {slot}, {job}, on node {node})"
    named = ", ".join(map(str, allowed[:MAX_LISTED])) + ", ..." * (len(allowed) > MAX_LISTED)
    return f"{what} is masked; {len(allowed)} allowed actions: {named}"
