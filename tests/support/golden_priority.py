"""The recorded runs of a real Slurm, played to `Priorities`; see the README of the golden data."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from hpcosim_client import View
from hpcosim_protocol import (
    Event,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    NodeGroup,
    Partition,
    Platform,
    Processor,
)
from hpcosim_schedulers.slurm.multifactor import Priorities
from hpcosim_schedulers.slurm.settings import SiteSettings, parse_site
from support.paths import SHARED

GOLDEN = SHARED / "golden" / "slurm"
NODES = ("b1", "g1", *(f"{kind}{number}" for kind in "mn" for number in range(1, 5)))

MICRO = Platform(
    (NodeGroup(10, (Processor(12),), memory_mb=48000.0),),
    consumable=("cores", "memory"),
    partitions=(
        Partition(name="normal", nodes=((0, 9),), default=True, default_memory_per_core_mb=2800.0),
        Partition(name="debug", nodes=((6, 7),), default_memory_per_core_mb=2800.0),
    ),
)
"""The cluster as far as priorities depend on it."""


def micro_site() -> SiteSettings:
    """Return the settings of etc/slurm.conf and etc/sacctmgr.script."""
    users = {
        "account0": ("admin",),
        "account1": ("user1", "user2", "user3"),
        "account2": ("user4", "user5"),
    }
    return parse_site(
        {
            "accounts": {
                name: {"shares": 100, "users": {user: {} for user in own}}
                for name, own in users.items()
            },
            "qos": {"normal": {}, "supporters": {"priority": 100}},
            "priority": {
                "decay_half_life_s": 14_400,
                "max_age_s": 18_000,
                "weight_fair_share": 50_000,
                "weight_age": 50_000,
                "weight_partition": 1_000_000,
                "weight_job_size": 200_000,
                "weight_qos": 20_000,
            },
            "enforce": ["associations", "limits", "qos"],
        }
    )


class RecordedJob(NamedTuple):
    """A job of sacct. Times are seconds after the start of slurmctld, whole as in Slurm."""

    job_id: int
    user: str
    account: str
    cores: int
    nodes: int
    submit_s: float
    start_s: float
    end_s: float


class RecordedRun:
    """A run of 500 jobs.

    Args:
        name: `run1` or `run2`.

    Attributes:
        jobs: the jobs.
        start_epoch_s: start of slurmctld, to the second at which its periodic work began.
    """

    def __init__(self, name: str) -> None:
        self._folder = GOLDEN / name
        times = dict(line.split() for line in self._lines("t0.txt"))
        self.start_epoch_s = int(float(times["ctld_start"])) + 1
        self._t0_epoch_s = float(times["t0"])
        header, *rows = (line.split("|") for line in self._lines("sacct.psv"))
        self.jobs = [self._job(dict(zip(header, row, strict=True))) for row in rows]

    def shares(self) -> Iterator[tuple[float, dict[str, list[str]]]]:
        """Yield time and rows by user or account of each call of sshare."""
        at_s, rows = 0.0, dict[str, list[str]]()
        for line in self._lines("sshare.txt"):
            if line.startswith("##"):
                if rows:
                    yield at_s, rows
                found = re.search(r"epoch=(\S+)", line)
                at_s, rows = float(found[1]) - self.start_epoch_s if found else 0.0, {}
            else:
                account, user, *values = line.split("|")
                rows[user.strip() or account.strip()] = values

    def priorities(self) -> Iterator[tuple[float, dict[int, tuple[int, ...]]]]:
        """Yield time and (priority, age, fair-share, job size) by job of each call of sprio."""
        at_s, rows = 0.0, dict[int, tuple[int, ...]]()
        for line in self._lines("sprio.txt.gz")[1:]:
            if line.startswith("## t="):
                yield at_s, rows
                after_t0_s = float(line.split("=")[1])
                at_s, rows = self._t0_epoch_s + after_t0_s - self.start_epoch_s, {}
            elif not line.startswith("#"):
                job_id, _, *values = line.split()
                rows[int(job_id)] = tuple(map(int, values))

    def play(self, until_s: list[float]) -> Iterator[tuple[float, View, Priorities]]:
        """Play submissions, starts and ends, and yield at the given times, ascending."""
        view, priorities = View(MICRO), Priorities(micro_site(), MICRO)
        events = sorted(self._events(), key=lambda each: each[:2])
        position = 0
        for at_s in until_s:
            while position < len(events) and events[position][0] <= at_s:
                view.apply(events[position][0], [events[position][2]])
                priorities.update(view)
                position += 1
            view.apply(at_s, [])
            priorities.update(view)
            yield at_s, view, priorities

    def _events(self) -> Iterator[tuple[float, int, Event]]:
        for job in self.jobs:
            submitted = JobSubmitted(
                job.submit_s,
                job.job_id,
                job.cores,
                60.0,
                user=job.user,
                account=job.account,
                partitions=("normal",),
            )
            yield job.submit_s, 0, submitted
            nodes = list(range(job.nodes))
            cores = [job.cores // job.nodes] * job.nodes
            cores[0] += job.cores - sum(cores)
            yield job.start_s, 1, JobStarted(job.start_s, job.job_id, nodes, cores)
            yield job.end_s, 2, JobCompleted(job.end_s, job.job_id, "completed")

    def _job(self, row: dict[str, str]) -> RecordedJob:
        held = re.search(r"cpu=(\d+).*node=(\d+)", row["AllocTRES"])
        assert held is not None
        times = [
            datetime.fromisoformat(row[each]).replace(tzinfo=UTC).timestamp() - self.start_epoch_s
            for each in ("Submit", "Start", "End")
        ]
        return RecordedJob(
            int(row["JobIDRaw"]), row["User"], row["Account"], int(held[1]), int(held[2]), *times
        )

    def _lines(self, name: str) -> list[str]:
        path = self._folder / name
        data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        return data.decode().splitlines()
