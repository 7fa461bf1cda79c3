"""What is measured in a run: the metrics of a period, and of classes of jobs."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from hpcosim_protocol.platform import NotNegative
from hpcosim_server.record.metrics import Metrics
from hpcosim_server.record.run_record import RunRecord
from hpcosim_workloads.table import JobTable

ClassBound = Annotated[int, Meta(gt=0, le=1_000_000)]


class MeasureSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `measure` of an experiment: the measured period and classes of jobs.

    The measured period begins `warm_up_s` after the first submission and ends `cool_down_s` before
    the last one, both ends included. The metrics of jobs (counts, waits, responses, slowdowns and
    `mean_normalised_edp`) cover the jobs submitted within it, and `utilization` is that of the
    period. All other metrics, such as `makespan_s` and the energies, cover the whole run.

    Attributes:
        warm_up_s: time to leave out after the first submission, s.
        cool_down_s: time to leave out before the last submission, s.
        size_classes: smallest number of cores of each class of jobs, in ascending order; the first
            is 1. `[1, 16, 64]` are the classes 1-15, 16-63 and 64+. Empty: no classes by size.
        per_user: also measure the jobs of each user. Needs a workload with users.
    """

    warm_up_s: NotNegative = 0.0
    cool_down_s: NotNegative = 0.0
    size_classes: tuple[ClassBound, ...] = ()
    per_user: bool = False

    def __post_init__(self) -> None:
        bounds = self.size_classes
        if bounds and (bounds[0] != 1 or sorted(set(bounds)) != list(bounds)):
            raise ValueError(
                f"expected size_classes that begin with 1 and ascend, such as [1, 16, 64], got "
                f"{list(bounds)}"
            )


class Measured(NamedTuple):
    """What was measured in a run.

    Attributes:
        metrics: metrics by name, in the order of `metrics.json`.
        breakdowns: one row per class of jobs: `breakdown` (`cores` or `user`), `class` (such as
            `16-63`, or the user), then the metrics of the jobs of the class.
    """

    metrics: Metrics
    breakdowns: list[dict[str, Any]]


def measure(
    record: RunRecord, jobs: JobTable, settings: MeasureSettings, whole: Metrics
) -> Measured:
    """Return the metrics of the measured period of a run, and of its classes of jobs.

    Args:
        record: a run, complete or not.
        jobs: its workload.
        settings: the measured period and the classes.
        whole: metrics of the whole run, as `hpcosim_server.record.results.metrics_of` returns
            them. Those that do not belong to single jobs are kept.

    Raises:
        ExperimentError: no job was submitted within the measured period, or the workload has no
            users.
    """
    return Measured(dict(whole), [])
