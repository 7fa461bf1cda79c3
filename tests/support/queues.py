"""Queues at an instant of a run, and random ones of random Slurm sites."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np
from numpy.random import Generator

from hpcosim_client import Policy
from hpcosim_protocol import Dependency, JobRequest
from hpcosim_protocol.requests import DependencyKind
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState, SlurmAt
from hpcosim_workloads.table import JobTable
from support.random_sites import make_site
from support.simulating import simulate


def state_in(
    run: Simulation, jobs: JobTable, now_s: float, new_policy: Callable[[Generator], Policy]
) -> QueueState:
    """Return the cluster at an instant of a run, as somebody sees it who knows no run time."""
    recording = run.recording
    queued, past = [], []
    for row, spec in enumerate(jobs.rows()):
        assert recording.job_id[row] == spec.job_id
        unknown = spec._replace(run_s=np.nan)
        if spec.submit_s > now_s:
            continue
        if recording.end_s[row] <= now_s:
            past.append(unknown)
            continue
        if not recording.start_s[row] <= now_s:
            queued.append(QueuedJob(unknown))
            continue
        nodes, tasks = tuple(recording.nodes_of(row)), tuple(recording.tasks_of(row))
        queued.append(QueuedJob(unknown, float(recording.start_s[row]), nodes, tasks))
    return QueueState(now_s, run.cluster.platform, queued, new_policy, past=past)


class Future(NamedTuple):
    """A queue, and what happens from now on.

    Attributes:
        run_s: the run time of each job, s.
        future: jobs that are submitted later.
        asked: a job that may be submitted now.
    """

    state: QueueState
    run_s: dict[int, float]
    future: list[QueuedJob]
    asked: QueuedJob


def random_future(seed: int, *, conditions: bool = False) -> Future | None:
    """Return a future of a site in the middle of a run; None: no job waits then.

    Args:
        conditions: whether jobs have begin times, dependencies, holds and limited arrays.
    """
    random = Random(seed)
    scenario = _scenario(random)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.yaml"
        path.write_bytes(msgspec.json.encode(scenario))
        loaded = Library([path]).default
    jobs, platform = loaded.jobs, loaded.scenario.platform
    site = parse_site(scenario["scheduler"]["settings"])
    run = simulate(platform, jobs, slurm(site))
    starts_s = np.array(run.recording.start_s)
    delays = np.flatnonzero(starts_s - jobs.submit_s > 60.0)
    if not len(delays):
        return None
    chosen = delays[random.randrange(len(delays))]
    now_s = float(jobs.submit_s[chosen] + random.random() * 60.0)
    uptime_s = random.choice((None, 10.0, now_s, 1e6))
    state = state_in(run, jobs, now_s, SlurmAt(site, now_s, uptime_s))
    nodes = range(platform.node_count)
    drained = random.sample(nodes, random.choice((0, 0, 1, len(nodes) // 3)))
    queued = [_held(random, job) for job in state.jobs]
    state = QueueState(now_s, platform, queued, state.new_policy, tuple(drained), state.past)
    started_s = {job.spec.job_id: job.started_s or now_s for job in state.jobs}
    run_s = {}
    for spec in jobs.rows():
        least_s = now_s - started_s.get(spec.job_id, now_s)
        drawn_s = random.choice((spec.run_s, spec.run_s * random.random(), np.inf))
        run_s[spec.job_id] = max(drawn_s, least_s + 0.5)
    future = [QueuedJob(spec) for spec in jobs.rows() if spec.submit_s > now_s]
    if conditions:
        every = with_conditions(random, [*queued, *future], now_s)
        queued, future = every[: len(queued)], every[len(queued) :]
        if future and random.random() < 0.3:  # they are known already, such as of another clock
            queued, future = [*queued, *future[:2]], future[2:]
        state = replace(state, jobs=queued)
    first = next(jobs.rows())
    last = max(spec.job_id for spec in jobs.rows()) + 1
    run_s[last] = 100.0
    return Future(state, run_s, future, QueuedJob(first._replace(job_id=last, submit_s=now_s)))


def _held(random: Random, job: QueuedJob) -> QueuedJob:
    """Return a job, sometimes as one that waits for more than resources."""
    request = job.spec.request or JobRequest()
    if job.started_s is None and random.random() < 0.01:
        request = msgspec.structs.replace(request, hold=True)
    if random.random() < 0.2:
        request = msgspec.structs.replace(request, name="named", requeue=True)
    return job._replace(spec=job.spec._replace(request=request))


KINDS = get_args(DependencyKind)


def with_conditions(random: Random, jobs: list[QueuedJob], now_s: float) -> list[QueuedJob]:
    """Return jobs of which some have begin times, dependencies, holds or limited arrays."""
    numbers = [*(job.spec.job_id for job in jobs), 5000, 5001]
    often, first = random.choice((0.1, 0.5)), jobs[0].spec.job_id
    limits = {first: random.choice((0, 1, 2, 5)), 7000: random.choice((1, 2))}

    def dependency(own: int) -> Dependency:
        kind = random.choice(KINDS)
        named = random.sample(numbers, random.choice((1, 1, 2, 3)))
        others = tuple(each for each in named if each != own) or (5000,)
        return Dependency(
            kind, () if kind == "singleton" else others, random.choice((0.0, 0.0, 60.0, 500.0))
        )

    def request(own: int, *, runs: bool) -> dict[str, Any]:
        name, begin_s = random.choice("xyz"), now_s + random.randint(-2000, 4000)
        match random.choice((4, 6)) if runs else random.randrange(6):
            case 0:
                return {"name": name, "begin_s": begin_s}
            case 1:
                return {"name": name, "hold": True}
            case 2 | 3:
                count, any_met = random.choice((1, 1, 2)), random.random() < 0.4
                depends = tuple(dependency(own) for _ in range(count))
                return {"name": name, "dependencies": depends, "any_dependency": any_met}
            case 4:
                array = random.choice((first, 7000))
                index = random.randint(0, 20)
                return {"array_id": array, "array_index": index, "array_limit": limits[array]}
            case 6:
                return {"name": name}
        return {"name": name, "dependencies": (dependency(own),), "begin_s": begin_s}

    found = []
    for job in jobs:
        own, runs = job.spec.request or JobRequest(), job.started_s is not None
        if random.random() < often:
            own = msgspec.structs.replace(own, **request(job.spec.job_id, runs=runs))
        found.append(job._replace(spec=job.spec._replace(request=own)))
    return found


def _scenario(random: Random) -> dict[str, Any]:
    groups: list[dict[str, Any]] = []
    for _ in range(random.choice((1, 2, 3))):
        processor = {"cores": random.choice((1, 2, 8)), "static_w": 9, "dynamic_w": 1}
        groups.append({"count": random.randint(1, 6), "processors": [processor], "memory_mb": 9000})
    cores = sum(group["count"] * group["processors"][0]["cores"] for group in groups)
    span_s = random.choice((10, 1000, 3000))
    jobs: list[dict[str, Any]] = []
    for number in range(1, 61):
        run_s = random.choice((5, 60, 60, 600.3, 3600))
        jobs.append(
            {
                "job_id": number,
                "submit_s": random.randint(0, span_s),
                "cores": random.randint(1, random.choice((1, 3, cores))),
                "run_s": run_s,
                "requested_s": run_s * random.choice((0.5, 1, 1, 1.5, 10)),
                "user": random.choice("abc"),
            }
        )
    jobs.sort(key=lambda job: (job["submit_s"], job["job_id"]))
    settings: dict[str, Any] = {
        "priority": {
            "weight_age": random.choice((0, 1000, 100_000)),
            "weight_job_size": random.choice((0, 700)),
            "max_age_s": random.choice((1000, 604_800)),
            "calc_period_s": random.choice((60, 300, 1000.5)),
            "start_time": random.choice(("", "2026-11-22T08:00:07")),
        },
        "scheduler": {
            "default_queue_depth": random.choice((100, 100, 2)),
            "bf_interval_s": random.choice((5, 30, 47.5)),
            "bf_window_s": random.choice((600, 86_400)),
            "bf_max_job_test": random.choice((500, 500, 3)),
            "bf_job_cost_s": random.choice((0, 0.01)),
        },
        "over_time_limit_s": random.choice((0, 0, 60)),
    }
    scenario: dict[str, Any] = {
        "name": "queue",
        "platform": {"nodes": groups},
        "workload": {"inline": jobs},
        "scheduler": {"name": "slurm", "settings": settings},
    }
    if random.random() < 0.8:
        make_site(random, scenario)
    return scenario
