"""The workloads of a curriculum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.log_start import log_start_s
from hpcosim_workloads.synthetic.imitation import sampled, seasonal
from hpcosim_workloads.table import JobTable

Source = Literal["real", "sampled", "synthetic"]

WORKLOADS = 1  # a stream of random numbers, apart from that of the training


class Workload(NamedTuple):
    """A workload to learn from.

    Attributes:
        name: its name in the learning curve.
        jobs: its jobs.
        origin_s: the second of the week at which its time is 0.
    """

    name: str
    jobs: JobTable
    origin_s: float = 0.0


def workloads(
    real: JobTable, names: Sequence[str], seed: int, origin_s: float = 0.0, days: int = 365
) -> list[Workload]:
    """Return the workloads of these names, `real`, `sampled` or `synthetic`.

    Args:
        real: the one that the others are drawn from.
        names: which, in this order.
        seed: seed of what is drawn; each name has draws of its own, wherever it stands.
        origin_s: the second of the week at which the time of the real one is 0.
        days: how many the synthetic one fills.

    Raises:
        ScenarioError: there is no such name.
        WorkloadError: the real one is too short to draw from.
    """
    make: dict[str, Callable[[np.random.Generator], Workload]] = {
        "real": lambda _: Workload("real", real, origin_s),
        "sampled": lambda rng: Workload("sampled", sampled(rng, real, jobs=len(real))),
        "synthetic": lambda rng: Workload(
            "synthetic", seasonal(rng, real, days=days, start_s=origin_s)
        ),
    }
    for name in names:
        if name not in make:
            known = ", ".join(get_args(Source))
            raise ScenarioError(f"there is no dataset {name!r} to learn from; there is {known}")
    numbers = {name: number for number, name in enumerate(make)}
    return [make[name](np.random.default_rng([seed, WORKLOADS, numbers[name]])) for name in names]


def origin_s(scenario: Scenario, folder: Path) -> float:
    """Return the second of the week at which the workload's time is 0, by the log's header.

    A window counts its time from its first job; that is the log's time only where it begins with
    the log's first job.

    Args:
        scenario: the scenario.
        folder: the folder of its file.
    """
    workload = scenario.workload
    if workload.trace is not None:
        return log_start_s(find_trace(workload.trace)) or 0.0
    return 0.0 if workload.swf is None else log_start_s(folder / workload.swf) or 0.0


def stretches(jobs: JobTable, count: int) -> list[JobTable]:
    """Return a workload in `count` parts of equal time; those without a job are left out."""
    first_s, last_s = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    bounds = np.linspace(first_s, last_s, count + 1)[1:-1]
    ends = [0, *np.searchsorted(jobs.submit_s, bounds).tolist(), len(jobs)]
    parts = [slice(start, end) for start, end in pairwise(ends)]
    return [jobs.take(part) for part in parts if part.stop > part.start]
