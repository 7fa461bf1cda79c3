"""Training a power manager on a scenario: what `hpcosim train power` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from hpcosim_client import Policy, make_policy
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.chosen import awareness_of
from hpcosim_scenarios.running.library import Library, rules_of
from hpcosim_training.power.a2c import A2C, A2CSettings
from hpcosim_training.power.curriculum import Dataset, Told, train
from hpcosim_training.power.environment import NewPolicy, Reward, Task
from hpcosim_training.power.learner import Learner
from hpcosim_training.power.ppo import PPO, PPOSettings
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.log_start import log_start_s
from hpcosim_workloads.synthetic.imitation import sampled, seasonal
from hpcosim_workloads.table import JobTable

Algorithm = Literal["a2c", "ppo"]
Source = Literal["real", "sampled", "synthetic"]

YEAR_DAYS = 365
DATASETS = 1  # sets the draws of datasets apart from those of the training


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a power manager is trained; the defaults are the paper's.

    Attributes:
        curriculum: the workloads in their order. `real` is the scenario's own; `sampled` and
            `synthetic` are drawn from it, see `workload.imitation`, `sampled` with as many jobs
            and `synthetic` over `synthetic_days`.
        epochs: how often it learns from each.
        algorithm: how it learns.
        seed: of weights, choices and datasets.
        interval_s: seconds between two decisions.
        reward: what it is to maximise.
        calendar: whether it knows the time of day and of week; the paper's does not.
        settings: of the algorithm; None: its defaults.
        synthetic_days: how many days the dataset `synthetic` fills.
    """

    curriculum: Sequence[str] = ("sampled", "real", "synthetic")
    epochs: int = 10
    algorithm: Algorithm = "a2c"
    seed: int = 0
    interval_s: float = 1800.0
    reward: Reward = field(default_factory=Reward)
    calendar: bool = False
    settings: A2CSettings | PPOSettings | None = None
    synthetic_days: int = YEAR_DAYS


def train_power(
    path: Path,
    out: Path,
    training: Training,
    overrides: Mapping[str, Scalar] | None = None,
    told: Told = lambda _: None,
) -> Path:
    """Train a power manager for a scenario's platform and scheduler on its workload.

    The same arguments give the same bytes of weights. Torch is held to one thread, which is no
    slower for these networks, so that two trainings can go on side by side.

    Args:
        path: the scenario's file; its own power manager is of no account.
        out: the folder for the actor and the learning curve, see `curriculum.train`.
        training: how.
        overrides: values of the scenario to change, by dotted path.
        told: told of each epoch when it is over.

    Returns:
        The actor's file, to be named in a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: bad input.
        OSError: the folder can't be written to.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    if all(group.power_states is None for group in scenario.platform.nodes):
        raise ScenarioError("has no nodes with power_states: nothing can be learned", path)
    origin_s = _origin_s(scenario, path.parent)
    days = training.synthetic_days
    curriculum = datasets(jobs, training.curriculum, training.seed, origin_s, days)
    torch.set_num_threads(1)
    learner = new_learner(task_of(scenario, training, origin_s), training)
    return train(learner, curriculum, training.epochs, out, told)


def new_learner(task: Task, training: Training) -> Learner:
    """Return an untrained learner of the algorithm asked for."""
    if training.algorithm == "a2c":
        settings = training.settings or A2CSettings()
        assert isinstance(settings, A2CSettings), "the settings are of another algorithm"
        return A2C(task, settings, training.seed)
    settings = training.settings or PPOSettings()
    assert isinstance(settings, PPOSettings), "the settings are of another algorithm"
    return PPO(task, settings, training.seed)


def task_of(scenario: Scenario, training: Training, origin_s: float = 0.0) -> Task:
    """Return what a power manager is to learn by a scenario."""
    return Task(
        scenario.platform,
        _scheduler_of(scenario),
        training.interval_s,
        origin_s if training.calendar else None,
        training.reward,
        rules_of(scenario),
        scenario.seed,
    )


def _scheduler_of(scenario: Scenario) -> NewPolicy:
    scheduler = scenario.scheduler

    def new() -> Policy:
        return make_policy(scheduler.name, awareness_of(scheduler))

    new()  # what is wrong with it is told at once
    return new


def datasets(
    real: JobTable,
    names: Sequence[str],
    seed: int,
    origin_s: float = 0.0,
    days: int = YEAR_DAYS,
) -> list[Dataset]:
    """Return the workloads of these names, `real`, `sampled` or `synthetic`.

    Args:
        real: the one that the others are drawn from.
        names: which, in this order.
        seed: of what is drawn; each name has draws of its own, wherever it stands.
        origin_s: the second of the week at which the time of the real one is 0.
        days: how many the synthetic one fills.

    Raises:
        ScenarioError: there is no such name.
        WorkloadError: the real one is too short to draw from.
    """
    make: dict[str, Callable[[np.random.Generator], Dataset]] = {
        "real": lambda _: Dataset("real", real, origin_s),
        "sampled": lambda rng: Dataset("sampled", sampled(rng, real, jobs=len(real))),
        "synthetic": lambda rng: Dataset(
            "synthetic", seasonal(rng, real, days=days, start_s=origin_s)
        ),
    }
    for name in names:
        if name not in make:
            known = ", ".join(get_args(Source))
            raise ScenarioError(f"there is no dataset {name!r} to learn from; there is {known}")
    numbers = {name: number for number, name in enumerate(make)}
    return [make[name](np.random.default_rng([seed, DATASETS, numbers[name]])) for name in names]


def _origin_s(scenario: Scenario, folder: Path) -> float:
    """Return the second of the week at which the workload's time is 0, by the log's header.

    A window counts its time from its first job; that is the log's only where it begins with it.
    """
    workload = scenario.workload
    if workload.trace is not None:
        return log_start_s(find_trace(workload.trace)) or 0.0
    return 0.0 if workload.swf is None else log_start_s(folder / workload.swf) or 0.0
