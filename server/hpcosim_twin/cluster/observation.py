"""A live cluster with all that a forecast needs, as a file, and drawn run times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.random import Generator

from hpcosim_protocol import Platform
from hpcosim_protocol.errors import HpcosimError
from hpcosim_protocol.files import read_regular
from hpcosim_schedulers.forecast import RunTimes, TimeDistribution
from hpcosim_schedulers.forecast.run_times import SHORTEST_S
from hpcosim_schedulers.forecast.run_times import UNLIMITED_S as UNLIMITED_S
from hpcosim_slurm.files.output import write_files
from hpcosim_slurm.state import ClusterState
from hpcosim_workloads.table import JobSpec

Content = TypeVar("Content")

MAX_BYTES = 1 << 29  # of a recorded observation: about 500,000 jobs


def read_json(path: Path, most_bytes: int, kind: type[Content], wanted: str) -> Content:
    """Return the content of a JSON file.

    Raises:
        OSError: the file cannot be read, is not a regular file, or is too large.
        ForecastError: it has other content.
    """
    try:
        return msgspec.json.decode(read_regular(path, most_bytes), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ForecastError(f"{path}: {error}; expected {wanted}") from None


class Observation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A live cluster at an instant.

    Attributes:
        state: jobs, nodes and partitions; times are Unix times, s.
        settings: the settings of the scheduler `slurm`, as in a scenario.
        booted_s: Unix time of the controller's start, s; None: unknown.
        usage_s: raw usage by account and user, as `sshare` prints it, s.
    """

    format: Literal["hpcosim forecast 1"] = "hpcosim forecast 1"
    state: ClusterState
    platform: Platform
    settings: dict[str, Any]
    booted_s: float | None = None
    history: tuple[EndedJob, ...] = ()
    usage_s: Mapping[str, Mapping[str, float]] = {}
    slurm_s: Mapping[int, float] = {}


class Site(NamedTuple):
    """A site.

    Attributes:
        settings: the settings of the scheduler `slurm`, as in a scenario.
    """

    platform: Platform
    settings: dict[str, Any]


def write_observation(observation: Observation, path: Path) -> None:
    """Write an observation as JSON, to a new file.

    Raises:
        ForecastError: the file exists.
        InputError: it cannot be written.
    """
    if path.exists():
        raise ForecastError(f"{path}: the file exists; name a new one")
    write_files({path: msgspec.json.encode(observation) + b"\n"})


def read_observation(path: Path) -> Observation:
    """Return the observation in a file.

    Raises:
        OSError: the file cannot be read.
        ForecastError: it is no observation.
    """
    return read_json(path, MAX_BYTES, Observation, "a file of `hpcosim ask --save`")


UNKNOWN = np.geomspace(0.01, 1.0, 21)
"""Run times as shares of the time limit where no job has ended yet: a guess, from 1 % to all."""
SHARES = np.arange(1, len(UNKNOWN) + 1) / len(UNKNOWN)
"""Probabilities of at most these shares."""


class EndedJob(NamedTuple):
    """A job of the history.

    Attributes:
        run_s: its run time, s; None: it was ended at its limit.
        account: its account; empty: unknown, or of no use.
        cores: the cores that it asked for; 0: unknown, or of no use.
    """

    user: str
    requested_s: float
    run_s: float | None
    account: str = ""
    cores: float = 0.0


class JobRunTimes(RunTimes):
    """The model of run times of a cluster, learned from ended jobs.

    Args:
        by_account: whether run times of the same account count.
        by_cores: whether run times of jobs with as many cores count more.
    """

    def __init__(self, by_account: bool = True, by_cores: bool = True) -> None:
        super().__init__()
        self._by_account, self._by_cores, self._knows = by_account, by_cores, False

    def key(self, user: str, account: str, requested_s: float, cores: float) -> JobKind:
        """Return what the run time of a job depends on: the arguments of `distribution`."""
        group = account if self._by_account else ""
        return JobKind(user, group, requested_s, float(cores) if self._by_cores else 0.0)

    def distribution(
        self, user: str, group: str, requested_s: float, cores: float
    ) -> TimeDistribution:
        """Return the distribution of run times; without any ended job, `UNKNOWN` of the limit."""
        if not self._knows:
            return TimeDistribution(requested_s * UNKNOWN, SHARES)
        return super().distribution(user, group, requested_s, cores)

    def learn(self, job: EndedJob) -> None:
        """Take a job that has ended."""
        self._knows = True
        limit_s = job.requested_s
        is_ended = job.run_s is None or (job.run_s >= limit_s and limit_s < UNLIMITED_S)
        run_s = limit_s if job.run_s is None or is_ended else job.run_s
        self.ended(*self.key(job.user, job.account, limit_s, job.cores), run_s)


class JobKind(NamedTuple):
    """Jobs with the same distribution of run times."""

    user: str
    group: str
    requested_s: float
    cores: float


def learned(history: Iterable[EndedJob]) -> JobRunTimes:
    """Return the model of run times that has learned from ended jobs, in their order.

    Accounts and numbers of cores count if the history has any.
    """
    jobs = list(history)
    by_account, by_cores = any(job.account for job in jobs), any(job.cores for job in jobs)
    found = JobRunTimes(by_account, by_cores)
    for job in jobs:
        found.learn(job)
    return found


class DrawnRunTimes:
    """Run times of one simulation.

    Each simulation has probabilities of its own (`TimeDistribution.resampled`) for each kind of
    job: what a short history leaves unknown is the same for all jobs of a simulation.
    """

    def __init__(self, run_times: JobRunTimes, generator: Generator) -> None:
        self._run_times, self._generator = run_times, generator
        self._known: dict[JobKind, TimeDistribution] = {}

    def of(self, jobs: Iterable[tuple[JobSpec, float]]) -> list[float]:
        """Return a run time of each job, s.

        Args:
            jobs: with the time for which each has run, s.

        Returns:
            Run times above the time that has passed; infinity: a job runs until it is ended at its
            limit.
        """
        rows: dict[tuple[JobKind, float], list[int]] = {}
        for row, (job, elapsed_s) in enumerate(jobs):
            kind = self._run_times.key(job.user, job.account, job.requested_s, job.cores)
            rows.setdefault((kind, elapsed_s), []).append(row)
        found = np.zeros(sum(map(len, rows.values())))
        for (kind, elapsed_s), of_kind in rows.items():
            left = self._distribution(kind).after(elapsed_s)
            run_s = left.drawn_s(self._generator, len(of_kind))
            is_ended = run_s >= kind.requested_s
            found[of_kind] = np.where(is_ended, math.inf, np.maximum(run_s, elapsed_s + SHORTEST_S))
        return found.tolist()

    def _distribution(self, kind: JobKind) -> TimeDistribution:
        found = self._known.get(kind)
        if found is None:
            found = self._run_times.distribution(*kind).resampled(self._generator)
            self._known[kind] = found
        return found


class ForecastError(HpcosimError):
    """Base of every error this package raises."""
