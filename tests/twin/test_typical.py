"""Expected waits of the kinds of jobs that users submit most."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import Any

from msgspec.structs import replace

from hpcosim_slurm.state import LivePartition
from hpcosim_twin.answers.questions import AnyQuestion, Effort, Picture, answer
from hpcosim_twin.answers.typical import JobKind, TypicalWaits, kinds_of
from hpcosim_twin.cluster.observation import Observation
from hpcosim_twin.cluster.queue_state import adopted
from twin.test_forecast_asked import observed
from twin.test_questions import job, with_jobs


class Desk:
    """Answers at once."""

    def __init__(self, seen: Observation) -> None:
        self._picture = Picture(seen, adopted(seen))

    async def own(self, question: AnyQuestion) -> dict[str, Any]:
        """Return the answer."""
        return answer(question, self._picture, Effort(5))


def waits_of(seen: Observation) -> dict[tuple[str, str], float]:
    """Return the median waits, by partition and number of CPUs."""
    typical = TypicalWaits()
    asyncio.run(typical.update(Desk(seen), seen))
    (family,) = typical.metrics()
    return {
        (each.labels["partition"], each.labels["cpus"]): each.value
        for each in family.samples
        if each.labels["quantile"] == "0.5"
    }


def test_kinds_are_the_most_frequent_ones() -> None:
    """At most three of each partition; one without jobs has a core for its limit or an hour."""
    jobs = [job(10 * cpus + at, cpus=cpus) for cpus in (1, 2, 3, 4) for at in range(cpus)]
    found = kinds_of(with_jobs(observed(), *jobs))
    assert [each.cpus for each in found if each.partition == "main"] == [4, 3, 2]
    assert [each for each in found if each.partition == "one"] == [JobKind("one", 1, 900.0)]


def test_a_kind_that_can_never_start_waits_for_ever() -> None:
    """It keeps no other kind from its wait."""
    waits = waits_of(with_jobs(observed(), job(50, cpus=100), job(51, cpus=2)))
    assert waits["main", "100"] == math.inf
    assert math.isfinite(waits["main", "2"])
    assert math.isfinite(waits["one", "1"])


def test_partitions_may_have_any_name() -> None:
    """Also one with spaces, which sbatch gets in quotes."""
    seen = observed()
    named = LivePartition("two words", tuple(seen.state.nodes), is_up=True, time_limit_s=900.0)
    partitions = {**seen.state.partitions, named.name: named}
    seen = replace(seen, state=dataclasses.replace(seen.state, partitions=partitions))
    assert math.isfinite(waits_of(seen)["two words", "1"])
