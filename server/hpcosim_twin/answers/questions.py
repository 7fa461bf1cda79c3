"""Questions about a cluster, and their answers as plain data: what all faces of the twin share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from hpcosim_experiments.executors import ParallelMap
from hpcosim_twin.answers.asked import (
    AskedJob,
    advice_of,
    answers_of,
    asked_job,
    check_possible,
    map_of,
    partition_of,
)
from hpcosim_twin.answers.changes import Change, effect_of
from hpcosim_twin.answers.table import (
    advice_as_json,
    effect_as_json,
    map_as_json,
    queue_as_json,
    ways_as_json,
)
from hpcosim_twin.cluster.observation import ForecastError, Observation
from hpcosim_twin.cluster.queue_state import AdoptedState
from hpcosim_twin.futures.forecast import forecast_starts

OPTIONS = Annotated[str, Meta(max_length=1000)]
HOURS = (1.0, 4.0, 12.0, 24.0, 48.0)
"""Time limits of a map, h."""
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
        by_s: a Unix time, s: the answer has the chance to start until then.
    """

    ways: Annotated[tuple[OPTIONS, ...], Meta(min_length=1, max_length=8)]
    user: NAME = ""
    by_s: float | None = None


class AdviceQuestion(Question, frozen=True, tag="advice"):
    """What would let a job start sooner: a shorter limit, fewer nodes, another partition?

    Attributes:
        job_id: a job that waits.
        way: instead of `job_id`, options of sbatch of a job that is not submitted.
        user: the user of `way`.
    """

    job_id: int | None = None
    way: OPTIONS = ""
    user: NAME = ""


class MapQuestion(Question, frozen=True, tag="map"):
    """How long do jobs of whole nodes wait, by their number of nodes and their time limit?

    Attributes:
        partition: its name; empty: the default.
        nodes: numbers of nodes; empty: powers of two up to the nodes of the partition.
        hours: time limits, h; empty: 1, 4, 12, 24 and 48, up to the limit of the partition.
    """

    partition: NAME = ""
    nodes: Annotated[tuple[Annotated[int, Meta(ge=1, le=1_000_000)], ...], Meta(max_length=16)] = ()
    hours: Annotated[tuple[Annotated[float, Meta(gt=0, le=100_000)], ...], Meta(max_length=8)] = ()


class ChangeQuestion(Question, frozen=True, tag="what-if"):
    """What would a change do to waits, energy and cost?

    Attributes:
        change: the change.
        days: time for which submissions are drawn and energy counts, from now on.
        price_per_kwh: price of energy, in any currency.
    """

    change: Change
    days: Annotated[float, Meta(gt=0, le=31)] = 7.0
    price_per_kwh: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class RecordQuestion(Question, frozen=True, tag="record"):
    """How good have the answers about waiting jobs been until now?"""


AnyQuestion = (
    QueueQuestion | WaysQuestion | AdviceQuestion | MapQuestion | ChangeQuestion | RecordQuestion
)
KINDS: Mapping[str, type[Question]] = {
    str(kind.__struct_config__.tag): kind for kind in AnyQuestion.__args__
}
"""The types of questions by their names."""


