"""The compiled engine on real job logs: each column of the record is that of the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from benchmarks.cases import equal_nodes, simulate

from hpcosim_compiled.simulation import CompiledSimulation
from hpcosim_sim.engine.engine import Rules
from hpcosim_sim.record.recording import Recording
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.table import JobTable

LUBLIN = "lublin_256.swf.gz"
LOGS = {
    "NASA-iPSC-1993-3.1-cln.swf.gz": 128,
    LUBLIN: 256,
    "SDSC-SP2-1998-4.2-cln.swf.gz": 128,
    "CTC-SP2-1996-3.1-cln.swf.gz": 338,
}
"""Processors of the machine of each log."""
MOST_JOBS = 20_000
"""Jobs that are simulated of a log; two of the logs have fewer."""


def columns(recording: Recording) -> dict[str, object]:
    """Return the columns of a recording."""
    return {
        name: value.tobytes() if hasattr(value, "tobytes") else value
        for name, value in vars(recording).items()
        if name != "explanations"
    }


def assert_equal(jobs: JobTable, processors: int, scheduler: str) -> None:
    """Simulate with both engines."""
    platform = equal_nodes(processors)
    compiled = CompiledSimulation(platform, jobs, Rules(), scheduler)
    while compiled.advance():
        pass
    ours, theirs = compiled.record(), simulate(platform, jobs, scheduler)[0].record()
    for name in ("start_s", "end_s", "metered_j", "metered_node_s", "peak_power_w"):
        assert getattr(ours, name) == getattr(theirs, name), name
    own, expected = columns(ours.recording), columns(theirs.recording)
    for name, column in expected.items():
        assert own[name] == column, name


@pytest.mark.slow
@pytest.mark.trace
@pytest.mark.parametrize("log", LOGS)
def test_easy_on_whole_logs(traces: Path, log: str) -> None:
    """EASY backfilling, all jobs, or the first ones of a long log."""
    assert_equal(read_swf(traces / log).take(slice(0, MOST_JOBS)), LOGS[log], "easy")


@pytest.mark.slow
@pytest.mark.trace
@pytest.mark.parametrize(
    "scheduler",
    [
        *("fcfs", "saf", "wfp3", "easy-saf-aged"),
        pytest.param("conservative", marks=pytest.mark.compiles),
        pytest.param("look-ahead", marks=pytest.mark.compiles),
        pytest.param("slurm", marks=pytest.mark.compiles),
    ],
)
def test_other_policies_on_the_begin_of_a_log(traces: Path, scheduler: str) -> None:
    """A queue builds up."""
    assert_equal(read_swf(traces / LUBLIN).take(slice(0, 2000)), 256, scheduler)
