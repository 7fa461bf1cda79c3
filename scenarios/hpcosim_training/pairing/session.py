"""A training of a pairing agent, simulation by simulation."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from torch import Tensor

from hpcosim_client.agents.pairing.model import About, actor_of
from hpcosim_client.agents.pairing.networks import Actor
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_training.checkpoint import Progress, read_checkpoint, write_checkpoint
from hpcosim_training.pairing.agent import Agent
from hpcosim_training.pairing.environment import PairingEnvironment, Reward, Task
from hpcosim_training.pairing.exploring import Explorer, Ground
from hpcosim_training.pairing.imitation import imitate, lessons
from hpcosim_training.pairing.ppo import Losses, learn
from hpcosim_training.pairing.progress import Simulation
from hpcosim_training.pairing.reference import scaled
from hpcosim_training.pairing.rollout import Trajectory, exploit
from hpcosim_training.pairing.settings import (
    SWA_ANNEAL,
    SWA_FROM,
    SWA_RATE,
    Hyperparameters,
)
from hpcosim_training.pairing.teacher import TEACHERS, Teaching, best_teaching
from hpcosim_training.pairing.windows import Windows
from hpcosim_workloads.table import JobTable

UPDATE, IMITATION, VALIDATION = 1_000_001, 1_000_002, 1_000_003  # streams of chance


LESSONS = 16  # runs of the whole workload that teachers are watched in
PARTS = 32  # the same of parts of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How a pairing agent is trained.

    Attributes:
        pairing: what it decides, and what it is shown; its scales are set by the workload.
        hyperparameters: how it learns.
        windows: the parts of the workload that it learns from.
        seed: of weights, of choices and of parts.
        reward: see `Task`.
        validate_every: after how many simulations its best choices are tried; 0: never. Then the
            actor it ends with is the best of those, the averaged one included.
        validation_windows: on how many parts of the workload, drawn from a seed of their own;
            0: on the whole workload, or on that of `validation`.
        patience: after how many validations in a row that were no better it stops early; 0: never.
        workers: processes to run trajectories in.
    """

    pairing: Pairing = field(default_factory=Pairing)
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    windows: Windows = field(default_factory=Windows)
    seed: int = 0
    reward: Reward = "foreseen"
    validate_every: int = 1
    validation_windows: int = 0
    patience: int = 0
    workers: int = 1


class Session:
    """A training, simulation by simulation.

    Args:
        scenario: its platform and rules are used.
        jobs: the workload.
        tried: that of validation.
        training: how.
    """

    def __init__(
        self, scenario: Scenario, jobs: JobTable, tried: JobTable, training: Training
    ) -> None:
        self.training = training
        task = task_of(scenario, training)
        self._lessons = _lessons(jobs, training.windows)
        self._teaching = _teaching(task, self._lessons, training)
        self.ground = Ground(task, jobs, training.windows, training.seed, self._teaching.best)
        nodes = scenario.platform.node_count
        self._agent = Agent(training.pairing, nodes, training.hyperparameters, training.seed)
        self._validation = _validation(self.ground, tried, training)
        self._progress = Progress(training=_as_text(training, scenario.name))
        self._best: dict[str, Tensor] = {}
        self._begun = False

    @property
    def done(self) -> int:
        """How many simulations are over."""
        return self._progress.iterations

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do."""
        patience = self.training.patience
        stale = 0 < patience <= self._progress.since_best
        return self._begun and (stale or self.done >= self.training.hyperparameters.simulations)

    def resume(self, out: Path) -> None:
        """Go back to where the checkpoint in a folder was written.

        Raises:
            PolicyError: there is none of this training.
        """
        self._progress, self._best = read_checkpoint(
            out, self._agent.restore, self._progress.training
        )
        self._begun = True

    def write_checkpoint(self, out: Path) -> None:
        """Write down where it is."""
        write_checkpoint(out, self._agent.state(), self._best, self._progress)

    def advance(self, explore: Explorer) -> Simulation:
        """Learn once: from a teacher at first if that is wanted, then from trajectories."""
        began_s = time.monotonic()
        if not self._begun:
            self._begun = True
            return self._begin(began_s)
        settings, agent = self.training.hyperparameters, self._agent
        self._set_rates()
        trajectories = explore(agent.actor, self.done, settings.trajectories)
        losses = learn(agent, trajectories, settings, self.ground.rng(self.done, UPDATE))
        self._progress.iterations += 1
        if settings.swa and self.done > SWA_FROM * settings.simulations:
            agent.average()
        return _told(self.done, trajectories, losses, self._validate(), began_s)

    def actor(self) -> Actor:
        """Return the actor that training ends with."""
        if self._best:
            actor = actor_of(self.training.pairing)
            actor.load_state_dict(self._best)
            return actor
        return self._agent.averaged or self._agent.actor

    def about(self) -> About:
        """Return what is to be said in the file of the actor."""
        said = dataclasses.asdict(self.training.hyperparameters)
        said |= {"seed": self.training.seed, "reward": self.training.reward}
        said |= {f"windows_{k}": v for k, v in dataclasses.asdict(self.training.windows).items()}
        said["simulations_done"] = self.done
        if self._progress.best is not None:
            said |= {"validation": self._progress.best, "best_at": self._progress.best_at}
        training = {name: value for name, value in said.items() if value is not None}
        return About(pairing=self.training.pairing, training=training)

    def _begin(self, began_s: float) -> Simulation:
        """Learn from the teacher, if that is wanted."""
        epochs, loss = self.training.hyperparameters.imitation, math.nan
        if epochs:
            ground, rng = self.ground, self.ground.rng(0, IMITATION)
            parts = [scaled(ground.task, part, ground.teacher) for part in self._lessons]
            taught = lessons(zip(parts, self._teaching.by_environment, strict=True), rng)
            loss = imitate(self._agent, taught, epochs, rng)
        validation = self._validate()
        nothing = math.nan
        return Simulation(
            0,
            0,
            nothing,
            nothing,
            nothing,
            loss,
            nothing,
            nothing,
            validation,
            time.monotonic() - began_s,
        )

    def _validate(self) -> float:
        """Try the actor's best choices, and those of the averaged one; keep the best so far."""
        every, progress = self.training.validate_every, self._progress
        if not every or self.done % every:
            return math.nan
        found = math.inf
        for actor in (self._agent.actor, self._agent.averaged):
            if actor is None:
                continue
            objectives = exploit(actor, self._validation)
            value = float(np.mean(objectives / [one.scale for one in self._validation]))
            found = min(found, value)
            if progress.best is None or value < progress.best:
                progress.best, progress.best_at, progress.since_best = value, self.done, -1
                self._best = {k: v.clone() for k, v in actor.state_dict().items()}
        progress.since_best += 1
        return found

    def _set_rates(self) -> None:
        settings = self.training.hyperparameters
        share = self.done / settings.simulations
        if settings.anneal:
            self._agent.set_rates(1.0 - share)
        elif settings.swa and share >= SWA_FROM:
            fallen = min((share - SWA_FROM) / ((1.0 - SWA_FROM) * SWA_ANNEAL), 1.0)
            self._agent.set_rates(1.0 - (1.0 - SWA_RATE) * fallen)


