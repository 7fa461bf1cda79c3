"""The workload section of a scenario: where the jobs come from, and what is made of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hpcosim_protocol import Placement
from hpcosim_protocol.platform import Fraction, NotNegative
from hpcosim_scenarios.model.bounds import (
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
from hpcosim_workloads.logs.job_line import JobLine, JobProfile
from hpcosim_workloads.logs.job_log import ZeroRunTime
from hpcosim_workloads.logs.swf import Sizes

MOST_LINES = 10_000
SOURCES = ("swf", "json", "trace", "synthetic", "inline")


class Lublin(Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="lublin"):
    """Jobs of the Lublin-Feitelson model (2003).

    Attributes:
        jobs: how many.
        processors: the size of the machine they are meant for.
    """

    jobs: Jobs
    processors: Cores


class Poisson(Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="poisson"):
    """Jobs that come as a Poisson process.

    Attributes:
        jobs: how many.
        mean_interarrival_s: mean time between submissions.
        cores: least and most cores, log-uniform.
        run_s: least and longest run time, log-uniform.
        overestimate: requested times are up to this many times the run time.
    """

    jobs: Jobs
    mean_interarrival_s: Seconds
    cores: tuple[Cores, Cores] = (1, 32)
    run_s: tuple[Seconds, Seconds] = (60.0, 7200.0)
    overestimate: Annotated[float, Meta(ge=1, le=1e6)] = 2.0


class Bernoulli(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="bernoulli"
):
    """Sequences of short and long jobs, of which one or none comes at each second.

    See `workload.bernoulli`. At a slowdown of 2, and the defaults of all else, 60 jobs that are all
    long and run one after the other on the slowest machine take 59 s + 60 x 30 s = 1,859 s at the
    most in the mean, with a standard deviation of about 30 s. So with sequences 2,000 s apart every
    job of one is over before the next begins, if no machine idles on purpose.

    Attributes:
        arrival_probability: that a job comes at a step of 1 s, lambda in the paper.
        short_probability: that a job is a short one, beta in the paper.
        short_run_s: least and greatest mean run time of a short job on the fastest machine, whole
            seconds, uniform; `slowdown` times that is the requested time.
        long_run_s: the same of a long job.
        cores: least and most cores, uniform.
        accuracy: on the fastest machine, the variance of the true run time is the mean / this, c in
            the paper; null: there is none.
        slowdown: how many times as long a job takes on the slowest machine as on the fastest; its
            times in the workload hold on the slowest, whose clock `reference_clock_ghz` must be.
        steps: at so many a job may come, in each sequence.
        sequences: how many.
        apart_s: time from the beginning of one to that of the next, `steps` at the least.
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
    """The log that a model imitates; one of the first two.

    Attributes:
        swf: a log in the Standard Workload Format; a path from the scenario's folder.
        trace: a known log by name, see `hpcosim traces`.
        of_jobs: only these of the jobs kept, counted from 0, without the last.
    """

    swf: str | None = None
    trace: str | None = None
    of_jobs: tuple[Count, Count] | None = None

    def __post_init__(self) -> None:
        if (self.swf is None) == (self.trace is None):
            found = "neither" if self.swf is None else "both"
            raise ValueError(f"what imitates a log has one of swf, trace; here is {found}")
        if self.of_jobs is not None and self.of_jobs[0] >= self.of_jobs[1]:
            raise ValueError(f"of_jobs must go from less to more, not {list(self.of_jobs)}")


class Sampled(Imitated, frozen=True, tag_field="model", tag="sampled", kw_only=True):
    """Jobs of a log in any order, as a Poisson process; see `workload.imitation.sampled`.

    Attributes:
        jobs: how many.
    """

    jobs: Jobs


class Seasonal(Imitated, frozen=True, tag_field="model", tag="seasonal", kw_only=True):
    """Jobs that come by weekday and hour as a log's do; see `workload.imitation.seasonal`.

    Attributes:
        days: how many, from a Monday, 00:00, on.
        pairs: size and run time of a job are those of one job of the log, not of two.
    """

    days: Days
    pairs: bool = False


class Workload(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the jobs come from (one of the first five) and what is made of them, in this order.

    Attributes:
        swf: a log in the Standard Workload Format; a path from the scenario's folder.
        json: a file in the project's own format; a path from the scenario's folder.
        trace: a known log by name, see `hpcosim traces`.
        synthetic: a model.
        inline: the jobs themselves, each as `JobLine` has it.
        profiles: kinds of jobs by name, see `JobProfile`. A job line has from the profile it names
            what it does not say itself, and must then name one of these. A job of an SWF log
            has the one whose name is the number of its executable, written in quotes; that
            may not say what a log does (cores, work, requested time).
        lenient: leave out corrupt lines of a file and count them.
        zero_run_time: of a job log, `drop` or `keep` jobs whose run time is 0 (SWF field 4).
            A kept job ends at the instant it starts. Default: drop.
        sizes: of an SWF log, the source of a job's cores: `requested` (field 8) or `allocated`
            (field 5) processors. If that field is 0 or less, the other one is used. Default:
            requested.
        placement: how jobs are laid over nodes where neither they nor their profiles say.
        window_s: only jobs submitted from the first to before the second of these.
        jobs: only these of the jobs kept, counted from 0, without the last.
        divide_cores: the cores of every job are divided by this, and rounded up.
        max_cores: jobs of more cores are cut down to these.
        load: so many times as many jobs in the same time.
        reference_clock_ghz: the clock at which run times hold; a job on nodes of another clock
            runs as much longer or shorter. Absent: run times hold on every node.
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
            raise ValueError(f"a workload has one of {', '.join(SOURCES)}; here is {found}")
        for name in ("window_s", "jobs"):
            window = getattr(self, name)
            if window is not None and window[0] >= window[1]:
                raise ValueError(f"{name} must go from less to more, not {list(window)}")
