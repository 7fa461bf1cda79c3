"""Jobs that are not submitted: when would they start and end, and which way to ask ends first."""

from __future__ import annotations

import argparse
import dataclasses
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, NoReturn

import numpy as np
from msgspec import structs

from hpcosim_client.arrays import Floats
from hpcosim_experiments.executors import ParallelMap
from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.features import check as check_features
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_slurm import texts
from hpcosim_slurm.errors import ReadingError
from hpcosim_slurm.state import LiveJob, LivePartition
from hpcosim_slurm.worlds import specs
from hpcosim_slurm.worlds.specs import Shown
from hpcosim_twin.cluster.observation import ForecastError, Observation, learned
from hpcosim_twin.cluster.queue_state import AdoptedState, QueuedJob
from hpcosim_twin.futures.forecast import (
    Knowledge,
    Submissions,
    at_limits,
    drawn_run,
    map_in_batches,
)
from hpcosim_workloads.table import JobSpec

MOST_TASKS = 1 << 24
SIGMAS = 1.96
"""Half width of an interval of 95 %, standard deviations."""
LIKELY = 0.95
"""Share of the jobs of a user that must have ended within an advised time limit."""
MINUTES_S = 300.0
"""Advised time limits are multiples of it, s."""
SHORTER = 0.8
"""Longest advised time limit, as a share of that which was asked for."""


class AskedJob(NamedTuple):
    """A job that somebody asks for.

    Attributes:
        options: options of sbatch, as they were given.
    """

    options: str
    job: LiveJob


class Answer(NamedTuple):
    """When a job would start and end. Times are s on the clock of the jobs; infinity: never.

    Attributes:
        start_s, end_s: float64[futures].
        first: share of the futures in which it ends first of all jobs that are compared, with
            equal parts where several do; 0 where none ends.
        first_low, first_high: 95 % interval of this share by Wilson's score (Wilson 1927, Probable
            inference, the law of succession, and statistical inference).
    """

    asked: AskedJob
    start_s: Floats
    end_s: Floats
    first: float
    first_low: float
    first_high: float


def asked_job(options: str, observation: Observation, user: str = "") -> AskedJob:
    """Return the job that options of sbatch ask for.

    Args:
        options: such as `-n 16 -t 2:00:00 -p batch`.
        user: its user; empty: one without a history.

    Raises:
        ForecastError: an option is unknown or invalid, or the partition does not exist.
    """
    try:
        found = _parser().parse_args(shlex.split(options))
        return AskedJob(options, _job(found, observation, user))
    except (ForecastError, ReadingError, ProtocolError, ValueError) as error:
        raise ForecastError(f"{options!r}: {error}") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ForecastError(f"{message}; expected options of sbatch, such as -n 16 -t 2:00:00")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--ntasks", type=int, default=0)
    parser.add_argument("-N", "--nodes", default="")
    parser.add_argument("-c", "--cpus-per-task", type=int, default=1)
    parser.add_argument("--ntasks-per-node", type=int, default=0)
    parser.add_argument("-t", "--time", default="")
    parser.add_argument("-p", "--partition", default="")
    parser.add_argument("-A", "--account", default="")
    parser.add_argument("-q", "--qos", default="")
    parser.add_argument("-C", "--constraint", default="")
    parser.add_argument("--mem", default="")
    parser.add_argument("--mem-per-cpu", default="")
    parser.add_argument("--gres", default="")
    parser.add_argument("--exclusive", action="store_true")
    return parser