def task_of(scenario: Scenario, training: Training) -> Task:
    """Return what a pairing agent is to learn by a scenario."""
    return Task(
        scenario.platform, training.pairing, training.reward, rules_of(scenario), scenario.seed
    )


def _lessons(jobs: JobTable, windows: Windows) -> list[JobTable]:
    """Return what teachers are watched in, the same for all seeds."""
    if windows == Windows():
        return [jobs] * LESSONS
    rng = np.random.default_rng(IMITATION)
    return [windows.draw(rng, jobs) for _ in range(PARTS)]


def _teaching(task: Task, parts: Sequence[JobTable], training: Training) -> Teaching:
    """Return who teaches in which part; rewards are compared with the best.

    Trying all of them on many parts takes a minute, which only imitation is worth.
    """
    if training.windows != Windows() and not training.hyperparameters.imitation:
        return Teaching(TEACHERS[0], [TEACHERS[0]] * len(parts))
    pairing = msgspec.structs.replace(training.pairing, sees="foreseen", wait=True, wait_s=None)
    foreseeing = dataclasses.replace(task, settings=pairing, reward="foreseen")
    if training.windows == Windows():
        best, _ = best_teaching([PairingEnvironment(foreseeing, parts[0])])
        return Teaching(best, [best] * len(parts))
    return best_teaching([PairingEnvironment(foreseeing, part) for part in parts])


def _validation(ground: Ground, jobs: JobTable, training: Training) -> list[PairingEnvironment]:
    """Return what actors are tried on, the same for all seeds."""
    if not training.validation_windows:
        return [scaled(ground.task, jobs, ground.teacher)]
    rng = np.random.default_rng(VALIDATION)
    return [ground.draw(rng) for _ in range(training.validation_windows)]


def _told(
    number: int,
    trajectories: list[Trajectory],
    losses: Losses,
    validation: float,
    began_s: float,
) -> Simulation:
    objectives = [one.objective / one.scale for one in trajectories]
    return Simulation(
        number,
        sum(len(one) for one in trajectories),
        float(np.mean(objectives)),
        min(objectives),
        float(np.mean([sum(one.rewards) for one in trajectories])),
        *losses,
        validation,
        time.monotonic() - began_s,
    )


def _as_text(training: Training, scenario: str) -> str:
    """Return all that a training's course depends on, but how many work on it."""
    said = dataclasses.asdict(training) | {"pairing": msgspec.to_builtins(training.pairing)}
    del said["workers"]
    return json.dumps(said | {"scenario": scenario}, sort_keys=True)
