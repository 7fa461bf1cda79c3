"""Power managers beside a job scheduler, each rule to the letter."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError, View
from hpcosim_protocol import (
    DecisionRejected,
    NodePowerChanged,
    PowerStates,
)
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.run import run_scenario
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.power.settings import AlwaysOn, KeepIdle, OffAtNight, Power, Timeout
from hpcosim_schedulers.power.timeout import at_clock, spans_s
from hpcosim_sim.engine.simulation import Rules
from hpcosim_workloads.synthetic.lublin import poisson
from support.power_manager_runs import nodes_of, power_history, switched, switched_off
from support.simulating import jobs_of, simulate, starts


def test_a_node_idle_for_the_timeout_is_switched_off_just_then() -> None:
    """Its idle time starts when its job ends; after switching off it boots for a job."""
    jobs = jobs_of((0.0, 20.0, 1), (40.0, 5.0, 1))
    simulation = simulate(nodes_of(1), jobs, with_power("fcfs", Timeout(15.0)))
    assert switched(simulation) == [
        (35.0, 0, "switching_off"),
        (39.0, 0, "sleeping"),
        (40.0, 0, "switching_on"),
        (50.0, 0, "on"),
    ]
    assert starts(simulation) == {1: 0.0, 2: 50.0}
    watts = 20 * 100 + 15 * 100 + 4 * 20 + 1 * 5 + 10 * 80 + 5 * 100
    assert sum(meter.energy_j for meter in simulation.cluster.meters) == watts


def test_a_job_in_time_stops_the_clock() -> None:
    """A node that is allocated before its timeout starts a new idle time afterwards."""
    jobs = jobs_of((0.0, 20.0, 1), (30.0, 5.0, 1), (60.0, 1.0, 1))
    simulation = simulate(nodes_of(1), jobs, with_power("fcfs", Timeout(15.0)))
    assert switched(simulation)[0] == (50.0, 0, "switching_off")


def test_a_node_held_for_a_job_is_not_idle() -> None:
    """On, but held until another node has booted, it is not switched off."""
    jobs = jobs_of((0.0, 30.0, 1), (31.0, 5.0, 2))
    simulation = simulate(nodes_of(2), jobs, with_power("fcfs", Timeout(8.0)))
    # Node 1 sleeps from 12 on; job 2 gets both at 31, node 0 waits 10 s for node 1.
    assert starts(simulation)[2] == 41.0
    assert [node for _, node, state in switched(simulation) if state == "switching_off"] == [1]


def test_no_timeout_at_all_switches_at_once() -> None:
    """With 0 s a node is switched off in the instant it falls idle, but not before it is used."""
    simulation = simulate(nodes_of(2), jobs_of((0.0, 20.0, 1)), with_power("fcfs", Timeout(0.0)))
    assert switched(simulation) == [(0.0, 1, "switching_off"), (4.0, 1, "sleeping")]


def test_nodes_without_power_states_are_left_alone() -> None:
    """A manager asks nothing of nodes that are always on."""
    policy = with_power("easy", Timeout(1))
    simulation = simulate(nodes_of(2, None), jobs_of((0.0, 20.0, 1)), policy)
    assert switched(simulation) == []


def test_keep_idle_leaves_so_many_on() -> None:
    """Of four idle nodes two are kept; the lowest-numbered go, all idle equally long."""
    policy = with_power("fcfs", KeepIdle(2, 6.0))
    simulation = simulate(nodes_of(5), jobs_of((0.0, 20.0, 1)), policy)
    assert switched_off(simulation) == [(6.0, 1), (6.0, 2)]


def test_keep_idle_wakes_nodes_to_be_ready() -> None:
    """When a job takes the warm node, another is switched on in its place as soon as it sleeps."""
    jobs = jobs_of((0.0, 50.0, 1), (2.0, 48.0, 1))
    simulation = simulate(nodes_of(3), jobs, with_power("fcfs", KeepIdle(1)))
    assert starts(simulation) == {1: 0.0, 2: 2.0}
    assert power_history(simulation.recording, 1) == [
        (0.0, "switching_off"),
        (4.0, "sleeping"),
        (4.0, "switching_on"),
        (14.0, "on"),
    ]
    assert set(simulation.recording.power_node) == {1}


def test_a_node_on_its_way_is_not_warm_yet() -> None:
    """While another boots the only idle node stays on, and a job finds it."""
    slow = PowerStates(5, 1000, 80, 4, 20)
    jobs = jobs_of((0.0, 5.0, 1), (30.0, 10.0, 1), (60.0, 10.0, 1))
    simulation = simulate(nodes_of(2, slow), jobs, with_power("fcfs", KeepIdle(1)))
    assert starts(simulation)[3] == 60.0


@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_a_wide_job_is_not_passed_for_ever_while_nodes_are_switched_off(scheduler: str) -> None:
    """A node on its way off is expected back, so the head has its reservation."""
    jobs = jobs_of((0.0, 8.0, 1), (6.0, 10.0, 2), (6.5, 5000.0, 1))
    simulation = simulate(nodes_of(2), jobs, with_power(scheduler, Timeout(5.0)))
    # Node 1 goes off at 5 and sleeps at 9; then job 2 has both, and node 1 takes 10 s to boot.
    assert starts(simulation) == {1: 0.0, 2: 19.0, 3: 29.0}


@pytest.mark.parametrize("scheduler", ["easy", "conservative"])
def test_a_booting_job_is_expected_to_end_when_it_will(scheduler: str) -> None:
    """A short job fills the gap until the job that boots is over: its end counts from its start."""
    slow = PowerStates(5, 1000, 80, 4, 20)
    jobs = jobs_of((0.0, 10.0, 1), (200.0, 100.0, 2), (320.0, 100.0, 3), (321.0, 50.0, 1))
    policy = make_policy(scheduler)

    def decide(view: View) -> None:
        policy(view)
        if view.now_s == 0.0 and view.nodes.on[1]:
            view.set_node_power(1, on=False)

    # Job 2 waits on node 0 for node 1 until 1200; job 3 has its reservation at 1300.
    assert starts(simulate(nodes_of(3, slow), jobs, decide)) == {1: 0, 2: 1200, 3: 1300, 4: 321}


def test_a_manager_s_alarm_keeps_no_run_alive() -> None:
    """Where a scheduler may submit jobs an alarm holds the end up; the manager's does not."""
    jobs = jobs_of((0.0, 20.0, 1), (30.0, 5.0, 1))
    policy, rules = with_power("fcfs", Timeout(900.0)), Rules(dynamic_jobs=True)
    assert simulate(nodes_of(2), jobs, policy, rules).now_s == 35.0


