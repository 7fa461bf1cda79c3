"""Random scenes with memory contention, and the oracle's results for them."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from hypothesis import strategies as st

from hpcosim_protocol import (
    Contention,
    NodeGroup,
    Platform,
    Processor,
)
from hpcosim_sim.engine.simulation import Rules
from hpcosim_sim.record.recording import STATES
from hpcosim_workloads.table import PLACEMENTS, JobTable, job_table
from support.contention_oracle import OracleJob, Outcome, run
from support.contention_oracle import Start as OracleStart
from support.random_scenes import Played, Scene, replay

FOUR_CORES = Contention(32_000, -1.85e-5, 1.75, 2000, 50_000, 6000)  # up to 9 cores


MANY_CORES = Contention(21_000, -1.85e-5, 1.0, 169, 25_000, 100)


def random_constants(random: Random, cores: int) -> Contention | None:
    """Return contention constants for a number of cores, or None."""
    drawn = random.random()
    if drawn < 0.2:
        return None
    if drawn < 0.4:
        return FOUR_CORES
    if drawn < 0.6:
        return MANY_CORES
    dd_mbps = random.choice([0.0, random.uniform(-2000.0, 4000.0)])
    return Contention(
        c_mbps=random.choice([0.0, random.uniform(0.0, 40_000.0)]),
        b_per_mbps=-(10 ** random.uniform(-5.5, -3.5)),
        da=random.uniform(-1.0, 4.0),
        db_mbps=random.uniform(-500.0, 4000.0),
        dc_mbps=max(0.0, dd_mbps * (cores - 1)) + random.uniform(100.0, 50_000.0),
        dd_mbps=dd_mbps,
    )


def random_processor(random: Random) -> Processor:
    """Return a processor."""
    cores = random.randint(1, 6)
    return Processor(
        cores=cores,
        clock_ghz=random.choice([1.0, 1.0, 2.5, random.uniform(0.5, 4.0)]),
        static_w=random.choice([0.0, random.uniform(1.0, 100.0)]),
        dynamic_w=random.choice([0.0, random.uniform(1.0, 10.0)]),
        idle_fraction=random.choice([0.0, 1.0, random.random()]),
        flops_per_cycle=random.choice([1.0, 1.0, 2.0, random.uniform(0.3, 8.0)]),
        contention=random_constants(random, cores),
    )


def random_jobs(random: Random, count: int, platform: Platform) -> JobTable:
    """Return jobs of every placement, some of equal work, some without operations."""
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        row: dict[str, Any]
        if rows and random.random() < 0.25:
            row = dict(rows[-1])  # its duplicate
        else:
            run_s = 10 ** random.uniform(-0.5, 1.5)
            run_s *= platform.slowest_ops_per_s / 1e9  # on the slowest core: up to half a minute
            asked_mbps = random.choice([0.0, random.uniform(0, 3000), random.uniform(0, 30_000)])
            row = {
                "ops": run_s * 1e9 if random.random() < 0.8 else 0.0,
                "run_s": run_s,
                "memory_volume_mb": asked_mbps * run_s,
                "cores": random.randint(1, min(platform.core_count, 8)),
                "placement": random.randrange(len(PLACEMENTS)),
                "requested_s": run_s * random.choice([1.0, random.uniform(0.3, 4.0)]),
            }
        if random.random() < 0.5:
            row["submit_s"] = random.uniform(0.0, 40.0)
        else:
            row["submit_s"] = rows[-1]["submit_s"] if rows else 0.0
        rows.append(row)
    rows.sort(key=lambda row: float(row["submit_s"]))
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    return job_table(job_id=range(1, count + 1), **columns)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Return a random scene: a small cluster with contention, jobs, and a seed for the decisions.

    The seed determines the numbers: round numbers would make unrelated tasks end together.
    """
    nodes, count = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    seed, limited = draw(st.integers(0, 2**32)), draw(st.booleans())
    reference_ghz = draw(st.sampled_from([None, 1.0, 2.3]))
    random = Random(seed)
    groups: list[NodeGroup] = []
    while nodes:
        alike = random.randint(1, nodes)
        kinds = [random_processor(random) for _ in range(random.randint(1, 2))]
        groups.append(NodeGroup(alike, tuple(kinds)))
        nodes -= alike
    platform = Platform(tuple(groups))
    jobs = random_jobs(random, count, platform)
    return Scene(platform, jobs, Rules(reference_ghz, kill_at_walltime=limited), seed)


def ask_oracle(scene: Scene, played: Played) -> Outcome:
    """Return the oracle's result for the starts and kills of a run."""
    ops_per_s = (scene.rules.reference_ghz or 0.0) * 1e9
    jobs = {
        job.job_id: OracleJob(
            job.ops or job.run_s * ops_per_s,
            job.memory_volume_mb,
            job.run_s,
            job.requested_s if scene.rules.kill_at_walltime else math.inf,
        )
        for job in scene.jobs.rows()
    }
    recording = played.simulation.recording
    spans = replay(scene, played.events)
    kills = {
        job_id: recording.end_s[row]
        for row, job_id in enumerate(recording.job_id)
        if STATES[recording.state[row]] == "killed"
    }
    begin_s, until_s = played.simulation.start_s, played.simulation.now_s
    starts = [OracleStart(job_id, span.start_s, span.tasks) for job_id, span in spans.items()]
    return run(scene.platform, jobs, starts, kills, begin_s=begin_s, until_s=until_s)
