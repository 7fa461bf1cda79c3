"""Jobs that are not submitted: when would they start and end, and which way to ask ends first."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_experiments.executors import ParallelMap
from hpcosim_protocol.errors import ProtocolError
from hpcosim_protocol.features import check as check_features
from hpcosim_slurm import texts
from hpcosim_slurm.errors import ReadingError
from hpcosim_slurm.state import LiveJob, LivePartition
from hpcosim_slurm.worlds import specs
from hpcosim_slurm.worlds.specs import Shown
from hpcosim_twin.forecast import (
    Knowledge,
    StartedRun,
    Submissions,
    at_limits,
    drawn_run,
    one_after_another,
)
from hpcosim_twin.observation import ForecastError, Observation, learned
from hpcosim_twin.queue_state import AdoptedState, QueuedJob

MOST_TASKS = 1 << 24
SIGMAS = 1.96
"""Half width of an interval of 95 %, standard deviations."""


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
        raise ForecastError(f"--job {options!r}: {error}") from None


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
    partition = _partition(found.partition, live.partitions)
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


def _partition(name: str, partitions: Mapping[str, LivePartition]) -> LivePartition:
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
) -> list[Answer]:
    """Return when each of some jobs would start and end if it was submitted now, alone.

    All jobs see the same futures: submissions, run times of other jobs, phases of the scheduler.

    Args:
        futures: number of simulations of each job.
        seed: seed of all draws. The result is the same for any number of workers.
        parallel: runs the simulations; None: one after another, in this process.

    Raises:
        ForecastError: the jobs that run do not fit the cluster.
    """
    state = adopted.state
    run_times, submissions = learned(observation.history), Submissions(state, beside=1)
    shown = Shown(observation.state, state.platform)
    mapped = parallel or one_after_another
    first_seed, *seeds = np.random.SeedSequence(seed).spawn(futures + 1)
    jobs = [QueuedJob(specs.spec_of(each.job, state.now_s, shown)) for each in asked]
    latest_s = state.now_s
    for job in jobs:
        limits = at_limits(state, np.random.default_rng(first_seed), job)
        latest_s = max((latest_s, *limits.values()))
    starts, ends = [], []
    for job in jobs:
        knowledge = Knowledge(state, run_times, submissions, latest_s - state.now_s, job)
        runs: list[StartedRun] = mapped(partial(drawn_run, knowledge), seeds)
        starts.append([run.start_s for run in runs])
        ends.append([run.end_s for run in runs])
    first = _first(np.array(ends))
    return [
        Answer(each, np.array(starts[at]), np.array(ends[at]), *_interval(first[at], futures))
        for at, each in enumerate(asked)
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