def question_of(name: str, values: Mapping[str, Any]) -> AnyQuestion:
    """Return a question with some values of its fields.

    Raises:
        ForecastError: there is no such question or field, or a value is invalid.
    """
    if name not in KINDS:
        raise ForecastError(f"no question {name[:40]!r}; there are {', '.join(sorted(KINDS))}")
    try:
        found: AnyQuestion = msgspec.convert({**values, "ask": name}, AnyQuestion)
    except (msgspec.ValidationError, RecursionError) as error:
        fields = ", ".join(KINDS[name].__struct_fields__) or "none"
        raise ForecastError(f"{name}: {error}; its fields: {fields}") from None
    return found


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster at an instant, with what has been learned of it.

    Attributes:
        record: how good the answers were until now; None: nobody has kept a record.
    """

    observation: Observation
    adopted: AdoptedState
    record: Mapping[str, Any] | None = None


class Effort(NamedTuple):
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
    return _ANSWERS[type(question)](question, picture, effort)


def _queue(question: QueueQuestion, picture: Picture, effort: Effort) -> dict[str, Any]:
    seen, state = picture.observation, picture.adopted.state
    drawn = forecast_starts(state, seen.history, effort.futures, effort.seed, effort.parallel)
    if question.job_id is not None:
        drawn = [each for each in drawn if each.job_id == question.job_id]
        if not drawn:
            raise ForecastError(f"job {question.job_id} does not wait")
    return queue_as_json(seen, picture.adopted, drawn, effort.futures, effort.seed)


def _ways(question: WaysQuestion, picture: Picture, effort: Effort) -> dict[str, Any]:
    seen = picture.observation
    asked = [asked_job(options, seen, question.user) for options in question.ways]
    check_possible(asked, seen, picture.adopted)
    found = answers_of(asked, seen, picture.adopted, *effort)
    return ways_as_json(found, seen, picture.adopted, effort.futures, effort.seed, question.by_s)


def _advice(question: AdviceQuestion, picture: Picture, effort: Effort) -> dict[str, Any]:
    seen = picture.observation
    if (question.job_id is None) == (not question.way):
        raise ForecastError("advice: expected either job_id or way")
    if question.job_id is None:
        asked = asked_job(question.way, seen, question.user)
        check_possible([asked], seen, picture.adopted)
    else:
        waiting = {job.spec.job_id: job.spec for job in picture.adopted.state.waiting}
        spec = waiting.get(question.job_id)
        if spec is None:
            raise ForecastError(f"job {question.job_id} does not wait")
        if spec.request is not None and spec.request.hold:
            why = seen.state.jobs[question.job_id].reason or "held"
            raise ForecastError(f"job {question.job_id} is held ({why}); no other request helps")
        asked = AskedJob(f"job {question.job_id}", seen.state.jobs[question.job_id])
    same, found = advice_of(asked, seen, picture.adopted, *effort, question.job_id)
    return advice_as_json(same, found, seen, picture.adopted, effort.futures, effort.seed)


def _map(question: MapQuestion, picture: Picture, effort: Effort) -> dict[str, Any]:
    seen = picture.observation
    partition = partition_of(question.partition, seen.state.partitions)
    count, limit_s = len(partition.nodes), partition.time_limit_s
    nodes = question.nodes or [*(1 << at for at in range(count.bit_length() - 1)), count]
    hours = question.hours or [h for h in HOURS if limit_s is None or h * 3600 <= limit_s]
    hours = hours or [(limit_s or 0.0) / 3600]
    asked = map_of(partition.name, nodes, hours, seen)
    found = answers_of(asked, seen, picture.adopted, *effort)
    return map_as_json(
        partition.name, nodes, hours, found, seen, picture.adopted, effort.futures, effort.seed
    )


def _what_if(question: ChangeQuestion, picture: Picture, effort: Effort) -> dict[str, Any]:
    seen = picture.observation
    effect = effect_of(question.change, seen, picture.adopted, question.days * 86_400.0, *effort)
    return effect_as_json(
        effect, question.days, question.price_per_kwh, seen, effort.futures, effort.seed
    )


def _record(_: RecordQuestion, picture: Picture, __: Effort) -> dict[str, Any]:
    if picture.record is None:
        raise ForecastError("there is no record; a twin keeps one: ask it with --twin URL")
    return {"at_s": picture.observation.state.at_s, **picture.record}


_ANSWERS: Mapping[type[Question], Callable[[Any, Picture, Effort], dict[str, Any]]] = {
    QueueQuestion: _queue,
    WaysQuestion: _ways,
    AdviceQuestion: _advice,
    MapQuestion: _map,
    ChangeQuestion: _what_if,
    RecordQuestion: _record,
}