def _job(found: argparse.Namespace, observation: Observation, user: str) -> LiveJob:
    live = observation.state
    partition = partition_of(found.partition, live.partitions)
    least, _, most = found.nodes.partition("-")
    nodes_min, nodes_max = texts.number_of(least), texts.number_of(most or least)
    if 0 < nodes_max < nodes_min:
        raise ForecastError(f"--nodes: expected a range such as 1-3, got {found.nodes}")
    check_features(found.constraint)
    tasks, per_node = found.ntasks, found.ntasks_per_node
    for name in ("ntasks", "cpus_per_task", "ntasks_per_node"):
        if not 0 <= getattr(found, name) <= MOST_TASKS:
            raise ForecastError(f"--{name.replace('_', '-')}: expected 0 to {MOST_TASKS}")
    tasks = tasks or max(nodes_min, 1) * max(per_node, 1)
    nodes_min = max(nodes_min, -(-tasks // per_node) if per_node else 1)
    cpus = tasks * max(found.cpus_per_task, 1)
    limit_s = texts.duration_s(found.time) if found.time else partition.default_time_s
    return LiveJob(
        id=1 + max(live.jobs, default=0),
        name="asked",
        user=user,
        account=found.account,
        qos=found.qos,
        partition=partition.name,
        state="pending",
        slurm_state="PENDING",
        submitted_s=live.at_s,
        eligible_s=live.at_s,
        cpus=cpus,
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        time_limit_s=limit_s or partition.time_limit_s,
        memory_mb=_memory_mb(found, observation, partition.name, cpus, nodes_min),
        devices=texts.devices_of(found.gres),
        features=found.constraint,
        is_exclusive=found.exclusive,
    )


def partition_of(name: str, partitions: Mapping[str, LivePartition]) -> LivePartition:
    """Return a partition; an empty name is that of the default.

    Raises:
        ForecastError: it does not exist.
    """
    if name:
        if name not in partitions:
            known = ", ".join(sorted(partitions)) or "none"
            raise ForecastError(f"no partition {name[:80]!r}; the cluster has {known}")
        return partitions[name]
    default = [each for each in partitions.values() if each.is_default]
    if not default:
        raise ForecastError("the cluster has no default partition; give one, such as -p NAME")
    return default[0]


def _memory_mb(
    found: argparse.Namespace, observation: Observation, partition: str, cpus: int, nodes: int
) -> int | None:
    """Return the memory on each node; None: all that there is."""
    if found.mem:
        return math.ceil(texts.memory_mb(found.mem)) or None
    per_cpu = texts.memory_mb(found.mem_per_cpu) if found.mem_per_cpu else 0.0
    known = {each.name: each for each in observation.platform.partitions}
    if not per_cpu and partition in known:
        per_cpu = known[partition].default_memory_per_core_mb or 0.0
    return math.ceil(per_cpu * -(-cpus // nodes)) or None


def answers_of(
    asked: Sequence[AskedJob],
    observation: Observation,
    adopted: AdoptedState,
    futures: int,
    seed: int,
    parallel: ParallelMap | None = None,
    instead_of: int | None = None,
) -> list[Answer]:
    """Return when each of some jobs would start and end if it was submitted now, alone.

    All jobs see the same futures: submissions, run times of other jobs, phases of the scheduler.

    Args:
        futures: number of simulations of each job.
        instead_of: number of a waiting job in whose place each of them would be: with its time of
            submission, and without it; None: they are new.
        seed: seed of all draws. The result is the same for any number of workers.
        parallel: runs the simulations; None: one after another, in this process.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    state = adopted.state
    run_times, submissions = learned(observation.history), Submissions(state, beside=1)
    shown = Shown(observation.state, state.platform)
    first_seed, *seeds = np.random.SeedSequence(seed).spawn(futures + 1)
    jobs = [QueuedJob(specs.spec_of(each.job, state.now_s, shown)) for each in asked]
    if instead_of is not None:
        (old,) = (job.spec for job in state.waiting if job.spec.job_id == instead_of)
        state = replace(state, jobs=[job for job in state.jobs if job.spec is not old])
        jobs = [QueuedJob(_in_place_of(old, job.spec)) for job in jobs]
    latest_s = state.now_s
    for job in jobs:
        limits = at_limits(state, np.random.default_rng(first_seed), job)
        latest_s = max((latest_s, *limits.values()))
    starts, ends = [], []
    for job in jobs:
        knowledge = Knowledge(state, run_times, submissions, latest_s - state.now_s, job)
        runs = map_in_batches(parallel, partial(drawn_run, knowledge), seeds)
        starts.append([run.start_s for run in runs])
        ends.append([run.end_s for run in runs])
    first = _first(np.array(ends))
    return [
        Answer(each, np.array(starts[at]), np.array(ends[at]), *_interval(first[at], futures))
        for at, each in enumerate(asked)
    ]


def _in_place_of(old: JobSpec, new: JobSpec) -> JobSpec:
    """Return a job that has been waiting as long as another, under the same conditions."""
    request = new.request
    if old.request is not None and request is not None:
        names = ("hold", "begin_s", "dependencies", "any_dependency", "reservation")
        request = structs.replace(request, **{name: getattr(old.request, name) for name in names})
    return new._replace(submit_s=old.submit_s, job_id=old.job_id, request=request)


def check_possible(
    asked: Sequence[AskedJob], observation: Observation, adopted: AdoptedState
) -> None:
    """Check that jobs could start on the cluster if it was empty.

    Raises:
        ForecastError: one asks for more than there is, or than its partition permits.
    """
    live, platform = observation.state, adopted.state.platform
    shown, cluster = Shown(live, platform), Cluster(platform, 0.0)
    for each in asked:
        job = each.job
        why = infeasibility(cluster, specs.spec_of(job, adopted.state.now_s, shown))
        partition = live.partitions.get(job.partition)
        if not why and partition is not None and not _admits(partition, job):
            limit_s, nodes = partition.time_limit_s, len(partition.nodes)
            most = "any time" if limit_s is None else f"at most {_limit(limit_s)}"
            why = f"partition {partition.name} permits {most} on at most {nodes} nodes"
        if why:
            raise ForecastError(f"{each.options!r} can never start: {why}")


class Advice(NamedTuple):
    """A way to ask that may start a job sooner.

    Attributes:
        what: the change, in words.
        answer: when the job would start and end then.
        sooner: share of the futures in which it starts sooner than as it was asked for.
        gain_s: median of the times by which it starts sooner, s; below 0: later. NaN: in half of
            the futures it does not start either way.
    """

    what: str
    answer: Answer
    sooner: float
    gain_s: float


def advice_of(
    asked: AskedJob,
    observation: Observation,
    adopted: AdoptedState,
    futures: int,
    seed: int,
    parallel: ParallelMap | None = None,
    instead_of: int | None = None,
) -> tuple[Answer, list[Advice]]:
    """Return the answer for a job, and what would help: the ways that start soonest are first.

    The arguments are those of `answers_of`. A shorter time limit is one within which
    `LIKELY` of such jobs of the user ended; half the nodes get twice the time; each other
    partition that is up and admits the job is tried.
    """
    ways = list(_ways(asked, observation))
    same, *others = answers_of(
        [asked, *(way for _, way in ways)],
        observation,
        adopted,
        futures,
        seed,
        parallel,
        instead_of,
    )
    found = []
    for (what, _), answer in zip(ways, others, strict=True):
        with np.errstate(invalid="ignore"):  # infinity - infinity
            gain_s = float(np.median(same.start_s - answer.start_s))
        found.append(Advice(what, answer, float((answer.start_s < same.start_s).mean()), gain_s))
    return same, sorted(found, key=lambda each: (-each.sooner, each.what))


def _ways(asked: AskedJob, observation: Observation) -> Iterator[tuple[str, AskedJob]]:
    """Yield other ways to ask for the same work, with words for the change."""
    job, live = asked.job, observation.state
    own = live.partitions.get(job.partition)
    limit_s = job.time_limit_s
    if limit_s is not None:
        model = learned(observation.history)
        times = model.distribution(*model.key(job.user, job.account, limit_s, job.cpus))
        shorter_s = MINUTES_S * math.ceil(float(times.quantiles([LIKELY])[0]) / MINUTES_S)
        if shorter_s <= SHORTER * limit_s:
            share = 100 * times.probability(shorter_s)
            yield (
                f"time limit {_limit(shorter_s)}: {share:.0f} % of such jobs ended sooner",
                asked._replace(job=dataclasses.replace(job, time_limit_s=shorter_s)),
            )
    if job.nodes_min > 1 and job.cpus > 1:
        half = dataclasses.replace(
            job,
            nodes_min=(job.nodes_min + 1) // 2,
            nodes_max=(job.nodes_max + 1) // 2,
            cpus=(job.cpus + 1) // 2,
            time_limit_s=None if limit_s is None else 2 * limit_s,
        )
        if own is None or _admits(own, half):
            yield "half the nodes, twice the time", asked._replace(job=half)
    for name, partition in sorted(live.partitions.items()):
        if name != job.partition and partition.is_up and _admits(partition, job):
            yield f"partition {name}", asked._replace(job=dataclasses.replace(job, partition=name))


def _limit(limit_s: float) -> str:
    """Return a time limit as sbatch takes it, such as `2-01:30:00`."""
    days, left_s = divmod(int(limit_s), 86_400)
    return f"{days}-" * (days > 0) + f"{left_s // 3600:02}:{left_s % 3600 // 60:02}:00"


def _admits(partition: LivePartition, job: LiveJob) -> bool:
    """Return whether time limit and number of nodes of a job fit a partition."""
    longest_s, limit_s = partition.time_limit_s, job.time_limit_s
    if longest_s is not None and (limit_s is None or limit_s > longest_s):
        return False
    return job.nodes_min <= len(partition.nodes)


def map_of(
    partition: str, nodes: Sequence[int], hours: Sequence[float], observation: Observation
) -> list[AskedJob]:
    """Return jobs on whole nodes of a partition, for each number of nodes and each time.

    Args:
        partition: its name; empty: the default.
        hours: time limits, h.

    Raises:
        ForecastError: the partition does not exist.
    """
    found = partition_of(partition, observation.state.partitions)
    return [
        asked_job(
            f"-N {count} --exclusive -t {math.ceil(60 * time_h)} -p {shlex.quote(found.name)}",
            observation,
        )
        for count in nodes
        for time_h in hours
    ]


def _first(ends_s: Floats) -> Floats:
    """Return the share of futures in which each job ends first, float64[jobs].

    Args:
        ends_s: float64[jobs, futures].
    """
    is_first = (ends_s == ends_s.min(axis=0)) & np.isfinite(ends_s)
    shares: Floats = (is_first / np.maximum(is_first.sum(axis=0), 1)).mean(axis=1)
    return shares


def _interval(share: float, count: int) -> tuple[float, float, float]:
    """Return a share with Wilson's interval."""
    square = SIGMAS**2 / count
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(square * share * (1 - share) + square**2 / 4) / (1 + square)
    return float(share), float(middle - half), float(middle + half)
