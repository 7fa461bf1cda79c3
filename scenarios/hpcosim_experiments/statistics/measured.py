"""The metrics of a run's measured period, and of its classes of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from hpcosim_experiments.errors import ExperimentError
from hpcosim_protocol.platform import NotNegative
from hpcosim_scenarios.running.compare import GROUPED_BY, NO_NAME, GroupedBy
from hpcosim_sim.record.metrics import (
    OVERRUNS,
    Mask,
    Metrics,
    job_counts,
    jobs_that_ran,
    mean_normalised_edp,
    overruns,
    slowdowns,
    waits,
)
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_workloads.table import JobTable, coded

UNKNOWN = 0

ClassBound = Annotated[int, Meta(gt=0, le=1_000_000)]


class MeasureSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `measure` of an experiment: the measured period and classes of jobs.

    The measured period begins `warm_up_s` after the first submission and ends `cool_down_s` before
    the last one, both ends included. If one of them is set, the metrics of jobs (counts, waits,
    responses, slowdowns and `mean_normalised_edp`) cover the jobs submitted within the period,
    also if they end after it, and `utilization` is that of the period. All other metrics, such as
    `jobs_skipped`, `makespan_s` and the energies, always cover the whole run.

    Attributes:
        warm_up_s: time to leave out after the first submission, s.
        cool_down_s: time to leave out before the last submission, s.
        size_classes: smallest number of cores of each class of jobs, in ascending order; the first
            is 1. `[1, 16, 64]` are the classes 1-15, 16-63 and 64+. Empty: no classes by size.
        by: also measure the jobs of each `partition`, `account`, `user`, `group` or `qos`. Runs of
            workloads without these names have no such classes; at least one workload of the
            experiment must have them.
        per_user: short for `by: [user]`.
    """

    warm_up_s: NotNegative = 0.0
    cool_down_s: NotNegative = 0.0
    size_classes: tuple[ClassBound, ...] = ()
    by: tuple[GroupedBy, ...] = ()
    per_user: bool = False

    @property
    def kinds(self) -> tuple[GroupedBy, ...]:
        """Kinds of names by which jobs are measured, each once."""
        return tuple(dict.fromkeys((*self.by, *(("user",) if self.per_user else ()))))

    def __post_init__(self) -> None:
        bounds = self.size_classes
        if bounds and (bounds[0] != 1 or sorted(set(bounds)) != list(bounds)):
            raise ValueError(
                f"expected size_classes that begin with 1 and ascend, such as [1, 16, 64], got "
                f"{list(bounds)}"
            )


class Measured(NamedTuple):
    """The measurements of a run.

    Attributes:
        metrics: metrics by name, in the order of `metrics.json`.
        breakdowns: one row per class of jobs: `breakdown` (`cores`, or a kind of `by`), `class`
            (such as `16-63`, or a name), then the metrics of the jobs of the class.
    """

    metrics: Metrics
    breakdowns: list[dict[str, Any]]


class Period(NamedTuple):
    """The measured period, both ends included.

    Attributes:
        start_s: its start, simulation time, s.
        end_s: its end, simulation time, s.
    """

    start_s: float
    end_s: float


def measure(record: RunRecord, settings: MeasureSettings, whole: Metrics) -> Measured:
    """Return the metrics of the measured period of a run, and of its classes of jobs.

    Args:
        record: a run, complete or not.
        settings: the measured period and the classes.
        whole: metrics of the whole run, as `hpcosim_sim.record.results.metrics_of` returns
            them. Those that do not belong to single jobs are kept.

    Raises:
        ExperimentError: no job was submitted within the measured period.
    """
    among = np.ones(len(record.recording), dtype=np.bool_)
    metrics = dict(whole)
    if settings.warm_up_s or settings.cool_down_s:
        period, among = measured_period(np.array(record.recording.submit_s), settings)
        metrics.update(job_metrics(record, among))
        for name in OVERRUNS:
            if not metrics[name]:
                del metrics[name]
        metrics["utilization"] = utilization_within(record, period)
    return Measured(metrics, list(_breakdowns(record, settings, among)))


