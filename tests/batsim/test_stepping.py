"""The engine, advanced by one instant at a time, and changes of a node's kind."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_batsim.bridge.executions import SteppedEngine
from hpcosim_protocol import (
    Alarm,
    AllocateJob,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    KillJob,
    NodeGroup,
    NodePowerChanged,
    NoMoreJobs,
    PowerStates,
    Processor,
    SetAlarm,
    SetNodePower,
    SimulationBegan,
)
from hpcosim_sim.engine.engine import Rules
from hpcosim_sim.errors import Rejection
from hpcosim_workloads.table import JobSpec
from support.simulating import cluster_of, jobs_of

SLOW = NodeGroup(1, (Processor(1, 0.5, 40.0, 2.0, 0.5),))
FAST = NodeGroup(1, (Processor(1, 2.0, 90.0, 30.0, 0.5),), 0.0, PowerStates(5.0, 3.0, 70, 2.0, 60))


def test_step_brings_one_instant_at_a_time() -> None:
    """Each step processes the next instant."""
    simulation = SteppedEngine(
        cluster_of(2), jobs_of((0, 10, 1), (5, 10, 1)), Rules(initial_time_s=0.0)
    )
    assert simulation.step() == [SimulationBegan(0.0), JobSubmitted(0.0, 1, 1, 10.0)]
    simulation.carry_out(AllocateJob(1, [0]))
    assert simulation.take_events() == [JobStarted(0.0, 1, [0], [1])]
    assert simulation.step() == [JobSubmitted(5.0, 2, 1, 10.0), NoMoreJobs(5.0)]
    assert simulation.next_s() == 10.0
    assert simulation.step() == [JobCompleted(10.0, 1, "completed")]


def test_step_stops_where_nothing_happens_by_then() -> None:
    """A step advances up to the given time, or not at all without one."""
    simulation = SteppedEngine(cluster_of(1), jobs_of((5, 10, 1)), Rules(initial_time_s=0.0))
    simulation.step(3.0)
    assert simulation.now_s == 3.0
    simulation.step(5.0)
    assert simulation.now_s == 5.0
    assert simulation.step() == []
    assert simulation.now_s == 5.0


def test_steps_go_on_after_the_last_job() -> None:
    """Alarms and power switches continue after the last job."""
    platform = cluster_of(1)
    simulation = SteppedEngine(platform, jobs_of((0, 1, 1)), Rules(initial_time_s=0.0))
    simulation.step()
    simulation.node_kinds.change([0], FAST)
    simulation.carry_out(AllocateJob(1, [0]))
    simulation.step()
    simulation.carry_out(SetAlarm(4.0, 7))
    simulation.carry_out(SetNodePower(0, "sleeping"))
    simulation.take_events()
    assert simulation.step() == [NodePowerChanged(3.0, 0, "sleeping")]
    assert simulation.step() == [Alarm(4.0, 7)]


def test_clock_starts_where_the_rules_say() -> None:
    """With `initial_time_s` time and energy start before the first submission."""
    simulation = SteppedEngine(cluster_of(1), jobs_of((5, 1, 1)), Rules(initial_time_s=0.0))
    simulation.step()
    simulation.settle()
    assert simulation.start_s == 0.0
    assert simulation.cluster.meters[0].energy_j == 5 * 50.0


def test_job_that_can_never_run_joins_the_queue() -> None:
    """A job that is too large joins the queue and can be rejected."""
    simulation = SteppedEngine(cluster_of(1), jobs_of((0, 1, 2)))
    assert JobSubmitted(0.0, 1, 2, 1.0) in simulation.step()


def test_reshaped_job_runs_as_told() -> None:
    """A job runs on the nodes and for the time it was reshaped to."""
    simulation = SteppedEngine(cluster_of(4), jobs_of((0, 10, 4, 99)), Rules())
    simulation.step()
    simulation.reshape(1, 2, 20.0)
    simulation.carry_out(AllocateJob(1, [1, 3]))
    assert simulation.step()[-1] == JobCompleted(20.0, 1, "completed")


def test_running_job_is_not_reshaped() -> None:
    """A running job cannot be reshaped."""
    simulation = SteppedEngine(cluster_of(2), jobs_of((0, 10, 1)), Rules())
    simulation.step()
    simulation.carry_out(AllocateJob(1, [0]))
    with pytest.raises(Rejection, match="job 1 is running"):
        simulation.reshape(1, 2, 20.0)


def test_submitted_job_is_told_of_at_once() -> None:
    """`submit` adds a job at the current time."""
    simulation = SteppedEngine(cluster_of(1), jobs_of((0, 1, 1)), Rules())
    simulation.step()
    simulation.step(9.0)
    simulation.submit(JobSpec(8, 9.0, 2.0, math.inf, 1, "cores"))
    assert simulation.take_events() == [JobSubmitted(9.0, 8, 1, math.inf)]


def test_node_draws_the_power_of_its_new_kind() -> None:
    """A node draws the power of its kind, idle and computing, and jobs are charged their part."""
    simulation = SteppedEngine(cluster_of(2), jobs_of((0, 10, 1)), Rules(initial_time_s=0.0))
    simulation.step()
    simulation.node_kinds.change([1], SLOW)  # 20 W idle, 42 W computing; the other draws 50 W idle
    simulation.carry_out(AllocateJob(1, [1]))
    simulation.step(4.0)
    simulation.node_kinds.change([1], FAST)  # 45 W idle, 120 W computing
    simulation.step(10.0)
    simulation.step(12.0)
    simulation.settle()
    energy_j = math.fsum(meter.energy_j for meter in simulation.cluster.meters)
    assert energy_j == 12 * 50.0 + 4 * 42.0 + 6 * 120.0 + 2 * 45.0
    assert simulation.record().job_energies_j[0] == 4 * 42.0 + 6 * 120.0


def test_node_sleeps_as_its_new_kind_does() -> None:
    """Switching times and powers are those of the new kind."""
    simulation = SteppedEngine(cluster_of(1), jobs_of((0, 1, 1)), Rules(initial_time_s=0.0))
    simulation.step()
    simulation.node_kinds.change([0], FAST)
    simulation.carry_out(SetNodePower(0, "sleeping"))
    simulation.step()
    simulation.step(10.0)
    simulation.settle()
    assert simulation.now_s == 10.0
    energy_j = math.fsum(meter.energy_j for meter in simulation.cluster.meters)
    assert energy_j == 2 * 60.0 + 8 * 5.0


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["turn", "begin", "kill", "wait"])),
        max_size=30,
    ),
    st.integers(0, 1),
)
def test_energy_is_the_sum_of_what_each_node_drew(acts: list[tuple[int, str]], which: int) -> None:
    """With random changes of kinds the energy is the sum over all nodes."""
    kinds = [SLOW, FAST]
    simulation = SteppedEngine(
        cluster_of(3), jobs_of(*[(0, 1e6, 1)] * 30), Rules(initial_time_s=0.0)
    )
    simulation.step()
    on: dict[int, int] = {}
    watts = [(50.0, 110.0)] * 3
    expected_j, job_j, next_job = 0.0, dict.fromkeys(range(1, 31), 0.0), 1
    for node, act in acts:
        if act == "turn":
            kind = kinds[which]
            which = 1 - which
            simulation.node_kinds.change([node], kind)
            watts[node] = (kind.idle_w, kind.static_w + kind.dynamic_w)
        elif act == "begin" and node not in on:
            simulation.carry_out(AllocateJob(next_job, [node]))
            on[node], next_job = next_job, next_job + 1
        elif act == "kill" and node in on:
            simulation.carry_out(KillJob(on.pop(node)))
        else:
            simulation.step(simulation.now_s + 1.5)
            for place in range(3):
                power_w = watts[place][place in on]
                expected_j += 1.5 * power_w
                if place in on:
                    job_j[on[place]] += 1.5 * power_w
    simulation.settle()
    energy_j = math.fsum(meter.energy_j for meter in simulation.cluster.meters)
    assert math.isclose(energy_j, expected_j, rel_tol=1e-12)
    total_j = simulation.cluster.energy_j(simulation.now_s)
    assert math.isclose(total_j, expected_j, rel_tol=1e-12)
    idle_w = math.fsum(idle_w for idle_w, _ in watts)
    assert math.isclose(simulation.cluster.idle_power_w, idle_w, rel_tol=1e-12)
    charged = simulation.record().job_energies_j
    for job_id, charged_j in zip(simulation.recording.job_id, charged, strict=True):
        assert math.isclose(charged_j, job_j[job_id], rel_tol=1e-12)
