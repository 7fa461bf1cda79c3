"""A training session: iterations, validation, checkpoints and the learning curve."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from hpcosim_gym.learning.checkpoint import TrainingProgress, read_checkpoint, write_checkpoint
from hpcosim_gym.learning.curve import Iteration, LearningCurve
from hpcosim_gym.learning.settings import SWA_FROM, TrainingSettings
from hpcosim_gym.learning.update import Agent, Losses, weights_of

OnIteration = Callable[[Iteration], None]


class IterationOutcome(NamedTuple):
    """The results of an iteration; see `Iteration`."""

    phase: str = ""
    decisions: int = 0
    mean_return: float = math.nan
    losses: Losses = Losses()
    measures: Mapping[str, float] = {}


class Learner(ABC):
    """An agent and the problem it learns.

    Attributes:
        iterations: number of iterations, 0 or more.
        measures: names of the additional metrics of an iteration.
        description: text of everything that determines the weights, see `settings.description`.
        clone: trains the agent by behaviour cloning; None: it has no teacher.
        validate: returns the score of an actor's greedy actions, lower is better; None: it has
            no validation.
    """

    agent: Agent[Any, Any]
    settings: TrainingSettings
    iterations: int
    measures: tuple[str, ...]
    description: str
    clone: Callable[[], IterationOutcome] | None = None
    validate: Callable[[Any], float] | None = None

    @abstractmethod
    def iterate(self, done: int, remaining: float) -> IterationOutcome:
        """Collect a rollout and update the agent."""


def _check_support(learner: Learner) -> None:
    """Check that a learner supports what its settings require."""
    if learner.settings.cloning_epochs and learner.clone is None:
        raise ValueError("this agent has no teacher; set cloning_epochs to 0")
    if learner.settings.validate_every and learner.validate is None:
        raise ValueError("this agent has no validation; set validate_every to 0")


class TrainingSession:
    """A training, iteration by iteration.

    Args:
        learner: the agent and its problem.
        out: folder for `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.
        resume: resume from the checkpoint in the folder.

    Raises:
        CheckpointError: the checkpoint is missing or belongs to a different training.
        ValueError: the settings require a teacher or a validation that the learner does not have.
    """

    def __init__(self, learner: Learner, out: Path, *, resume: bool = False) -> None:
        _check_support(learner)
        self._learner, self._out = learner, out
        self.progress = TrainingProgress(training=learner.description)
        self._resumed = resume
        if resume:
            self.progress = read_checkpoint(out, learner.agent.restore, learner.description)

    @property
    def over(self) -> bool:
        """True after all iterations, or after `patience` validations without improvement."""
        patience = self._learner.settings.patience
        if 0 < patience <= self.progress.since_best:
            return True
        return self.progress.iterations >= self._learner.iterations

    def run(self, on_iteration: OnIteration = lambda _: None) -> None:
        """Train to the end; warn if a resumed training is complete.

        Raises:
            OSError: the folder cannot be written.
        """
        self._out.mkdir(parents=True, exist_ok=True)
        settings = self._learner.settings
        if self._resumed and self.over:
            done, total = self.progress.iterations, self._learner.iterations
            what = f"{self._out}: the training is complete ({done} of {total} iterations)"
            warnings.warn(what, stacklevel=2)
        after = self.progress.iterations if self._resumed else None
        with LearningCurve(self._out, self._learner.measures, after) as curve:
            if not self._resumed and (settings.cloning_epochs or settings.validate_every):
                self._finish(self._begin, curve, on_iteration)
            while not self.over:
                self._finish(self._iterate, curve, on_iteration)

    def weights(self) -> dict[str, Tensor]:
        """Return the final weights: the best validated, the averaged, or the last."""
        agent = self._learner.agent
        last = agent.actor if agent.averaged is None else agent.averaged
        return self.progress.best_weights or weights_of(last)

    def about(self) -> dict[str, str | int | float | bool]:
        """Return the metadata of the training for the file of the final actor."""
        about: dict[str, str | int | float | bool] = {"iterations_done": self.progress.iterations}
        if self.progress.best is not None:
            about |= {"validation": self.progress.best, "best_at": self.progress.best_at}
        return about

    def _begin(self) -> IterationOutcome:
        learner = self._learner
        if learner.clone is None or not learner.settings.cloning_epochs:
            return IterationOutcome()
        return learner.clone()

    def _iterate(self) -> IterationOutcome:
        learner, settings = self._learner, self._learner.settings
        progress = self.progress.iterations / learner.iterations
        learner.agent.set_learning_rates(settings.learning_rate_factor(progress))
        outcome = learner.iterate(self.progress.iterations, 1.0 - progress)
        self.progress.iterations += 1
        if settings.swa and self.progress.iterations > SWA_FROM * learner.iterations:
            learner.agent.average()
        return outcome

    def _finish(
        self, step: Callable[[], IterationOutcome], curve: LearningCurve, on_iteration: OnIteration
    ) -> None:
        """Run a step of the training, validate, and write curve and checkpoint."""
        began_s = time.monotonic()
        outcome = step()
        validation = self._validate()
        done = Iteration(
            self.progress.iterations,
            outcome.phase,
            outcome.decisions,
            outcome.mean_return,
            *outcome.losses,
            validation,
            time.monotonic() - began_s,
            outcome.measures,
        )
        curve.add(done)
        if self.over or self.progress.iterations % self._learner.settings.checkpoint_every == 0:
            write_checkpoint(self._out, self._learner.agent.state(), self.progress)
        on_iteration(done)

    def _validate(self) -> float:
        """Validate the current and the averaged actor if due, and store the best weights."""
        learner, progress = self._learner, self.progress
        every = learner.settings.validate_every
        if learner.validate is None or not every:
            return math.nan
        if progress.iterations % every and not self.over:
            return math.nan
        found, improved = math.inf, False
        for actor in (learner.agent.actor, learner.agent.averaged):
            if actor is None:
                continue
            score = learner.validate(actor)
            found = min(found, score)
            if progress.best is None or score < progress.best:
                progress.best, progress.best_at, improved = score, progress.iterations, True
                progress.best_weights = weights_of(actor)
        progress.since_best = 0 if improved else progress.since_best + 1
        return found