def test_a_rejected_switch_leaves_the_state_of_the_server() -> None:
    """Also where the node went on to another state in the scheduler's thinking time."""
    view = View(nodes_of(1))
    view.apply(0.0, [NodePowerChanged(0.0, 0, "switching_on")])
    view.set_node_power(0, on=False)
    view.set_node_power(0, on=False)
    refused = [
        DecisionRejected(15.0, 1, index, "set_node_power", "node_busy", "") for index in (0, 1)
    ]
    view.apply(15.0, [NodePowerChanged(10.0, 0, "on"), *refused])
    assert (view.nodes.power, view.nodes.on.tolist(), view.nodes.free_cores) == (["on"], [True], 1)


@given(
    seed=st.integers(0, 2**32),
    scheduler=st.sampled_from(
        ["fcfs", "sjf", "easy", "conservative", "first-high-cores", "minmin", "minmin-immediate"]
    ),
    power=st.sampled_from(
        [
            Timeout(0),
            Timeout(7.5),
            KeepIdle(0),
            KeepIdle(2, 3.0),
            OffAtNight(("00:00-00:05",)),
            AlwaysOn(),
        ]
    ),
)
def test_every_scheduler_goes_with_every_manager(seed: int, scheduler: str, power: Power) -> None:
    """No job is lost, no decision refused, and nothing is stuck."""
    rng = np.random.default_rng(seed)
    jobs = poisson(
        rng, jobs=25, mean_interarrival_s=15.0, cores=(1, 1), run_s=(5, 80), overestimate=2.0
    )
    policy = with_power(scheduler, power)
    refused: list[Any] = []

    def watched(view: Any) -> None:
        refused.extend(view.rejected)
        policy(view)

    simulation = simulate(nodes_of(4), jobs, watched)
    assert simulation.recording.over == 25
    assert not refused


def test_off_at_night_switches_idle_nodes_by_the_clock() -> None:
    """Off at the begin of the window or when its job ends, on for a job, all on at its end."""
    jobs = jobs_of((0.0, 200.0, 1), (300.0, 10.0, 2), (1000.0, 1.0, 1))
    night = OffAtNight(("Mon 00:01-00:10",))
    simulation = simulate(nodes_of(2), jobs, with_power("fcfs", night))
    assert power_history(simulation.recording, 0) == [
        (200.0, "switching_off"),
        (204.0, "sleeping"),
        (300.0, "switching_on"),
        (310.0, "on"),
        (320.0, "switching_off"),
        (324.0, "sleeping"),
        (600.0, "switching_on"),
        (610.0, "on"),
    ]
    assert power_history(simulation.recording, 1)[:2] == [
        (60.0, "switching_off"),
        (64.0, "sleeping"),
    ]
    assert starts(simulation) == {1: 0.0, 2: 310.0, 3: 1000.0}


def test_a_node_on_its_way_off_at_the_end_of_the_night_comes_back() -> None:
    """Once it sleeps, it is switched on."""
    jobs = jobs_of((0.0, 118.0, 1), (1000.0, 1.0, 1))
    simulation = simulate(nodes_of(1), jobs, with_power("fcfs", OffAtNight(("Mon 00:01-00:02",))))
    assert switched(simulation) == [
        (118.0, 0, "switching_off"),
        (122.0, 0, "sleeping"),
        (122.0, 0, "switching_on"),
        (132.0, 0, "on"),
    ]


