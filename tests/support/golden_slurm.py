"""Recorded runs of a real Slurm: its cluster, its workloads and what it did."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hpcosim_protocol import JobRequest, NodeGroup, Partition, Platform, Processor, Switch
from hpcosim_schedulers.slurm.policy import SlurmPolicy, slurm
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_sim.record.recording import STATES
from hpcosim_workloads.table import NAMED, PLACEMENTS, JobSpec, JobTable, coded, job_table
from support.paths import SHARED
from support.sbatch_jobs import NEVER_S, NODES, events_jobs, host_names
from support.simulating import simulate

GOLDEN_SLURM = SHARED / "golden" / "slurm"

USER_ACCOUNTS = {
    "user1": "account1",
    "user2": "account1",
    "user3": "account1",
    "user4": "account2",
    "user5": "account2",
}


def micro_cluster() -> Platform:
    """Return UBCCR's micro cluster: ten nodes of 12 cores, two GPUs, three leaf switches."""
    processor = (Processor(12, static_w=100.0, dynamic_w=10.0),)

    def group(names: str, count: int, features: str, memory: float = 48_000.0) -> NodeGroup:
        gres = {"gpu": 2} if names == "g1" else {}
        parts = tuple(features.split(","))
        return NodeGroup(count, processor, memory, names=names, features=parts, gres=gres)

    return Platform(
        (
            group("b1", 1, "IB,CPU-G,BigMem", 512_000.0),
            group("g1", 1, "IB,CPU-G"),
            group("m[1-4]", 4, "IB,CPU-M"),
            group("n[1-4]", 4, "IB,CPU-N"),
        ),
        consumable=("cores", "memory"),
        partitions=(
            Partition(
                name="normal",
                nodes=((0, 9),),
                default=True,
                default_memory_per_core_mb=2800.0,
            ),
            Partition(name="debug", nodes=((6, 7),), default_memory_per_core_mb=2800.0),
        ),
        switches=(
            Switch(name="IBN", nodes=((6, 9),)),
            Switch(name="IBM", nodes=((2, 5),)),
            Switch(name="IBG", nodes=((0, 1),)),
            Switch(name="TOP", switches=("IBN", "IBM", "IBG")),
        ),
    )


@dataclass
class RecordedJob:
    """What happened to a job, s after t0.

    Attributes: submission, start, `main` or `backfill`, nodes, end, `exit` or `timelimit`.
    """

    job_id: int
    submit_s: float
    start_s: float
    by: str
    nodes: tuple[str, ...]
    end_s: float
    end_by: str


@dataclass
class RecordedRun:
    """A recorded run.

    Attributes:
        jobs: its jobs by number.
        ctld_start_s: start of slurmctld, s after t0.
        epoch_s: clock at t0, s since 1970.
        main: entries of the log of the main scheduler: time, event and arguments.
        loop_begin_s: time from the start of slurmctld to its main loop, from the first pass after
            t0, s.
        backfill: those of the backfill scheduler.
    """

    jobs: dict[int, RecordedJob]
    ctld_start_s: float
    epoch_s: float
    main: list[list[str]] = field(default_factory=list)
    loop_begin_s: float = 1.15
    backfill: list[list[str]] = field(default_factory=list)


