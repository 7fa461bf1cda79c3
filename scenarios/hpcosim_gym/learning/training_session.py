"""A training session: iterations, validation, checkpoints and the learning curve."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from hpcosim_gym.errors import CheckpointError
from hpcosim_gym.learning.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from hpcosim_gym.learning.curve import COMMON, Iteration, LearningCurve
from hpcosim_gym.learning.networks import arrays_of, tensors_of
from hpcosim_gym.learning.settings import SWA_FROM, TrainingSettings
from hpcosim_gym.learning.trainers import TrainingStopped
from hpcosim_gym.learning.update import Agent, Losses, weights_of, with_prefix
from hpcosim_schedulers.agents.networks import CHECKPOINT

OnIteration = Callable[[Iteration], None]

BEST = "best"
"""Prefix of the best validated weights in the state of a checkpoint."""


class IterationOutcome(NamedTuple):
    """The results of an iteration; see `Iteration`."""

    phase: str = ""
    decisions: int = 0
    mean_return: float = math.nan
    losses: Losses = Losses()
    measures: Mapping[str, float] = {}
    environment_s: float = math.nan


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


class TrainingProgress(Checkpoint, kw_only=True):
    """The progress of a training session.

    Attributes:
        iterations: number of completed iterations.
        best: best (lowest) validation score so far; None before the first validation.
        best_at: iteration after which it was reached.
        since_best: number of validations since then.
    """

    iterations: int = 0
    best: float | None = None
    best_at: int = 0
    since_best: int = 0


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
        self._best_weights: Mapping[str, Tensor] = {}  # empty before the first validation
        self._resumed = resume
        if resume:
            self._restore()

    def _restore(self) -> None:
        learner = self._learner
        self.progress, arrays = read_checkpoint(self._out, TrainingProgress, learner.description)
        state = tensors_of(arrays)
        try:
            learner.agent.restore(state)
        except (KeyError, RuntimeError, ValueError) as error:
            path = self._out / CHECKPOINT
            why = f"{path}: the checkpoint does not fit the agent: {error}"
            raise CheckpointError(why) from None
        self._best_weights = with_prefix(state, BEST)

    def _write(self) -> None:
        best = {f"{BEST}.{name}": each for name, each in self._best_weights.items()}
        state = {**self._learner.agent.state(), **best}
        write_checkpoint(self._out, arrays_of(state), self.progress)

    @property
    def over(self) -> bool:
        """True after all iterations, or after `patience` validations without improvement."""
        patience = self._learner.settings.patience
        if 0 < patience <= self.progress.since_best:
            return True
        return self.progress.iterations >= self._learner.iterations

    def run(self, on_iteration: OnIteration = lambda _: None) -> None:
        """Train to the end, or until `on_iteration` raises `TrainingStopped`.

        Warn if a resumed training is complete.

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
        columns = (*COMMON, *self._learner.measures)
        with (
            LearningCurve(self._out, columns, after) as curve,
            contextlib.suppress(TrainingStopped),
        ):
            if not self._resumed and (settings.cloning_epochs or settings.validate_every):
                self._finish(self._begin, curve, on_iteration)
            while not self.over:
                self._finish(self._iterate, curve, on_iteration)

    def weights(self) -> dict[str, Tensor]:
        """Return the final weights: the best validated, the averaged, or the last."""
        agent = self._learner.agent
        last = agent.actor if agent.averaged is None else agent.averaged
        return dict(self._best_weights) or weights_of(last)

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
            outcome.environment_s,
            outcome.measures,
        )
        curve.add(done.values)
        due = self.progress.iterations % self._learner.settings.checkpoint_every == 0
        if due or self.over:
            self._write()
        try:
            on_iteration(done)
        except TrainingStopped:
            self._write()
            raise

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
                self._best_weights = weights_of(actor)
        progress.since_best = 0 if improved else progress.since_best + 1
        return found