def test_off_at_night_keeps_nodes_on() -> None:
    """The nodes of a set, or some of its idle nodes."""
    jobs = jobs_of((0.0, 30.0, 1), (100.0, 1.0, 1))
    night = OffAtNight(("00:01-00:02",), keep_on="4, 0-3:2")
    simulation = simulate(nodes_of(6), jobs, with_power("fcfs", night))
    assert switched_off(simulation) == [(60.0, 2), (60.0, 3), (60.0, 5)]


def test_off_at_night_names_a_node_that_does_not_exist() -> None:
    """At its first call."""
    with pytest.raises(PolicyError, match="keep_on: expected node numbers from 0 to 1, got 2"):
        simulate(nodes_of(2), jobs_of((0.0, 1.0, 1)), with_power("fcfs", OffAtNight(keep_on="2")))


MINUTES = st.integers(0, 3 * 7 * 24 * 60).map(lambda minute: 60.0 * minute)


@given(now_s=st.floats(0, 3 * 604_800) | MINUTES, origin_s=st.sampled_from([0, 86_400, 604_740]))
def test_windows_are_those_of_a_calendar(now_s: float, origin_s: float) -> None:
    """Compared with the day and the hour; nothing changes before the next time."""
    texts = ("Mon-Fri 20:00-06:00", "Sat-Sun 00:00-24:00", "Wed 12:00-12:30")
    windows = [span_s for text in texts for span_s in spans_s(text)]

    def expected(at_s: float) -> bool:
        week_s = (at_s + origin_s) % 604_800
        day, hour = week_s // 86_400, week_s % 86_400 / 3600
        night = (hour >= 20 and day < 5) or (hour < 6 and 1 <= day < 6)
        return night or day >= 5 or (day == 2 and 12 <= hour < 12.5)

    off, next_s = at_clock(windows, now_s, origin_s)
    assert off == expected(now_s)
    assert now_s < next_s
    middle_s = (now_s + next_s) / 2
    assert middle_s == next_s or off == expected(middle_s)  # it may be rounded to the end


def overlap_s(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the length of the common part of two periods."""
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


@given(seed=st.integers(0, 2**32))
def test_off_at_night_does_as_it_says(seed: int) -> None:
    """By day no node is switched off or sleeps; at night a node is on while it computes only."""
    rng = np.random.default_rng(seed)
    jobs = poisson(
        rng, jobs=30, mean_interarrival_s=40.0, cores=(1, 1), run_s=(5, 200), overestimate=2
    )
    policy = with_power("easy", OffAtNight(("00:02-00:05", "Mon 00:10-00:15")))
    windows = ((120.0, 300.0), (600.0, 900.0))
    simulation = simulate(nodes_of(4), jobs, policy)
    runs = simulation.recording.periods  # of one node each
    for node in range(4):
        changes = [(0.0, "on"), *power_history(simulation.recording, node)]
        for (from_s, state), (to_s, _) in pairwise([*changes, (simulation.now_s, "over")]):
            by_night = any(begin_s <= from_s < end_s for begin_s, end_s in windows)
            assert by_night or state != "switching_off"
            assert by_night or state != "sleeping" or from_s == to_s
            for window in windows if state == "on" else ():
                computing_s = sum(
                    overlap_s((max(start_s, from_s), min(end_s, to_s)), window)
                    for start_s, end_s, at in zip(runs.start_s, runs.end_s, runs.nodes, strict=True)
                    if at == node
                )
                assert computing_s == pytest.approx(overlap_s((from_s, to_s), window))


SCENARIO = """
name: night
platform:
  nodes:
    - count: 8
      processors: [{cores: 2, static_w: 100, dynamic_w: 5}]
      power_states:
        {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9,
         switch_on_sd_s: 5}
workload: {synthetic: {model: poisson, jobs: 60, mean_interarrival_s: 300}}
scheduler: {name: easy, power: {name: timeout, timeout_s: 120}}
"""


@pytest.mark.slow
def test_a_managed_run_is_the_same_on_every_transport(tmp_path: Path) -> None:
    """Drawn boot times, alarms and all: the same bytes in one process and over two wires."""
    file = tmp_path / "night.yaml"
    file.write_text(SCENARIO)
    folders = []
    for transport in ("inproc", "ipc", "tcp"):
        metrics, folder = run_scenario(file, transport=transport, out=tmp_path / transport)
        assert metrics["node_shutdowns"] > 0
        folders.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert folders[0] == folders[1] == folders[2]
    called = json.loads(folders[0]["run.json"])["scheduler"]
    assert called == "unaware easy, timeout(timeout_s=120.0)"


def test_a_scenario_s_seed_draws_boot_times(tmp_path: Path) -> None:
    """The same jobs, another seed: nodes take another time to be switched."""
    file = tmp_path / "night.yaml"
    file.write_text(SCENARIO)
    jobs, changes_s = Library([file]).first_jobs, []
    for seed in (3, 3, 4):
        opened = open_scenario(load_scenario(file, {"seed": seed}), jobs, "easy")
        run_in_process(opened, with_power("easy", Timeout(120.0)))
        changes_s.append(list(opened.simulation.recording.power_s))
    assert changes_s[0] == changes_s[1] != changes_s[2]
