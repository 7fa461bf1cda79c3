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

WORKLOADS = 1  # random number stream, separate from that of the training


class CurriculumWorkload(NamedTuple):
    """A training workload.

    Attributes:
        name: its name in the learning curve.
        jobs: its jobs.
        origin_s: second of the week, from Monday 00:00, at its time 0.
    """

    name: str
    jobs: JobTable
    origin_s: float = 0.0


def workloads(
    real: JobTable, names: Sequence[str], seed: int, origin_s: float = 0.0, days: int = 365
) -> list[CurriculumWorkload]:
    """Return the named workloads.

    Args:
        real: the workload that the others are generated from.
        names: `real`, `sampled` or `synthetic`, in order.
        seed: seed of the generated workloads; each name has its own random number stream.
        origin_s: second of the week at time 0 of the real workload.
        days: length of the synthetic workload, days.

    Raises:
        ScenarioError: a name is unknown.
        WorkloadError: the real workload is too short to sample from.
    """
    make: dict[str, Callable[[np.random.Generator], CurriculumWorkload]] = {
        "real": lambda _: CurriculumWorkload("real", real, origin_s),
        "sampled": lambda rng: CurriculumWorkload("sampled", sampled(rng, real, jobs=len(real))),
        "synthetic": lambda rng: CurriculumWorkload(
            "synthetic", seasonal(rng, real, days=days, start_s=origin_s)
        ),
    }
    for name in names:
        if name not in make:
            known = ", ".join(get_args(Source))
            raise ScenarioError(f"curriculum: expected workloads among {known}, got {name!r}")
    numbers = {name: number for number, name in enumerate(make)}
    return [make[name](np.random.default_rng([seed, WORKLOADS, numbers[name]])) for name in names]


def origin_s(scenario: Scenario, folder: Path) -> float:
    """Return the second of the week at time 0 of the workload, from the header of the log.

    The time of a window starts at its first job. The result is exact only if that is also the
    first job of the log.

    Args:
        scenario: the scenario.
        folder: folder of the scenario file.
    """
    workload = scenario.workload
    if workload.trace is not None:
        return log_start_s(find_trace(workload.trace)) or 0.0
    return 0.0 if workload.swf is None else log_start_s(folder / workload.swf) or 0.0


def split_by_time(jobs: JobTable, count: int) -> list[JobTable]:
    """Split a workload into `count` parts of equal duration; parts without jobs are left out."""
    first_s, last_s = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    bounds = np.linspace(first_s, last_s, count + 1)[1:-1]
    ends = [0, *np.searchsorted(jobs.submit_s, bounds).tolist(), len(jobs)]
    parts = [slice(start, end) for start, end in pairwise(ends)]
    return [jobs.take(part) for part in parts if part.stop > part.start]
