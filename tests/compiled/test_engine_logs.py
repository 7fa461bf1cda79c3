"""The compiled engine on real job logs: each column of the record is that of the reference."""

from __future__ import annotations

import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from benchmarks.cases import equal_nodes, simulate

from hpcosim_compiled.simulation import CompiledSimulation
from hpcosim_sim.engine.engine import Rules
from hpcosim_sim.record.recording import Recording
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.table import JobTable

LOGS = {"nasa-ipsc": 128, "lublin-256": 256, "sdsc-sp2": 128, "ctc-sp2": 338}


def columns(recording: Recording) -> dict[str, object]:
    """Return the columns of a recording."""
    return {
        name: value.tobytes() if hasattr(value, "tobytes") else value
        for name, value in vars(recording).items()
        if name not in ("explanations", "_terms")
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
def test_easy_on_whole_logs(log: str) -> None:
    """EASY backfilling, all jobs."""
    assert_equal(read_swf(find_trace(log)), LOGS[log], "easy")


@pytest.mark.slow
@pytest.mark.trace
@pytest.mark.parametrize("scheduler", ["fcfs", "saf", "wfp3", "conservative", "easy-saf-aged"])
def test_other_policies_on_the_begin_of_a_log(scheduler: str) -> None:
    """A queue builds up."""
    assert_equal(read_swf(find_trace("lublin-256")).take(slice(0, 2000)), 256, scheduler)
