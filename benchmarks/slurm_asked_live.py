"""Scores answers about jobs that are not submitted, and about a change, on a real Slurm here.

`PYTHONPATH=tests python -m benchmarks.slurm_asked_live` prints a table. On a cluster of 8 nodes,
200 jobs of seconds are submitted; 20 of them are asked for just before. With `--change`, the
effect of a longer `bf_interval` is asked for, and then the parameter is changed; the same jobs on
a cluster without the change show the effect. It needs root and Slurm; a repetition takes 7 to 12
minutes, and twice as long with `--change`.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import subprocess
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_slurm.tools import Tools, environment
from hpcosim_twin.answers.asked import answers_of, asked_job
from hpcosim_twin.answers.changes import Change, effect_of
from hpcosim_twin.cluster.observation import Observation
from hpcosim_twin.cluster.observer import observe
from hpcosim_twin.cluster.queue_state import adopted
from support.slurm_cluster import SlurmCluster, slurm_cluster

NODES = 8
JOBS = 200
ASKED = 20
FIRST_ASKED = 60
"""Number of jobs before the first that is asked for: without a past there is nothing to learn."""
LOAD = 0.95
"""Node-seconds of the jobs, as a share of those of the nodes."""
USERS = ("daemon", "games", "nobody")
MEAN_RUN_S = (4.0, 8.0, 12.0)
"""Mean run time of the jobs of each user, s."""
LIMITS_MIN = (1, 2, 5)
SHAPES = (1, 1, 2, 2, 4, 8)
"""Numbers of nodes, with equal probabilities."""
CHANGED_S = 60.0
"""The longer `bf_interval`, s."""
FUTURES = 200
PARAMETERS = "batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=5"


class Job(NamedTuple):
    """A job of the experiment; `at_s` is the time of its submission after the first, s."""

    at_s: float
    user: str
    nodes: int
    limit_min: int
    run_s: float

    @property
    def options(self) -> str:
        """Its options for sbatch."""
        return f"-N {self.nodes} --ntasks-per-node=1 -t {self.limit_min}"


class Asked(NamedTuple):
    """An answer beside what happened; s after the submission."""

    actual_s: float
    slurm_s: float
    starts_s: tuple[float, ...]


def jobs_of(generator: Generator) -> list[Job]:
    """Return the jobs of one repetition."""
    per_job_s = statistics.mean(SHAPES) * statistics.mean(MEAN_RUN_S)
    at_s = generator.exponential(per_job_s / (LOAD * NODES), JOBS).cumsum()
    jobs = []
    for time_s in at_s.tolist():
        user = int(generator.integers(len(USERS)))
        run_s = MEAN_RUN_S[user] * float(generator.lognormal(-0.18, 0.6))
        nodes = SHAPES[int(generator.integers(len(SHAPES)))]
        jobs.append(Job(time_s, USERS[user], nodes, LIMITS_MIN[user], run_s))
    return jobs


def submit(cluster: SlurmCluster, job: Job) -> int:
    """Submit a job and return its number."""
    return cluster.submit(f"--uid={job.user}", *job.options.split(), sleep_s=round(job.run_s, 2))


def said_by_slurm(cluster: SlurmCluster, job: Job) -> float:
    """Return the start that `sbatch --test-only` expects, Unix time, s."""
    done = subprocess.run(
        ["sbatch", "--test-only", f"--uid={job.user}", *job.options.split()],
        env=cluster.environment, input="#!/bin/sh\ntrue\n", capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    found = re.search(r"to start at (\S+)", done.stderr)
    assert found is not None, done.stderr
    return datetime.fromisoformat(found[1]).timestamp()


class Question(NamedTuple):
    """A job that was asked for: its number, the start that Slurm expected, and the queue then."""

    job: Job
    number: int
    slurm_s: float
    seen: Observation


def carried_out(cluster: SlurmCluster, jobs: Sequence[Job]) -> list[Question]:
    """Submit the jobs, and ask for some of them."""
    tools = Tools(environment=environment(cluster.environment))
    places = set(np.linspace(FIRST_ASKED, JOBS - 1, ASKED).round().astype(int).tolist())
    began_s, found = time.time(), []
    for place, job in enumerate(jobs):
        time.sleep(max(began_s + job.at_s - time.time(), 0.0))
        if place not in places:
            submit(cluster, job)
            continue
        said_s, seen = said_by_slurm(cluster, job), observe(tools)
        found.append(Question(job, submit(cluster, job), said_s, seen))
    return found


def starts_of_jobs(cluster: SlurmCluster) -> dict[int, tuple[float, float]]:
    """Return submission and start of each job, by number, Unix times, s."""
    done = subprocess.run(
        ["squeue", "-h", "-t", "all", "-o", "%i %V %S"],
        env={**cluster.environment, "SLURM_TIME_FORMAT": "%s"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = (line.split() for line in done.stdout.splitlines())
    return {int(number): (float(at), float(start)) for number, at, start in rows}


def small_cluster() -> AbstractContextManager[SlurmCluster]:
    """Return a cluster that remembers all jobs."""
    lines = (f"SchedulerParameters={PARAMETERS}", "MinJobAge=3000")
    added = [option for line in lines for option in ("--add", line)]
    return slurm_cluster("--nodes", str(NODES), "--scheduler", "backfill", *added)


def wait_for_all(cluster: SlurmCluster) -> None:
    """Wait until no job waits or runs."""
    while cluster.run("squeue", "-h", "-t", "PD,R", "-o", "%i").split():
        time.sleep(1.0)


def repetition(seed: int) -> list[Asked]:
    """Carry out one repetition."""
    jobs = jobs_of(np.random.default_rng(seed))
    with small_cluster() as cluster:
        asked = carried_out(cluster, jobs)
        wait_for_all(cluster)
        happened = starts_of_jobs(cluster)
    found = []
    for job, number, said_s, seen in asked:
        question = asked_job(job.options, seen, job.user)
        state = adopted(seen)
        (answer,) = answers_of([question], seen, state, FUTURES, seed)
        at_s, start_s = happened[number]
        starts = (answer.start_s + state.origin_s - at_s).tolist()
        found.append(Asked(start_s - at_s, max(said_s - at_s, 0.0), tuple(starts)))
    return found


def score(asked: Sequence[Asked]) -> str:
    """Return the cells of a row of the table."""
    starts_s = np.array([each.starts_s for each in asked])
    actual_s = np.array([each.actual_s for each in asked])
    low, median, high = np.quantile(starts_s, (0.1, 0.5, 0.9), axis=1, method="inverted_cdf")
    inside = (low - 1.0 <= actual_s) & (actual_s <= high + 1.0)
    own = float(np.median(np.abs(median - actual_s)))
    slurms = float(np.median([abs(each.slurm_s - each.actual_s) for each in asked]))
    ratio = own / slurms if slurms else math.nan
    figures = f"{np.mean(actual_s):.1f} s | {own:.1f} s | {slurms:.1f} s | {ratio:.2f}"
    return f"{figures} | {inside.mean():.0%}"


def waits_of(seed: int, changed_s: float | None) -> tuple[float, Observation]:
    """Return the mean wait of the jobs from `FIRST_ASKED` on, s, and the queue before them.

    Args:
        changed_s: the `bf_interval` from then on, s; None: it stays.
    """
    jobs = jobs_of(np.random.default_rng(seed))
    with small_cluster() as cluster:
        tools = Tools(environment=environment(cluster.environment))
        began_s, numbers = time.time(), []
        for place, job in enumerate(jobs):
            time.sleep(max(began_s + job.at_s - time.time(), 0.0))
            if place == FIRST_ASKED:
                seen = observe(tools)
                if changed_s is not None:
                    change_interval(cluster, changed_s)
            numbers.append(submit(cluster, job))
        wait_for_all(cluster)
        happened = starts_of_jobs(cluster)
    waiting = {n for n, job in seen.state.jobs.items() if job.state == "pending"}
    counted = waiting | set(numbers[FIRST_ASKED:])
    return statistics.mean(happened[n][1] - happened[n][0] for n in counted), seen


def change_interval(cluster: SlurmCluster, interval_s: float) -> None:
    """Change the `bf_interval` of a cluster that runs."""
    path = cluster.folder / "slurm.conf"
    path.write_text(path.read_text().replace("bf_interval=5", f"bf_interval={interval_s:g}"))
    cluster.run("scontrol", "reconfigure")


def change(seed: int) -> str:
    """Return the cells of a row about the effect of the change."""
    same_s, _ = waits_of(seed, None)
    other_s, seen = waits_of(seed, CHANGED_S)
    jobs = jobs_of(np.random.default_rng(seed))
    duration_s = jobs[-1].at_s - jobs[FIRST_ASKED].at_s
    asked = Change(settings={"scheduler.bf_interval_s": CHANGED_S})
    effect = effect_of(asked, seen, adopted(seen), duration_s, FUTURES, seed)
    found, measured_s = effect.waits[0].wait_s, other_s - same_s
    stated = f"{found.difference:.1f} s | {found.least:.1f} to {found.most:.1f} s"
    is_inside = "yes" if found.least <= measured_s <= found.most else "no"
    return f"{same_s:.1f} s | {other_s:.1f} s | {measured_s:.1f} s | {stated} | {is_inside}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--change", action="store_true", help="ask for the effect of a change")
    given = parser.parse_args()
    if given.change:
        print("| seed | mean wait | after the change | change | stated | 95 % of times | inside |")
        print("|---|---|---|---|---|---|---|")
        for seed in given.seeds:
            print(f"| {seed} | {change(seed)} |", flush=True)
        return
    every: list[Asked] = []
    print("| seed | mean wait | median error | of `sbatch --test-only` | ratio | 80 % holds |")
    print("|---|---|---|---|---|---|")
    for seed in given.seeds:
        found = repetition(seed)
        every += found
        print(f"| {seed} | {score(found)} |", flush=True)
    print(f"| all | {score(every)} |")


if __name__ == "__main__":
    main()
