"""Questions about a cluster, and their answers as plain data: what all faces of the twin share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hpcosim_experiments.executors import ParallelMap
from hpcosim_twin.asked import answers_of, asked_job
from hpcosim_twin.forecast import forecast_starts
from hpcosim_twin.observation import ForecastError, Observation
from hpcosim_twin.queue_state import AdoptedState
from hpcosim_twin.table import answers_as_json, as_json

OPTIONS = Annotated[str, Meta(max_length=1000)]
NAME = Annotated[str, Meta(max_length=100)]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="ask"):
    """Base of all questions; the field `ask` says which one it is."""


class QueueQuestion(Question, frozen=True, tag="queue"):
    """When do the waiting jobs start?

    Attributes:
        job_id: only this job; None: all that wait.
    """

    job_id: int | None = None


class WaysQuestion(Question, frozen=True, tag="ways"):
    """When would a job start and end that is not submitted, and which way to ask ends first?

    Attributes:
        ways: options of sbatch, such as `-n 16 -t 2:00:00`, for each way.
        user: its user; empty: one without a history.
    """

    ways: Annotated[tuple[OPTIONS, ...], Meta(min_length=1, max_length=8)]
    user: NAME = ""


AnyQuestion = QueueQuestion | WaysQuestion


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster at an instant, with what has been learned of it."""

    observation: Observation
    adopted: AdoptedState


@dataclass(frozen=True, slots=True)
class Effort:
    """How answers are computed.

    Attributes:
        futures: number of simulations of each question.
        seed: seed of all draws; the same picture, question and seed give the same answer.
        parallel: runs the simulations; None: one after another, in this process.
    """

    futures: int = 200
    seed: int = 0
    parallel: ParallelMap | None = None


def answer(question: AnyQuestion, picture: Picture, effort: Effort) -> dict[str, Any]:
    """Return the answer: Unix times, s; None: never, or unknown.

    Raises:
        ForecastError: the question does not fit the cluster.
    """
    seen, adopted, futures, seed = picture.observation, picture.adopted, effort.futures, effort.seed
    if isinstance(question, WaysQuestion):
        asked = [asked_job(options, seen, question.user) for options in question.ways]
        found = answers_of(asked, seen, adopted, futures, seed, effort.parallel)
        return answers_as_json(found, seen, adopted, futures, seed)
    drawn = forecast_starts(adopted.state, seen.history, futures, seed, effort.parallel)
    if question.job_id is not None:
        drawn = [each for each in drawn if each.job_id == question.job_id]
        if not drawn:
            raise ForecastError(f"job {question.job_id} does not wait")
    return as_json(seen, adopted, drawn, drawn, futures, seed)
