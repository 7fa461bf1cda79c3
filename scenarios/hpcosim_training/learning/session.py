"""A training session: iterations, validation, best weights, checkpoints and the learning curve."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from hpcosim_training.learning.agent import Agent, weights_of
from hpcosim_training.learning.checkpoint import Progress, read_checkpoint, write_checkpoint
from hpcosim_training.learning.curve import Curve, Iteration
from hpcosim_training.learning.settings import SWA_FROM, TrainingSettings
from hpcosim_training.learning.update import Losses

Told = Callable[[Iteration], None]


class Outcome(NamedTuple):
    """What came of an iteration; see `Iteration`."""

    phase: str = ""
    decisions: int = 0
    mean_return: float = math.nan
    losses: Losses = Losses()
    measures: Mapping[str, float] = {}


class Learner(ABC):
    """An agent, and the problem it learns.

    Attributes:
        agent: the agent.
        settings: how it learns.
        iterations: how many iterations there are, 0 or more.
        measures: the names of what it measures in an iteration.
        description: the training as text, everything its course depends on.
    """

    agent: Agent[Any, Any]
    settings: TrainingSettings
    iterations: int
    measures: tuple[str, ...]
    description: str

    @abstractmethod
    def iterate(self, done: int, remaining: float) -> Outcome:
        """Make a rollout and learn from it.

        Args:
            done: how many iterations are over.
            remaining: the share of the training that remains, 1 to 0.
        """

    def clone(self) -> Outcome:
        """Learn from demonstrations; called if `cloning_epochs` is above 0."""
        raise NotImplementedError("there is no teacher: cloning_epochs must be 0")

    def validate(self, actor: Any) -> float:
        """Return the score of an actor's greedy actions, lower is better."""
        raise NotImplementedError("there is no validation: validate_every must be 0")


class TrainingSession:
    """A training, iteration by iteration.

    Args:
        learner: the agent and its problem.
        out: the folder for `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.
        resume: resume from the checkpoint in the folder.

    Attributes:
        progress: the progress so far.

    Raises:
        CheckpointError: there is no checkpoint to resume from, or it is of another training.
    """

    def __init__(self, learner: Learner, out: Path, *, resume: bool = False) -> None:
        self._learner, self._out = learner, out
        self.progress = Progress(training=learner.description)
        self._resumed = resume
        if resume:
            self.progress = read_checkpoint(out, learner.agent.restore, learner.description)

    @property
    def over(self) -> bool:
        """Whether all iterations are over, or validation no longer improves."""
        patience = self._learner.settings.patience
        if 0 < patience <= self.progress.since_best:
            return True
        return self.progress.iterations >= self._learner.iterations

    def run(self, told: Told = lambda _: None) -> None:
        """Train to the end.

        Args:
            told: is called with each iteration when it is over.

        Raises:
            OSError: the folder can't be written to.
        """
        self._out.mkdir(parents=True, exist_ok=True)
        settings = self._learner.settings
        after = self.progress.iterations if self._resumed else None
        with Curve(self._out, self._learner.measures, after) as curve:
            if not self._resumed and (settings.cloning_epochs or settings.validate_every):
                self._finish(self._begin, curve, told)
            while not self.over:
                self._finish(self._iterate, curve, told)

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that training ends with: the best, the averaged, or the last."""
        agent = self._learner.agent
        last = agent.actor if agent.averaged is None else agent.averaged
        return self.progress.best_weights or weights_of(last)

    def about(self) -> dict[str, str | int | float | bool]:
        """Return what the file of the final actor says of the training."""
        said: dict[str, str | int | float | bool] = {"iterations_done": self.progress.iterations}
        if self.progress.best is not None:
            said |= {"validation": self.progress.best, "best_at": self.progress.best_at}
        return said

    def _begin(self) -> Outcome:
        if not self._learner.settings.cloning_epochs:
            return Outcome()
        return self._learner.clone()

    def _iterate(self) -> Outcome:
        learner, settings = self._learner, self._learner.settings
        progress = self.progress.iterations / learner.iterations
        learner.agent.set_learning_rates(settings.learning_rate_share(progress))
        outcome = learner.iterate(self.progress.iterations, 1.0 - progress)
        self.progress.iterations += 1
        if settings.swa and self.progress.iterations > SWA_FROM * learner.iterations:
            learner.agent.average()
        return outcome

    def _finish(self, step: Callable[[], Outcome], curve: Curve, told: Told) -> None:
        """Take a step of the training, validate, and write everything down."""
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
        told(done)

    def _validate(self) -> float:
        """Validate the actor and the averaged one, if it is time, and keep the best weights."""
        learner, progress = self._learner, self.progress
        every = learner.settings.validate_every
        if not every or (progress.iterations % every and not self.over):
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