def recorded_run(folder: Path) -> RecordedRun:
    """Read a recorded run."""
    with (folder / "events.psv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="|"))
    jobs = {
        int(row["JobID"]): RecordedJob(
            int(row["JobID"]),
            float(row["submit"]),
            float(row["start"]),
            row["by"],
            tuple(host_names(row["nodes"])),
            float(row["end"]),
            row["end_by"],
        )
        for row in rows
    }
    times = {
        line.split()[0]: line.split()[1]
        for line in (folder / "t0.txt").read_text(encoding="utf-8").splitlines()
    }
    t0 = float(times["t0"])
    start_s = float(times["ctld_start"]) - t0
    main = list(_log(folder / "main-sched.log.gz"))
    first_s = next(float(entry[0]) for entry in main if float(entry[0]) > 0)
    backfill = list(_log(folder / "ctld-backfill.log.gz"))
    return RecordedRun(jobs, start_s, t0, main, loop_begin(first_s - start_s), backfill)


LOOP_S = 1.003
"""Time of an iteration of slurmctld's main loop on the machine of the recorded runs, s."""


def loop_begin(pass_s: float) -> float:
    """Return the begin of the main loop from the time of a pass, both s after the start."""
    return pass_s - round((pass_s - 1.15) / LOOP_S) * LOOP_S


def _log(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                yield line.split()


OVERHEAD_S = 0.16
"""Time by which a real job outlasts its own command, s: median of the recorded runs."""


def job_table_of(jobs: list[JobSpec]) -> JobTable:
    """Return the table of jobs, which may be in any order."""
    jobs = sorted(jobs, key=lambda job: (job.submit_s, job.job_id))
    columns: dict[str, Any] = {}
    names = {}
    for name in NAMED:
        columns[name], names[name] = coded([getattr(job, name) for job in jobs])
    plain = (
        "job_id",
        "submit_s",
        "run_s",
        "requested_s",
        "cores",
        "memory_mb",
        "fails",
        "deadline_s",
    )
    for name in plain:
        columns[name] = [getattr(job, name) for job in jobs]
    return job_table(
        names=names,
        requests=tuple(job.request or JobRequest() for job in jobs),
        request=list(range(len(jobs))),
        placement=[PLACEMENTS.index(job.placement) for job in jobs],
        **columns,
    )


def micro_settings(run: RecordedRun, **changes: Any) -> dict[str, Any]:
    """Return the settings of UBCCR's micro cluster with the phase of a recorded run.

    Args:
        run: the run.
        **changes: further settings, which replace those of the same name.
    """
    accounts: dict[str, Any] = {
        f"account{number}": {"shares": 100, "users": {}} for number in range(3)
    }
    accounts["account0"]["users"]["admin"] = {"max_submit_jobs": 1000}
    for user, account in USER_ACCOUNTS.items():
        accounts[account]["users"][user] = {"max_submit_jobs": 1000}
    start = datetime(1970, 1, 1) + timedelta(seconds=run.epoch_s)
    return {
        "accounts": accounts,
        "qos": {"normal": {}, "supporters": {"priority": 100}},
        "priority": {
            "weight_fair_share": 50_000,
            "weight_age": 50_000,
            "weight_partition": 1_000_000,
            "weight_job_size": 200_000,
            "weight_qos": 20_000,
            "max_age_s": 18_000,
            "decay_half_life_s": 14_400,
            "fair_share_dampening_factor": 5,
            "start_time": start.isoformat(),
        },
        "scheduler": {
            "bf_max_job_user": 200,
            "bf_max_job_test": 1200,
            "default_queue_depth": 1200,
            "bf_continue": True,
            "loop_s": LOOP_S,
            "loop_begin_s": run.loop_begin_s,
        },
        "enforce": ["associations", "limits", "qos"],
        "enforce_part_limits": "all",
        "job_requeue": False,
        "dtstart_s": -run.ctld_start_s,
        **changes,
    }


def run_of_events(name: str, workload: str) -> tuple[RecordedRun, list[JobSpec]]:
    """Return a recorded run and its jobs, submitted when they were."""
    run = recorded_run(GOLDEN_SLURM / name)
    jobs = [
        job._replace(
            submit_s=run.jobs[job.job_id].submit_s,
            run_s=job.run_s if job.run_s == NEVER_S else job.run_s + OVERHEAD_S,
        )
        for job in events_jobs(GOLDEN_SLURM / "workload" / f"{workload}.events")
    ]
    return run, jobs


def simulated(
    run: RecordedRun, jobs: list[JobSpec], **changes: Any
) -> tuple[dict[int, RecordedJob], SlurmPolicy]:
    """Return what happens to jobs under the policy `slurm` with the settings of a recorded run."""
    policy = slurm(parse_site(micro_settings(run, **changes)))
    simulation = simulate(micro_cluster(), job_table_of(jobs), policy)
    recording = simulation.recording
    found = {}
    for row, job_id in enumerate(recording.job_id):
        nodes = recording.nodes_of(row)
        found[job_id] = RecordedJob(
            job_id,
            float(recording.submit_s[row]),
            float(recording.start_s[row]),
            policy.started_by.get(job_id, ""),
            tuple(NODES[node] for node in sorted(nodes)),
            float(recording.end_s[row]),
            "timelimit" if STATES[recording.state[row]] == "timeout" else "exit",
        )
    return found, policy
