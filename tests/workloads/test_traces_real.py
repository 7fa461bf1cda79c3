"""Whole job logs, against published figures, simple schedulers and earlier results.

The figures in `PINNED` come from this simulator. They detect unintended changes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from pathlib import Path

import pytest

from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_sim.record.metrics import measure
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.shaping import window_by_number
from hpcosim_workloads.table import JobTable
from support import slow_schedulers as slow
from support.simulating import cluster_of, simulate

pytestmark = pytest.mark.trace

NASA = "NASA-iPSC-1993-3.1-cln.swf.gz"
SDSC = "SDSC-SP2-1998-4.2-cln.swf.gz"
CTC = "CTC-SP2-1996-3.1-cln.swf.gz"
THUNDER = "LLNL-Thunder-2007-1.1-cln.swf.gz"
NODES = {NASA: 128, SDSC: 128, CTC: 338}

PINNED = {
    (SDSC, "fcfs"): {
        "jobs": 54_034,
        "mean_wait_s": 1551989.4340785432,
        "max_wait_s": 5509181.0,
        "makespan_s": 68440542.0,
        "utilization": 0.7679516203276122,
        "mean_bounded_slowdown": 13993.260286786404,
        "energy_j": 841672781760.0,
    },
    (SDSC, "easy"): {
        "jobs": 54_034,
        "mean_wait_s": 22848.60717326128,
        "max_wait_s": 480839.0,
        "makespan_s": 63025403.0,
        "utilization": 0.8339339793670181,
        "mean_bounded_slowdown": 103.40153873882576,
        "energy_j": 807015892160.0,
    },
    (CTC, "fcfs"): {
        "jobs": 77_205,
        "mean_wait_s": 767875.6330678065,
        "max_wait_s": 1915362.0,
        "makespan_s": 30919043.0,
        "utilization": 0.797544529932075,
        "mean_bounded_slowdown": 4260.958198625618,
        "energy_j": 1022622706820.0,
    },
    (CTC, "easy"): {
        "jobs": 77_205,
        "mean_wait_s": 15496.997811022602,
        "max_wait_s": 341439.0,
        "makespan_s": 29306751.0,
        "utilization": 0.8414209277372512,
        "mean_bounded_slowdown": 55.15881340719765,
        "energy_j": 995374972020.0,
    },
}


def fcfs_starts(table: JobTable, nodes: int) -> list[float]:
    """Return the start of each job under FCFS, by a simple loop over the jobs."""
    running: list[tuple[float, int]] = []
    free, now_s, start_s = nodes, 0.0, []
    for job in table.rows():
        now_s = max(now_s, job.submit_s)
        while running and (running[0][0] <= now_s or free < job.cores):
            end_s, freed = heappop(running)
            now_s, free = max(now_s, end_s), free + freed
        free -= job.cores
        heappush(running, (now_s + job.run_s, job.cores))
        start_s.append(now_s)
    return start_s


@pytest.mark.slow
def test_nasa_always_on(traces: Path) -> None:
    """The energy of 128 nodes at 190 W over the NASA log is the published one."""
    platform = cluster_of(128, static_w=190.0, dynamic_w=0.0, idle_fraction=1.0)
    simulation = simulate(platform, read_swf(traces / NASA), "easy")
    metrics = measure(simulation.record())
    assert metrics["energy_j"] == 193_320_215_040.0
    assert metrics["jobs_completed"] == 18_066
    assert simulation.now_s == 7_949_022.0


@pytest.mark.slow
def test_nasa_mean_wait(traces: Path) -> None:
    """The first 10,000 NASA jobs wait 14.60 s on average under FCFS, as published."""
    table = window_by_number(read_swf(traces / NASA), 0, 10_000)
    metrics = measure(simulate(cluster_of(128), table, "fcfs").record())
    assert round(metrics["mean_wait_s"], 2) == 14.60


@pytest.mark.slow
@pytest.mark.parametrize(("log", "policy"), PINNED)
def test_whole_log(traces: Path, log: str, policy: str) -> None:
    """Every job of the log ends, and the figures are the pinned ones."""
    simulation = simulate(cluster_of(NODES[log]), read_swf(traces / log), policy)
    metrics = measure(simulation.record())
    pinned = PINNED[log, policy]
    assert metrics["jobs_completed"] == metrics["jobs"] == simulation.recording.over
    assert {name: metrics[name] for name in pinned} == pytest.approx(pinned, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("log", NODES)
def test_fcfs_start_for_start(traces: Path, log: str) -> None:
    """Under FCFS every job of the log starts when the simple loop starts it."""
    table = read_swf(traces / log)
    simulation = simulate(cluster_of(NODES[log]), table, "fcfs")
    assert list(simulation.recording.start_s) == fcfs_starts(table, NODES[log])


@pytest.mark.slow
@pytest.mark.parametrize("log", [SDSC, CTC])
def test_easy_start_for_start(traces: Path, log: str) -> None:
    """Under EASY 800 jobs of the log start when the simple scheduler starts them."""
    table = window_by_number(read_swf(traces / log), 20_000, 20_800)
    simulation = simulate(cluster_of(NODES[log]), table, "easy")
    rows = [(job.submit_s, job.run_s, job.cores, job.requested_s) for job in table.rows()]
    assert list(simulation.recording.start_s) == slow.reference(NODES[log], rows, slow.easy)


def test_kit_can_be_read(traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario of the part of KIT's log has its 25,326 jobs, with reduced cores."""
    monkeypatch.setenv("HPCOSIM_TRACES", str(traces))
    (tmp_path / "kit.yaml").write_text(
        "name: kit\n"
        "platform: {nodes: [{count: 1, processors: [{cores: 64, static_w: 1, dynamic_w: 1}]}]}\n"
        "workload: {trace: kit-fh2-25326, max_cores: 64, placement: one_node}\n"
    )
    table = jobs_of(load_scenario(tmp_path / "kit.yaml"), tmp_path)
    assert len(table) == 25_326
    assert (table.submit_s[0], table.submit_s[-1]) == (0.0, 24_491_923.0)
    assert table.skipped == {"out_of_order": 13_778, "cores_capped": 16_312}
    assert (table.run_s <= table.requested_s).all()
    assert set(table.placement.tolist()) == {1}


@pytest.mark.slow
def test_thunder_can_be_read(traces: Path) -> None:
    """Of Thunder's 121,039 lines 7,426 have no run time, and the others are jobs."""
    table = read_swf(traces / THUNDER)
    assert table.skipped["run_time_unknown_or_zero"] == 7_426
    assert len(table) == 121_039 - 7_426
    assert (table.submit_s[1:] >= table.submit_s[:-1]).all()
