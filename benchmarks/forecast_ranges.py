"""Ranges of starts on job logs: how often they hold, and how narrow they are.

`PYTHONPATH=tests:. python -m benchmarks.forecast_ranges` prints the table of
scenarios/papers/power/forecasts.md. The truth is the log simulated with its run times; a question
is a job at its submission, answered with what was known then. The logs are in ../shared/traces.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.cases import equal_nodes, trace
from benchmarks.forecast_replay import kit
from benchmarks.queue_bounds import QueueBounds
from hpcosim_client.arrays import Floats
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_sim.engine.engine import Rules
from hpcosim_twin.answers.calibration import GRAIN_S, PROBABILITY, AdaptiveRanges, interval_score
from hpcosim_twin.answers.table import RANGES
from hpcosim_twin.cluster.observation import EndedJob, JobRunTimes
from hpcosim_twin.cluster.queue_state import NamedScheduler, QueuedJob, QueueState, SlurmAt
from hpcosim_twin.fits.replay import (
    SOON_S,
    Asked,
    Judged,
    drawn_waits,
    judged,
)
from hpcosim_twin.futures.compiled import compile_engine
from hpcosim_workloads.table import JobSpec, JobTable

SIMULATED = 0.5
"""Share of a log after which the simulation of the truth begins."""
FIRST, LAST = 0.8, 0.9
"""The last tenth is scored; the one before gives the first answers from which ranges learn."""
UNKNOWN_S = 12 * 3600.0
"""Requested time of jobs of LLNL-Thunder that state none, s: the limit of most of its jobs."""
SEED = 11


class Log(NamedTuple):
    """A log on a cluster.

    Attributes:
        cores: cores of the cluster. The submissions of LLNL-Thunder are its starts, so that no job
            waits on its 4008 processors: nine tenths are left.
    """

    title: str
    read: Callable[[], JobTable | None]
    cores: int


LOGS = (
    Log("KIT-FH2", kit, 24_048),
    Log("SDSC-SP2", lambda: trace("sdsc-sp2"), 128),
    Log("LLNL-Thunder", lambda: trace("llnl-thunder"), 3600),
    Log("CTC-SP2", lambda: trace("ctc-sp2"), 338),
)
SCHEDULERS = ("easy", "slurm")


class Effort(NamedTuple):
    """How many questions are asked.

    Attributes:
        warm: of the tenth before the last.
        scored: of the last tenth.
        futures: simulations of each question.
        most_jobs: jobs of the log, the last ones; 0: all from `SIMULATED` on.
    """

    warm: int = 100
    scored: int = 200
    futures: int = 30
    most_jobs: int = 0


SMOKE = Effort(3, 5, 3, 1500)


def jobs_of(log: Log, most: int) -> JobTable | None:
    """Return the jobs of a log that fit its cluster; None: it is not on this machine."""
    jobs = log.read()
    if jobs is None:
        return None
    jobs = jobs.take(np.flatnonzero((jobs.cores <= log.cores) & (jobs.run_s > 0.0)))
    requested_s = jobs.requested_s
    if log.title == "LLNL-Thunder":  # the reader takes the run time where none is requested
        requested_s = np.where(requested_s == jobs.run_s, UNKNOWN_S, requested_s)
    jobs = jobs.take(slice(-most if most else int(SIMULATED * len(jobs)), None))
    requested_s = requested_s[-len(jobs) :]
    return replace(
        jobs,
        requested_s=requested_s,
        run_s=np.minimum(jobs.run_s, requested_s),
        partition=np.zeros(len(jobs), np.int32),
        memory_mb=np.zeros(len(jobs)),
    )


class Truth(NamedTuple):
    """The jobs of a log in the order of submission, with simulated starts and ends, s."""

    jobs: list[JobSpec]
    submit_s: Floats
    start_s: Floats
    end_s: Floats


def truth_of(jobs: JobTable, platform: Platform, scheduler: str) -> Truth:
    """Return what happens under a scheduler."""
    from hpcosim_compiled.simulation import CompiledSimulation

    simulation = CompiledSimulation(platform, jobs, Rules(), scheduler)
    while simulation.advance():
        pass
    recording = simulation.record().recording
    row = {number: at for at, number in enumerate(recording.job_id)}
    order = [row[number] for number in jobs.job_id.tolist()]
    start_s, end_s = np.array(recording.start_s)[order], np.array(recording.end_s)[order]
    return Truth(list(jobs.rows()), jobs.submit_s, start_s, end_s)


def chosen(truth: Truth, effort: Effort) -> tuple[list[int], list[int]]:
    """Return the rows of the questions before the last tenth, and in it.

    They are of jobs that wait for a minute: of another one there is nothing to ask.
    """
    count, waits_s = len(truth.jobs), truth.start_s - truth.submit_s
    whole = count / (1.0 - SIMULATED) if not effort.most_jobs else count
    edges = [count - round(whole * (1.0 - share)) for share in (FIRST, LAST, 1.0)]
    draw, found = np.random.default_rng(SEED), []
    for first, last, most in zip(edges, edges[1:], (effort.warm, effort.scored), strict=False):
        rows = np.flatnonzero(waits_s[first:last] > SOON_S) + first
        found.append(sorted(draw.choice(rows, min(most, len(rows)), replace=False).tolist()))
    return found[0], found[1]


def asked_about(
    truth: Truth, rows: Sequence[int], platform: Platform, scheduler: str, effort: Effort
) -> Iterator[Asked]:
    """Yield the answers about jobs at their submission, in the order of time."""
    model, ended = JobRunTimes(), 0
    by_end = np.argsort(truth.end_s, kind="stable").tolist()
    for row in rows:
        now_s = float(truth.submit_s[row])
        while ended < len(by_end) and truth.end_s[by_end[ended]] <= now_s:
            at = by_end[ended]
            job, run_s = truth.jobs[at], float(truth.end_s[at] - truth.start_s[at])
            model.learn(EndedJob(job.user, job.requested_s, run_s, "", job.cores))
            ended += 1
        state = state_at(truth, row, platform, scheduler)
        if row == rows[0]:
            compile_engine(state, QueuedJob(truth.jobs[row]))
        waits_s = drawn_waits(state, QueuedJob(truth.jobs[row]), model, effort.futures, (SEED, row))
        yield Asked("", "", now_s, float(truth.start_s[row]) - now_s, waits_s)


def state_at(truth: Truth, row: int, platform: Platform, scheduler: str) -> QueueState:
    """Return the queue before the submission of a job."""
    now_s = float(truth.submit_s[row])
    jobs, past = [], []
    for at, spec in enumerate(truth.jobs[:row]):
        if truth.end_s[at] <= now_s:
            past.append(spec)
        elif truth.start_s[at] <= now_s:
            jobs.append(QueuedJob(spec, float(truth.start_s[at]), (0,), (spec.cores,)))
        else:
            jobs.append(QueuedJob(spec))
    policy = SlurmAt(SiteSettings(), now_s, None)
    return QueueState(
        now_s,
        platform,
        jobs,
        policy if scheduler == "slurm" else NamedScheduler(scheduler),
        (),
        past,
    )


def baseline(truth: Truth, found: Sequence[Judged]) -> Floats:
    """Return the bounds of past waits at each question, float64[2, questions], s.

    The past waits are of jobs that waited for a minute, too.
    """
    bounds, waits_s = QueueBounds(PROBABILITY), truth.start_s - truth.submit_s
    order = [
        row for row in np.argsort(truth.start_s, kind="stable").tolist() if waits_s[row] > SOON_S
    ]
    started, result = 0, []
    for each in found:
        while started < len(order) and truth.start_s[order[started]] <= each.asked.asked_s:
            bounds.started(float(waits_s[order[started]]))
            started += 1
        result.append(bounds.bounds())
    return np.array(result).T


class Ranges(NamedTuple):
    """Coverage, median width, s, and mean interval score, s, of ranges of 80 %."""

    coverage: float
    width_s: float
    score_s: float


def ranges_of(ends_s: Floats, waits_s: Floats) -> Ranges:
    """Return how good ranges are.

    Args:
        ends_s: float64[2, questions], their ends, s.
    """
    low_s, high_s = ends_s
    inside = (waits_s >= low_s - GRAIN_S) & (waits_s <= high_s + GRAIN_S)
    score_s = interval_score(low_s, high_s, waits_s, PROBABILITY).mean()
    return Ranges(float(inside.mean()), float(np.median(high_s - low_s)), float(score_s))


def row_of(log: Log, scheduler: str, effort: Effort) -> list[str] | None:
    """Return the cells of a log under a scheduler; None: it is missing, or no job waits."""
    jobs = jobs_of(log, effort.most_jobs)
    if jobs is None:
        return None
    began_s = time.process_time()
    platform = equal_nodes(1, log.cores)
    truth = truth_of(jobs, platform, scheduler)
    warm, scored = chosen(truth, effort)
    if not scored:
        return None
    asked = list(asked_about(truth, [*warm, *scored], platform, scheduler, effort))
    every = judged(asked, AdaptiveRanges())
    found = every[len(warm) :]
    waits_s = np.array([each.asked.wait_s for each in found])
    medians_s = np.array([each.drawn.wait_s(0.0) for each in found])
    tails = ((1 - PROBABILITY) / 2, (1 + PROBABILITY) / 2)
    drawn = np.array(
        [np.quantile(each.asked.drawn_s, tails, method="inverted_cdf") for each in found]
    ).T
    held = {
        each: ranges_of(np.array([one.range_s(each) for one in found]).T, waits_s)
        for each in RANGES
    }
    past = ranges_of(baseline(truth, found), waits_s)
    now = held[PROBABILITY]
    raw = ranges_of(drawn, waits_s)
    return [
        log.title,
        scheduler,
        str(len(found)),
        hours(float(np.median(waits_s))),
        hours(float(np.median(np.abs(medians_s - waits_s)))),
        f"{raw.coverage:.0%}",
        *(f"{held[each].coverage:.0%}" for each in RANGES),
        f"{hours(now.width_s)} / {hours(now.score_s)}",
        f"{past.coverage:.0%}",
        f"{hours(past.width_s)} / {hours(past.score_s)}",
        f"{time.process_time() - began_s:.0f} s",
    ]


def hours(value_s: float) -> str:
    """Return a duration in hours."""
    return f"{value_s / 3600.0:.2f} h"


HEAD = (
    "log",
    "scheduler",
    "jobs",
    "median wait",
    "error of the median",
    "drawn 80 % holds",
    *(f"{each:.0%} holds" for each in RANGES),
    "width / score",
    "bounds of past waits hold",
    "width / score",
    "CPU",
)


def run(smoke: bool) -> dict[str, float]:
    """Return the coverage of the ranges of 80 % of small parts of two logs."""
    figures = {}
    for log in LOGS[1::2]:
        cells = row_of(log, "easy", SMOKE if smoke else Effort(20, 40, 10, 4000))
        if cells is not None:
            figures[f"80 % ranges that hold, {log.title}"] = float(cells[7].strip("%")) / 100
    return figures


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scored", type=int, default=Effort().scored)
    parser.add_argument("--futures", type=int, default=Effort().futures)
    parser.add_argument("--schedulers", default=",".join(SCHEDULERS))
    parser.add_argument("--logs", default=",".join(log.title for log in LOGS))
    options = parser.parse_args()
    effort = Effort(options.scored // 2, options.scored, options.futures)
    print(f"| {' | '.join(HEAD)} |")
    print("|---" * len(HEAD) + "|")
    for scheduler in options.schedulers.split(","):
        for log in LOGS:
            if log.title in options.logs.split(","):
                cells = row_of(log, scheduler, effort)
                if cells is not None:
                    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
