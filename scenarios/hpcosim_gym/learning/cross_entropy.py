"""The cross-entropy method (Rubinstein, Kroese 2004): search by generations of candidates."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_gym.learning.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from hpcosim_gym.learning.curve import LearningCurve
from hpcosim_gym.learning.trainers import Progress, Report, TrainingStopped

MIN_SD = 0.02
SMOOTHING = 0.3  # weight of the previous mean and standard deviation

Costs = Callable[[Floats], Floats]
"""Maps weights, float64[candidates, ...], to costs, float64[candidates]."""


class SearchSettings(Protocol):
    """What the settings of each search have.

    Attributes:
        generations: number of generations.
        candidates: rules in a generation; one of them is the mean of the distribution.
        elite: number of best candidates that update the distribution.
    """

    @property
    def generations(self) -> int: ...  # noqa: D102
    @property
    def candidates(self) -> int: ...  # noqa: D102
    @property
    def elite(self) -> int: ...  # noqa: D102


class SearchProgress(Checkpoint, kw_only=True):
    """The progress of a search; its state is the distribution of the next generation.

    Attributes:
        generation: number of completed generations.
        random: state of the random number generator, as JSON.
    """

    generation: int
    random: str


class Generation(NamedTuple):
    """A row of the learning curve of a search.

    Attributes:
        number: number of the generation, from 1.
        mean: cost of the mean of its distribution.
        best: least cost of its candidates.
        median: their median cost.
        seconds: wall-clock time, s.
    """

    number: int
    mean: float
    best: float
    median: float
    seconds: float

    @property
    def progress(self) -> Progress:
        """The generation as a training reports it."""
        text = "  ".join(f"{name} {getattr(self, name):9.5g}" for name in self._fields[1:-1])
        return Progress(self.number, f"{text}  took {self.seconds:.1f} s", self._asdict())


class Distribution(NamedTuple):
    """Independent normal distributions of weights: means and standard deviations."""

    mean: Floats
    sd: Floats


def search(
    out: Path,
    start: Distribution,
    settings: SearchSettings,
    rng: np.random.Generator,
    new_costs: Callable[[], Costs],
    *,
    training: str,
    resume: bool = False,
    report: Report = lambda _: None,
) -> Floats:
    """Search for the weights with the least cost.

    The folder gets `curve.csv`, `tensorboard/`, and a checkpoint after each generation. A resumed
    search has the result of one that was not interrupted.

    Args:
        out: the folder, which is made.
        start: the first distribution.
        settings: sizes of the search.
        rng: random number generator, of which nothing was drawn yet.
        new_costs: returns what evaluates the candidates of the next generation; it may draw numbers
            from `rng`.
        training: text description of the training, see `read_checkpoint`.
        resume: go on from the checkpoint in the folder.
        report: called after each generation; it may raise `TrainingStopped`.

    Returns:
        The mean of the last distribution, float64[...].

    Raises:
        CheckpointError: the checkpoint is missing or belongs to a different search.
        OSError: the folder cannot be written.
    """
    done, (mean, sd) = 0, start
    if resume:
        progress, state = read_checkpoint(out, SearchProgress, training)
        done, mean, sd = progress.generation, state["mean"], state["sd"]
        rng.bit_generator.state = json.loads(progress.random)
    out.mkdir(parents=True, exist_ok=True)
    after = done if resume else None
    with (
        LearningCurve(out, Generation._fields, after) as curve,
        contextlib.suppress(TrainingStopped),
    ):
        for number in range(done + 1, settings.generations + 1):
            began_s = time.monotonic()
            mean, sd, costs = next_distribution(mean, sd, settings, rng, new_costs())
            figures = float(costs[0]), float(costs.min()), float(np.median(costs))
            row = Generation(number, *figures, time.monotonic() - began_s)
            curve.add(row._asdict())
            random = json.dumps(rng.bit_generator.state)
            about = SearchProgress(training=training, generation=number, random=random)
            write_checkpoint(out, {"mean": mean, "sd": sd}, about)
            report(row.progress)
    return mean


def next_distribution(
    mean: Floats, sd: Floats, sizes: SearchSettings, rng: np.random.Generator, costs: Costs
) -> tuple[Floats, Floats, Floats]:
    """Sample a generation; return mean and standard deviation of the next one, and the costs.

    Args:
        mean: float64[...], mean of the distribution.
        sd: float64[...], standard deviations.
        sizes: sizes of the generations.
        rng: random number generator.
        costs: evaluates candidates.
    """
    drawn = rng.normal(mean, sd, (sizes.candidates, *mean.shape))
    drawn[0] = mean
    found = costs(drawn)
    elite = drawn[found.argsort(kind="stable")[: sizes.elite]]
    mean = SMOOTHING * mean + (1 - SMOOTHING) * elite.mean(axis=0)
    sd = SMOOTHING * sd + (1 - SMOOTHING) * (elite.std(axis=0) + MIN_SD)
    return mean, sd, found