def measured_period(
    submit_s: NDArray[np.float64], settings: MeasureSettings
) -> tuple[Period, Mask]:
    """Return the measured period of a run, and which jobs are submitted within it.

    Args:
        submit_s: float64[jobs], time of submission of each job, s.
        settings: the cuts.

    Raises:
        ExperimentError: there are none.
    """
    if not len(submit_s):
        raise ExperimentError("measure: the run has no jobs, so it has no measured period")
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    period = Period(first_s + settings.warm_up_s, last_s - settings.cool_down_s)
    among = (submit_s >= period.start_s) & (submit_s <= period.end_s)
    if not among.any():
        raise ExperimentError(
            f"measure: no job is submitted within the measured period, from {period.start_s:g} s "
            f"to {period.end_s:g} s; the submissions last from {first_s:g} s to {last_s:g} s: "
            f"reduce warm_up_s or cool_down_s"
        )
    return period, among


def job_metrics(record: RunRecord, among: Mask) -> Metrics:
    """Return the metrics of a subset of the jobs, with the definitions of `metrics.json`.

    Args:
        record: a run, complete or not.
        among: bool[jobs], the jobs, by row of the recording.
    """
    counts = job_counts(record, among=among)
    del counts["jobs_skipped"]  # dropped jobs belong to no subset
    ran = jobs_that_ran(record, among)
    return {
        **counts,
        **waits(ran),
        **slowdowns(ran),
        **overruns(record, ran),
        "mean_normalised_edp": mean_normalised_edp(record, ran),
    }


def utilization_within(record: RunRecord, period: Period) -> float:
    """Return the utilization of the platform in a period, 0 to 1.

    sum(requested cores * time of the job within the period) over the jobs that started, whenever
    they were submitted / (cores of the platform * length of the period). A job that has not ended
    runs until the end of the record; one that was requeued or suspended counts while its tasks ran.
    The utilization of a period of 0 s is 0.

    Args:
        record: a run, complete or not.
    """
    if period.end_s <= period.start_s:
        return 0.0
    recording, periods = record.recording, record.recording.periods
    cores = np.array(recording.cores, dtype=np.float64)
    start_s, end_s = np.array(recording.start_s), np.array(recording.end_s)
    if not recording.has_single_runs:
        start_s, end_s = np.array(periods.start_s), np.array(periods.end_s)
        cores = cores[np.array(periods.row)]
    started = ~np.isnan(start_s)
    end_s = np.where(np.isnan(end_s), record.end_s, end_s)[started]
    within_s = np.minimum(end_s, period.end_s) - np.maximum(start_s[started], period.start_s)
    cores = cores[started]
    busy = float(cores @ np.maximum(within_s, 0.0))
    return busy / (record.platform.core_count * (period.end_s - period.start_s))


def _breakdowns(
    record: RunRecord, settings: MeasureSettings, among: Mask
) -> Iterator[dict[str, Any]]:
    """Yield a row per class that has jobs."""
    for name, mask in _size_classes(record, settings.size_classes):
        if (chosen := mask & among).any():
            yield {"breakdown": "cores", "class": name, **job_metrics(record, chosen)}
    for kind in settings.kinds:
        codes, known = coded(record.recording.owners.names(kind))
        if not any(known):
            continue  # the workload has no such names
        of_jobs = np.array(codes)
        for code in np.unique(of_jobs[among]).tolist():
            name = known[code] or ("unknown" if kind == "user" else NO_NAME)
            chosen = (of_jobs == code) & among
            yield {"breakdown": kind, "class": name, **job_metrics(record, chosen)}


def _size_classes(record: RunRecord, bounds: tuple[int, ...]) -> Iterator[tuple[str, Mask]]:
    """Yield the name of each size class and its jobs."""
    cores = np.array(record.recording.cores)
    for first, after in zip_longest(bounds, bounds[1:]):
        if after is None:
            yield f"{first}+", cores >= first
        else:
            name = str(first) if after == first + 1 else f"{first}-{after - 1}"
            yield name, (cores >= first) & (cores < after)


def named_kinds(jobs: JobTable) -> set[GroupedBy]:
    """Return the kinds of names that a job has."""
    return {kind for kind in GROUPED_BY if (getattr(jobs, kind) != UNKNOWN).any()}
