"""The workload section of a scenario: the source of the jobs, and how they are changed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hpcosim_protocol import Placement
from hpcosim_protocol.platform import Fraction, NotNegative
from hpcosim_scenarios.model.messages import (
    Clock,
    Cores,
    Count,
    Days,
    Factor,
    Jobs,
    Seconds,
    Steps,
    WholeSeconds,
)
from hpcosim_workloads.logs.job_lines import JobLine, JobProfile
from hpcosim_workloads.logs.job_log import ZeroRunTime
from hpcosim_workloads.logs.swf import FailedJobs, PartitionField, PrecedingJobs, Sizes, SwfFields

MOST_LINES = 10_000
SOURCES = ("swf", "json", "trace", "synthetic", "inline")


class Lublin(Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="lublin"):
    """Jobs of the model of Lublin and Feitelson (2003), "The workload on parallel supercomputers".

    Attributes:
        jobs: number of jobs.
        processors: size of the modelled machine in processors; the largest possible job. One
            processor is one core.
    """

    jobs: Jobs
    processors: Cores


class Poisson(Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="poisson"):
    """Jobs that arrive as a Poisson process; sizes and run times are log-uniform.

    Attributes:
        jobs: number of jobs.
        mean_interarrival_s: mean time between submissions, s.
        cores: smallest and largest number of cores of a job.
        run_s: shortest and longest run time, s, rounded to whole seconds.
        overestimate: largest ratio of requested time to run time. The ratio is uniform from 1 to
            this value; requested times are rounded up to whole minutes.
    """

    jobs: Jobs
    mean_interarrival_s: Seconds
    cores: tuple[Cores, Cores] = (1, 32)
    run_s: tuple[Seconds, Seconds] = (60.0, 7200.0)
    overestimate: Annotated[float, Meta(ge=1, le=1e6)] = 2.0


class Bernoulli(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="bernoulli"
):
    """Sequences of short and long jobs with at most one submission per second (Deep-EAS).

    See `hpcosim_workloads.synthetic.bernoulli`. Sequences 2,000 s apart do not overlap at a
    slowdown of 2 and with the other defaults: 60 long jobs, one after the other on the slowest
    machine, end after 59 s + 60 x 30 s = 1,859 s on average, with a standard deviation of about
    30 s.

    Attributes:
        arrival_probability: probability that a job is submitted at a step of 1 s (lambda in the
            paper).
        short_probability: probability that a job is a short one (beta in the paper).
        short_run_s: smallest and largest mean run time of a short job on the fastest machine, whole
            seconds, uniform. The requested time is the mean run time times `slowdown`.
        long_run_s: smallest and largest mean run time of a long job, as `short_run_s`.
        cores: smallest and largest number of cores of a job, uniform.
        accuracy: ratio of mean to variance of the true run time on the fastest machine (c in the
            paper). Null: run times have no variance.
        slowdown: run time on the slowest machine divided by that on the fastest. Times in the
            workload are those on the slowest machine; set `reference_clock_ghz` to its clock.
        steps: number of steps of 1 s in a sequence at which a job can be submitted.
        sequences: number of sequences.
        apart_s: time from the start of a sequence to the start of the next, s; at least `steps`.
    """

    arrival_probability: Fraction
    short_probability: Fraction = 0.5
    short_run_s: tuple[WholeSeconds, WholeSeconds] = (1, 3)
    long_run_s: tuple[WholeSeconds, WholeSeconds] = (10, 15)
    cores: tuple[Cores, Cores] = (1, 10)
    accuracy: Factor | None = 4.0
    slowdown: Annotated[float, Meta(ge=1, le=1e6)] = 1.0
    steps: Steps = 60
    sequences: Steps = 1
    apart_s: Seconds = 2000.0


class Imitated(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model that draws jobs from a log: either `swf` or `trace`.

    Attributes:
        swf: path of a log in the Standard Workload Format, relative to the scenario's folder. The
            file may be gzipped.
        trace: name of a log that `hpcosim traces` lists.
        of_jobs: first job and job after the last of the part of the log to draw from, counted from
            0 in order of submission, without dropped jobs. Null: the whole log.
    """

    swf: str | None = None
    trace: str | None = None
    of_jobs: tuple[Count, Count] | None = None

    def __post_init__(self) -> None:
        if (self.swf is None) == (self.trace is None):
            found = "neither" if self.swf is None else "both"
            raise ValueError(f"expected one of swf, trace, got {found}")
        if self.of_jobs is not None and self.of_jobs[0] >= self.of_jobs[1]:
            raise ValueError(_not_a_range("of_jobs", self.of_jobs))


class Sampled(Imitated, frozen=True, tag_field="model", tag="sampled", kw_only=True):
    """Jobs of a log in random order that arrive as a Poisson process at the log's mean rate.

    No job is drawn again before all jobs of the log have been drawn. See
    `hpcosim_workloads.synthetic.imitation.sampled`.

    Attributes:
        jobs: number of jobs.
    """

    jobs: Jobs


