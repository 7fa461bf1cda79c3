"""The task of a pairing agent: what it decides, what it sees, and what rewards it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from hpcosim_client.agents.pairing.choices import Choices
from hpcosim_client.agents.pairing.settings import Pairing, Sees
from hpcosim_protocol import Platform
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_server.engine.simulation import Rules
from hpcosim_training.environments.arguments import check_power

Reward = Literal["spent", "foreseen"]
Invalid = Literal["raise", "first"]

MOST_NAMED = 12  # actions in a message


def usual_reward(sees: Sees) -> Reward:
    """Return the reward that suits what an agent sees."""
    return "foreseen" if sees == "foreseen" else "spent"


@dataclass(frozen=True, slots=True)
class PairingTask:
    """The task of a pairing agent, whatever the jobs.

    Attributes:
        platform: the cluster.
        settings: what is decided, and the objective.
        reward: the reward of a decision. `spent`: minus the energy spent until the next decision,
            J; under the objective `edp`, times the time until then, J s, as in Lopez, Stafford,
            Bosque 2025, section 3.3.3 (these do not add up to the product). `foreseen`: minus what
            the decision adds to the foreseen objective of all jobs placed so far. The last reward
            corrects the forecast, so the rewards of a run add up to minus its objective. Only an
            agent that sees `foreseen` can have it.
        rules: the rules of the simulation.
        seed: seed of switching times that vary.
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
        settings: the settings, or fields of them by name.
        reward: the reward; None: the `usual_reward`.
        scenario: the scenario; its scheduler is ignored.

    Raises:
        ValueError: the settings are invalid.
    """
    try:
        pairing = settings if isinstance(settings, Pairing) else msgspec.convert(settings, Pairing)
    except msgspec.ValidationError as error:
        raise ValueError(f"settings of a pairing agent: {error}") from None
    reward = reward or usual_reward(pairing.sees)
    return PairingTask(scenario.platform, pairing, reward, rules_of(scenario), scenario.seed)


def check_task(task: PairingTask, path: Path | None) -> None:
    """Check that a task can be learned.

    Args:
        task: the task.
        path: the scenario's file, for messages; None: there is none.

    Raises:
        ScenarioError: no node draws power.
        ValueError: the reward is unknown, or the agent can't have it.
    """
    if task.reward not in get_args(Reward):
        raise ValueError(
            f"reward must be one of {', '.join(get_args(Reward))}, not {task.reward!r}"
        )
    if task.reward == "foreseen" and task.settings.sees != "foreseen":
        raise ValueError(f"who sees {task.settings.sees} foresees no reward; reward must be spent")
    check_power(task.platform, path)


def check_arguments(reward_scale: float, most_decisions: int | None, invalid: str) -> None:
    """Check the other arguments of the environment.

    Raises:
        ValueError: one is invalid.
    """
    if not 0.0 < reward_scale < np.inf:
        raise ValueError(f"reward_scale must be above 0 and finite, not {reward_scale}")
    if most_decisions is not None and most_decisions < 1:
        raise ValueError(f"most_decisions must be 1 or more, or None, not {most_decisions}")
    if invalid not in get_args(Invalid):
        raise ValueError(f"invalid must be one of {', '.join(get_args(Invalid))}, not {invalid!r}")


def forbidden(choices: Choices, action: int) -> str:
    """Return the message about a forbidden action: what it would do, and what is allowed."""
    if action == choices.waiting:
        what = f"action {action} waits"
    else:
        slot, node = divmod(action, choices.nodes)
        jobs = choices.jobs
        job = f"job {jobs[slot].job_id}" if slot < len(jobs) else "without a job"
        what = f"action {action} pairs slot {slot} ({job}) with node {node}"
    allowed = choices.actions.tolist()
    named = ", ".join(map(str, allowed[:MOST_NAMED])) + ", ..." * (len(allowed) > MOST_NAMED)
    return f"{what}, which the mask forbids; of {len(allowed)} allowed actions: {named}"
