"""The comparison of a simulation with a real run: `scenarios/slurm/against_reality.py`."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from hpcosim_protocol import AllocateJob
from hpcosim_protocol.client_messages import Decisions
from hpcosim_slurm.journal import Asked, Seen
from hpcosim_slurm.state import LiveJob, LiveNode
from hpcosim_slurm.worlds.difference import Change
from support.paths import SCENARIOS

script: Any = import_module("scenarios.slurm.against_reality")


def times(*values: float) -> Any:
    """Return the submission, decision, start and end of a job on node 0, s."""
    return script.JobTimes(*values, (0,))


def node(name: str) -> LiveNode:
    """Return an idle node."""
    return LiveNode(name, 1, 1, True, True, "on", "IDLE")


def job(state: Any, *nodes: str) -> LiveJob:
    """Return job 7 in a state."""
    return LiveJob(7, "job7", "ann", "main", state, "", 0.0, 1, 1, 1, nodes=nodes)


def test_start_delays_add_up_along_the_jobs_that_waited_for_each_other() -> None:
    """A job that starts when another ends has the delays of both."""
    simulated = {1: times(0, 0, 0, 4), 2: times(1, 4, 4, 6)}
    real = {1: times(0, 0, 0.5, 4.5), 2: times(1, 4.5, 5.5, 7.5)}
    first, second = script.compared(simulated, real)
    assert (first.added_s, first.in_a_row) == (0.5, 1)
    assert (second.added_s, second.in_a_row, second.difference_s) == (1.5, 2, 1.5)


@pytest.mark.parametrize(("third_s", "is_equal"), [(9.0, True), (7.0, False)])
def test_order_of_starts(third_s: float, is_equal: bool) -> None:
    """Jobs that the simulation starts at one instant may swap, others may not."""
    simulated = {1: times(0, 0, 0, 4), 2: times(0, 0, 0, 4)}
    real = {1: times(0, 0, 8.0, 12.0), 2: times(0, 0, 1.0, 5.0)}
    simulated[3] = times(0, 4, 4, 6)
    real[3] = times(0, 4, third_s, 14.0)
    assert script.is_order_equal(script.compared(simulated, real)) is is_equal


def test_real_times_are_those_at_which_the_bridge_learned_of_them() -> None:
    """A job has its submission, decision, start and end in seconds since the first submission."""
    records = [
        Seen(at_s=90.0, change=Change(90.0, nodes=(node("a"), node("b")))),
        Seen(at_s=100.0, change=Change(100.0, jobs=(job("pending"),))),
        Asked(at_s=100.25, request=Decisions(session="s", seq=1, decisions=[AllocateJob(7, [1])])),
        Seen(at_s=101.0, change=Change(101.0, jobs=(job("running", "b"),))),
        Seen(at_s=104.0, change=Change(104.0, jobs=(job("completing", "b"),))),
        Seen(at_s=105.0, change=Change(105.0, jobs=(job("over", "b"),))),
    ]
    assert script.real_times(records) == {7: script.JobTimes(0.0, 0.25, 1.0, 4.0, (1,))}


def test_the_scenario_has_the_jobs_that_are_submitted() -> None:
    """20 jobs fit on the 8 nodes of the small cluster."""
    lines = (SCENARIOS / "slurm" / "jobs.jsonl").read_text().splitlines()
    assert len(lines) == 20
    assert max(json.loads(line)["cores"] for line in lines) <= 8