class Seasonal(Imitated, frozen=True, tag_field="model", tag="seasonal", kw_only=True):
    """Jobs that arrive with the weekly pattern of a log.

    Each hour of a weekday has as many jobs as in the log on average. The header `StartTime` of the
    log gives the weekday of its first second; without it the log is taken to begin on a Monday at
    00:00. See `hpcosim_workloads.synthetic.imitation.seasonal`.

    Attributes:
        days: number of days, from Monday 00:00.
        pairs: draw the size and the run time of a job from the same job of the log. False: from two
            jobs, so that the load differs from that of the log.
    """

    days: Days
    pairs: bool = False


class Workload(Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs: one source (`swf`, `json`, `trace`, `synthetic` or `inline`), and changes to it.

    The changes are applied in this order: `window_s`, `jobs`, `divide_cores`, `max_cores`, `load`.

    Attributes:
        swf: path of a log in the Standard Workload Format, relative to the scenario's folder. The
            file may be gzipped.
        json: path of a file with one JSON object per job and line, relative to the scenario's
            folder. The keys are those of `inline`. The file may be gzipped.
        trace: name of a log that `hpcosim traces` lists; `hpcosim traces get` downloads it.
        synthetic: a model that draws jobs from the seed.
        inline: the jobs themselves, at most 10,000.
        profiles: properties that several jobs share, by name. An `inline` or `json` job that
            names a profile takes from it the properties that it does not state. A job of an SWF
            log has the profile whose name is its executable number (field 14), written in quotes;
            such a profile cannot state properties that the log states (cores, work, requested
            time).
        lenient: drop corrupt lines of a file and count them. False: a corrupt line is an error.
        zero_run_time: of a job log, `drop` or `keep` jobs whose run time is 0 (SWF field 4).
            A kept job ends at the instant it starts.
        sizes: of an SWF log, the source of a job's cores: `requested` (field 8) or `allocated`
            (field 5) processors. If that field is 0 or less, the other one is used.
        failed_jobs: of an SWF log, how jobs end that failed or were cancelled (field 11):
            `complete` as others, or `fail`; then jobs cancelled while they waited are dropped.
        preceding_jobs: of an SWF log, `ignore` the preceding job (field 17), or `wait` until it is
            over and the think time (field 18) has passed.
        partition_field: of an SWF log, the source of a job's partition: `partition` (field 16) or
            `queue` (field 15).
        placement: layout of jobs over nodes, for jobs that do not state it themselves or by their
            profile: `cores` (any free cores), `one_node` (all cores on one node) or `whole_nodes`
            (nodes are not shared with other jobs).
        window_s: select the jobs submitted from the first to before the second of these times, s.
            The first selected job is submitted at 0. Null: all jobs.
        jobs: select the jobs with these numbers: the first and the one after the last, counted
            from 0 in order of submission, without dropped jobs. The first selected job is
            submitted at 0. Null: all jobs.
        divide_cores: divisor of the cores of every job; the result is rounded up to whole tasks.
        max_cores: largest number of cores of a job; larger jobs are reduced to it. Null: no limit.
        load: factor on the arrival rate. Times between submissions are divided by it; run times,
            sizes and the times from submissions to deadlines do not change.
        reference_clock_ghz: clock at which the run times of the source hold, GHz. A job on nodes
            with another speed runs for proportionally longer or shorter. Null: run times are the
            same on every node.
    """

    swf: str | None = None
    json: str | None = None
    trace: str | None = None
    synthetic: Lublin | Poisson | Bernoulli | Sampled | Seasonal | None = None
    inline: Annotated[tuple[JobLine, ...], Meta(max_length=MOST_LINES)] | None = None
    profiles: dict[str, JobProfile] = {}
    lenient: bool = False
    zero_run_time: ZeroRunTime = "drop"
    sizes: Sizes = "requested"
    failed_jobs: FailedJobs = "complete"
    preceding_jobs: PrecedingJobs = "ignore"
    partition_field: PartitionField = "partition"
    placement: Placement = "cores"
    window_s: tuple[NotNegative, NotNegative] | None = None
    jobs: tuple[Count, Count] | None = None
    divide_cores: Cores = 1
    max_cores: Cores | None = None
    load: Factor = 1.0
    reference_clock_ghz: Clock | None = None

    def __post_init__(self) -> None:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"expected one source of jobs ({', '.join(SOURCES)}), got {found}")
        for name in ("window_s", "jobs"):
            window = getattr(self, name)
            if window is not None and window[0] >= window[1]:
                raise ValueError(_not_a_range(name, window))


def swf_fields(workload: Workload) -> SwfFields:
    """Return which fields of an SWF log are read."""
    return SwfFields(*(getattr(workload, name) for name in SwfFields._fields))


def _not_a_range(name: str, value: tuple[float, float]) -> str:
    return f"{name}: expected [first, last] with first < last, got {list(value)}"
