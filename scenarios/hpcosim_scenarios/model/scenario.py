"""A scenario: platform, workload, scheduler and seed; `scenario_file` reads one."""

from __future__ import annotations

from typing import Annotated, get_args

from msgspec import Meta, Struct

import hpcosim_protocol as protocol
from hpcosim_client.catalogue.power import AlwaysOn, Oracle, Power
from hpcosim_client.catalogue.trained import is_trained
from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_protocol import Placement
from hpcosim_protocol.platform import Fraction, NotNegative
from hpcosim_server.physics.contention import check_contention
from hpcosim_workloads.logs.job_line import (
    JobLine,
    Profile,
)

MOST_NODES = 1_000_000
MOST_LINES = 10_000

# Bounds far beyond any machine, within which no number of a run can overflow.
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Cores = Annotated[int, Meta(gt=0, le=1_000_000)]
Nodes = Annotated[int, Meta(gt=0, le=1_000_000)]
Watts = Annotated[float, Meta(ge=0, le=1e9)]
Mbps = Annotated[float, Meta(ge=0, le=1e12)]
Clock = Annotated[float, Meta(ge=1e-6, le=1e6)]
Factor = Annotated[float, Meta(ge=1e-6, le=1e6)]
Seconds = Annotated[float, Meta(gt=0, le=1e12)]
Span = Annotated[float, Meta(ge=0, le=1e12)]
Jobs = Annotated[int, Meta(gt=0, le=100_000_000)]
Days = Annotated[int, Meta(gt=0, le=36_525)]
Steps = Annotated[int, Meta(gt=0, le=100_000_000)]
WholeSeconds = Annotated[int, Meta(gt=0, le=10**12)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Scalar = bool | int | float | str | None


class Contention(protocol.Contention, frozen=True, forbid_unknown_fields=True):
    """See `hpcosim_protocol.Contention`."""

    c_mbps: Mbps
    b_per_mbps: Annotated[float, Meta(ge=-1e6, lt=0)]
    da: Annotated[float, Meta(ge=-1e6, le=1e6)]
    db_mbps: Mbps
    dc_mbps: Mbps
    dd_mbps: Mbps


class Processor(protocol.Processor, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """See `hpcosim_protocol.Processor`; a key it does not know is an error here.

    Its power must be said, if only as 0: energies of 0 J would else come as a surprise.
    """

    cores: Cores
    clock_ghz: Clock = 1.0
    static_w: Watts
    dynamic_w: Watts
    flops_per_cycle: Factor = 1.0
    contention: Contention | None = None

    def __post_init__(self) -> None:
        check_contention(self)


class PowerStates(protocol.PowerStates, frozen=True, forbid_unknown_fields=True):
    """See `hpcosim_protocol.PowerStates`."""

    sleep_w: Watts
    switch_on_s: Span
    switch_on_w: Watts
    switch_off_s: Span
    switch_off_w: Watts
    switch_on_sd_s: Span = 0.0
    switch_off_sd_s: Span = 0.0


class NodeGroup(protocol.NodeGroup, frozen=True, forbid_unknown_fields=True):
    """See `hpcosim_protocol.NodeGroup`."""

    count: Nodes
    processors: Annotated[tuple[Processor, ...], Meta(min_length=1)]
    memory_mb: Mbps = 0.0
    power_states: PowerStates | None = None


class Platform(protocol.Platform, frozen=True, forbid_unknown_fields=True):
    """See `hpcosim_protocol.Platform`."""

    nodes: Annotated[tuple[NodeGroup, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.node_count > MOST_NODES:
            raise ValueError(f"a platform has at most {MOST_NODES} nodes, not {self.node_count}")


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
        json: a file in the project's own format, likewise.
        trace: a known log by name, see `hpcosim traces`.
        synthetic: a model.
        inline: the jobs themselves, each as `JobLine` has it.
        profiles: kinds of jobs by name, see `Profile`. A job line has from the profile it names
            what it does not say itself, and must then name one of these. A job of an SWF log
            has the one whose name is the number of its executable, written in quotes; that
            may not say what a log does (cores, work, requested time).
        lenient: leave out corrupt lines of a file and count them.
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
    profiles: dict[str, Profile] = {}
    lenient: bool = False
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


SOURCES = ("swf", "json", "trace", "synthetic", "inline")


class Scheduler(Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler of `hpcosim run`; one that connects by itself says its own.

    Attributes:
        name: as `hpcosim schedule` takes it.
        power: the manager that switches nodes beside it, see `hpcosim_client.catalogue.power`;
            paths in it are from the scenario's folder.
        power_awareness: what it makes of nodes that are not on, see
            `hpcosim_client.heuristics.power_aware`.
        agents: names that `--scheduler` may say instead of a trained scheduler with its model, as
            `pairing:models/energy.safetensors`; paths are from the scenario's folder.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)] = "fcfs"
    power: Power = AlwaysOn()
    power_awareness: Awareness = "unaware"
    agents: dict[Name, Annotated[str, Meta(min_length=1, max_length=1000)]] = {}

    def __post_init__(self) -> None:
        for name, agent in self.agents.items():
            if not is_trained(agent) or not agent.partition(":")[2]:
                raise ValueError(
                    f"agents.{name} must be a trained scheduler with its model, as "
                    f"pairing:models/energy.safetensors, not {agent!r}"
                )


class Scenario(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that a result follows from.

    Attributes:
        name: for results and figures.
        seed: of everything that is drawn.
        platform: the cluster.
        workload: the jobs.
        scheduler: who decides.
        kill_at_walltime: a job past its requested time is killed.
        dynamic_jobs: the scheduler may submit jobs of its own.
        wake_on_allocation: a job may be given nodes that sleep or are being switched on; it holds
            them until the last is on, and starts then.
    """

    name: Name
    seed: Count = 0
    platform: Platform
    workload: Workload
    scheduler: Scheduler = Scheduler()
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False
    wake_on_allocation: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.scheduler.power, AlwaysOn):
            return
        if all(group.power_states is None for group in self.platform.nodes):
            raise ValueError(
                "scheduler.power switches nodes off, but no node group says its power_states"
            )
        if not (self.wake_on_allocation or self._wakes_ahead()):
            raise ValueError(
                "scheduler.power switches nodes off, but with wake_on_allocation: false nothing "
                "switches them on for a job; say wake_on_allocation: true, or power: always_on, or "
                "power_awareness: planned"
            )

    def _wakes_ahead(self) -> bool:
        """Return whether nodes are switched on for jobs before they are given to them."""
        scheduler = self.scheduler
        return scheduler.power_awareness == "planned" or isinstance(scheduler.power, Oracle)


KINDS: tuple[type[Struct], ...] = (
    Scenario,
    Platform,
    NodeGroup,
    PowerStates,
    Processor,
    Contention,
    Workload,
    Profile,
    JobLine,
    Lublin,
    Poisson,
    Bernoulli,
    Sampled,
    Seasonal,
    Scheduler,
    *get_args(Power),
)
