"""The oracle: the switching of nodes with the least energy for a fixed schedule."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError, View
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_scenarios.errors import OracleError
from hpcosim_scenarios.planning.cheapest_switching import (
    CheapestPlan,
    Schedule,
    cheapest_switching,
    schedule_of,
    wake_times_s,
)
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.oracle import plan_of, plan_scenario
from hpcosim_scenarios.running.policies import Chosen
from hpcosim_scenarios.running.run import run_chosen
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.manager import managed
from hpcosim_schedulers.power.oracle import (
    NodeSwitch,
    SwitchingPlan,
    on_time,
    oracle,
    read_plan,
    write_plan,
)
from hpcosim_schedulers.power.settings import Oracle
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.metrics import measure
from hpcosim_workloads.synthetic.lublin import poisson
from hpcosim_workloads.table import JobTable
from support.examples import examples
from support.power_manager_runs import power_history
from support.simulating import jobs_of, simulate, starts

IDLE_W = 100.0
# A gap of 14 s is the shortest to sleep in. To sleep costs 1800 J more, and saves 90 W, so that
# it pays from 20 s on.
DEAR = PowerStates(sleep_w=10, switch_on_s=10, switch_on_w=190, switch_off_s=4, switch_off_w=10)
# To sleep costs 900 J more, so that it would pay from 10 s on already.
CHEAP = PowerStates(sleep_w=10, switch_on_s=10, switch_on_w=100, switch_off_s=4, switch_off_w=10)


def nodes_of(count: int, states: PowerStates, cores: int = 1) -> Platform:
    """Return nodes that draw `IDLE_W` whether idle or computing."""
    return Platform((NodeGroup(count, (Processor(cores, 1.0, IDLE_W),), power_states=states),))


def on_first(view: View) -> None:
    """Schedule jobs in order of submission, first on nodes that are on."""
    while view.queue:
        job = next(iter(view.queue.values()))
        if not view.start(job, np.argsort(~view.nodes.on, kind="stable").tolist()):
            return


def planned(platform: Platform, jobs: JobTable) -> tuple[CheapestPlan, Simulation]:
    """Return the plan for jobs in order of submission, and the run with all nodes on."""
    simulation = simulate(platform, jobs, "fcfs")
    states = platform.nodes[0].power_states
    assert states is not None
    return cheapest_switching(schedule_of(simulation), IDLE_W, states), simulation


def carried_out(platform: Platform, jobs: JobTable) -> CheapestPlan:
    """Return the plan after checking that a run with it has its energy and delays no job."""
    plan, always_on = planned(platform, jobs)
    simulation = simulate(platform, jobs, managed(on_first, oracle(plan.switches)))
    assert starts(simulation) == starts(always_on)
    assert simulation.now_s == always_on.now_s
    metrics = measure(simulation.record())
    for part in ("idle", "sleeping", "switching_on", "switching_off"):
        expected_j = pytest.approx(getattr(plan, f"{part}_j"), rel=1e-9, abs=1e-6)
        assert metrics[f"{part}_energy_j"] == expected_j
    assert metrics["wasted_energy_j"] == pytest.approx(plan.wasted_j, rel=1e-9, abs=1e-6)
    assert metrics["node_shutdowns"] == plan.shutdowns
    return plan


# By hand


@pytest.mark.parametrize(
    ("gap_s", "wasted_j"),
    [
        (13.0, 1300.0),  # too short for both transitions
        (15.0, 1500.0),  # long enough, but it does not pay
        (20.0, 2000.0),  # 4 s * 10 W + 6 s * 10 W + 10 s * 190 W: it is all one
        (30.0, 2100.0),  # 100 J more than that
    ],
)
def test_one_node_between_two_jobs(gap_s: float, wasted_j: float) -> None:
    """The node sleeps if that costs less than staying on and if the gap is long enough."""
    plan = carried_out(nodes_of(1, DEAR), jobs_of((5.0, 10.0, 1), (15.0 + gap_s, 5.0, 1)))
    assert plan.wasted_j == wasted_j
    if gap_s == 30.0:
        assert plan.switches == [NodeSwitch(15.0, 1, "off"), NodeSwitch(35.0, 1, "on")]
    if gap_s < 20.0:
        assert plan.switches == []


def test_a_gap_just_long_enough_for_both_transitions() -> None:
    """The node falls asleep and is switched on at the same instant."""
    plan = carried_out(nodes_of(1, CHEAP), jobs_of((0.0, 10.0, 1), (24.0, 5.0, 1)))
    assert plan.switches == [NodeSwitch(10.0, 1, "off"), NodeSwitch(14.0, 1, "on")]
    assert plan.wasted_j == 4 * 10 + 10 * 100


@pytest.mark.parametrize(
    ("first_end_s", "wasted_j"),
    [
        # Gaps of 20 s twice: 2 * (900 + 200) J; or of 12 s, which cannot be slept in, and 28 s.
        (18.0, 2200.0),
        # Gaps of 8 s, 800 J, and 32 s, 900 + 320 J; or of 20 s twice, as above.
        (22.0, 2020.0),
    ],
)
def test_which_node_is_taken_matters(first_end_s: float, wasted_j: float) -> None:
    """One plan allocates the node freed first, the other the node freed last."""
    later_s = first_end_s + 20.0
    jobs = jobs_of(
        (0.0, 10.0, 1), (0.0, first_end_s, 1), (30.0, 30.0, 1), (later_s, 60.0 - later_s, 1)
    )
    assert carried_out(nodes_of(2, CHEAP), jobs).wasted_j == wasted_j


def test_a_node_never_used_sleeps_from_the_start() -> None:
    """The node is switched off at the start and never on."""
    plan = carried_out(nodes_of(2, DEAR), jobs_of((0.0, 24.0, 1)))
    assert plan.switches == [NodeSwitch(0.0, 1, "off")]
    assert (plan.switching_off_j, plan.sleeping_j, plan.idle_j) == (40.0, 200.0, 0.0)


def test_a_transition_counts_until_the_run_ends() -> None:
    """Two seconds before the end a node is switched off, although that takes four seconds."""
    plan = carried_out(nodes_of(2, DEAR), jobs_of((0.0, 10.0, 1), (0.0, 12.0, 1)))
    assert plan.switches == [NodeSwitch(10.0, 1, "off")]
    assert plan.wasted_j == 2 * 10


def test_before_the_end_it_may_be_dearer_to_switch_off() -> None:
    """A transition that draws more than an idle node saves energy only if sleep follows."""
    states = PowerStates(10, 10, 190, 4, 400)  # 16 J * 100 to switch off, less 10 W a second
    for more_s, wasted_j in ((3.0, 300.0), (17.0, 1700.0), (18.0, 1740.0)):
        jobs = jobs_of((0.0, 10.0, 1), (0.0, 10.0 + more_s, 1))
        assert carried_out(nodes_of(2, states), jobs).wasted_j == wasted_j


def test_a_job_that_starts_as_another_ends_takes_its_node() -> None:
    """A node is not switched off at the end of a job if a job that starts then needs it."""
    jobs = jobs_of((0.0, 10.0, 2), (5.0, 10.0, 1), (50.0, 5.0, 2))
    plan = carried_out(nodes_of(2, CHEAP), jobs)
    assert plan.switches == [
        NodeSwitch(10.0, 1, "off"),
        NodeSwitch(20.0, 1, "off"),
        NodeSwitch(40.0, 2, "on"),
    ]


@pytest.mark.parametrize("switch_s", [(0.0, 0.0), (0.0, 4.0), (10.0, 0.0)])
def test_transitions_that_take_no_time(switch_s: tuple[float, float]) -> None:
    """A node is on before its job is submitted."""
    on_s, off_s = switch_s
    states = PowerStates(10, on_s, 100, off_s, 50)
    jobs = jobs_of((0.0, 10.0, 1), (40.0, 5.0, 1), (46.0 + on_s + off_s, 5.0, 1))
    plan = carried_out(nodes_of(1, states), jobs)
    asleep_s = 30.0 - on_s - off_s + 1.0
    wasted_j = 2 * (100 * on_s + 50 * off_s) + 10 * asleep_s
    assert plan.wasted_j == pytest.approx(wasted_j, rel=1e-9)


def test_jobs_of_whole_nodes() -> None:
    """A job of three cores takes two nodes of two cores, and the third node sleeps."""
    jobs = jobs_of((0.0, 24.0, 3), placement="whole_nodes")
    assert carried_out(nodes_of(3, DEAR, cores=2), jobs).wasted_j == 240.0


def test_no_time_at_all() -> None:
    """A run in which no job runs has an empty plan."""
    simulation = simulate(nodes_of(1, DEAR), jobs_of((3.0, 5.0, 9)))
    plan = cheapest_switching(schedule_of(simulation), IDLE_W, DEAR)
    assert (plan.switches, plan.wasted_j) == ([], 0.0)


# Against an exhaustive search

FreeNodes = tuple[object, ...]


def least_waste_j(schedule: Schedule, states: PowerStates) -> float:
    """Return the least energy over everything that could be switched at every whole second.

    A node free of jobs is `idle`, `asleep`, or has so many seconds to go: of being switched off
    (counted below 0) or on (above).
    """
    least: dict[FreeNodes, float] = {("idle",) * schedule.nodes: 0.0}
    for now_s in range(int(schedule.start_s), int(schedule.end_s)):
        after: dict[FreeNodes, float] = {}
        for before, energy_j in least.items():
            for nodes in at_this_second(before, now_s, schedule, states):
                cost_j = energy_j + sum(watts(node, states) for node in nodes)
                after[nodes] = min(after.get(nodes, math.inf), cost_j)
        least = {}
        for nodes, cost_j in after.items():
            key = tuple(sorted(map(one_second_on, nodes), key=str))
            least[key] = min(least.get(key, math.inf), cost_j)
    return min(least.values())


def at_this_second(
    before: FreeNodes, now_s: int, schedule: Schedule, states: PowerStates
) -> Iterator[FreeNodes]:
    """Yield the possible states of the free nodes after ends, starts and decisions."""
    ended = int(schedule.job_nodes[schedule.job_end_s == now_s].sum())
    started = int(schedule.job_nodes[schedule.job_start_s == now_s].sum())
    nodes = [*before, *["idle"] * ended]
    if nodes.count("idle") < started:
        return
    for _ in range(started):
        nodes.remove("idle")
    options = [
        (node, -int(states.switch_off_s))
        if node == "idle"
        else (node, int(states.switch_on_s))
        if node == "asleep"
        else (node,)
        for node in nodes
    ]
    yield from {tuple(sorted(chosen, key=str)) for chosen in itertools.product(*options)}


def watts(node: object, states: PowerStates) -> float:
    """Return the power of a free node."""
    if node == "idle":
        return IDLE_W
    if node == "asleep":
        return states.sleep_w
    assert isinstance(node, int)
    return states.switch_on_w if node > 0 else states.switch_off_w


def one_second_on(node: object) -> object:
    """Return the state of a free node one second later without a decision."""
    if not isinstance(node, int):
        return node
    left = node - 1 if node > 0 else node + 1
    return left or ("idle" if node > 0 else "asleep")


def times(most: int) -> st.SearchStrategy[int]:
    """Return whole seconds of at least 1."""
    return st.integers(1, most)


@st.composite
def power_states(draw: st.DrawFn) -> PowerStates:
    """Draw power states in which sleeping draws the least."""
    sleep_w = draw(st.integers(0, 50))
    on_w, off_w = draw(st.integers(sleep_w, 300)), draw(st.integers(sleep_w, 300))
    return PowerStates(sleep_w, draw(times(4)), on_w, draw(times(4)), off_w)


few_jobs = st.lists(
    st.tuples(st.integers(0, 30), times(9), st.integers(1, 3)), min_size=1, max_size=6
)


@examples(150)
@given(jobs=few_jobs, states=power_states())
def test_nothing_else_is_cheaper(jobs: list[tuple[int, int, int]], states: PowerStates) -> None:
    """No switching at whole seconds wastes less, and the run with the plan wastes as much."""
    table = jobs_of(*sorted(jobs))
    platform = nodes_of(3, states)
    plan = carried_out(platform, table)
    schedule = schedule_of(simulate(platform, table, "fcfs"))
    assert plan.wasted_j == pytest.approx(least_waste_j(schedule, states), rel=1e-9, abs=1e-9)


@given(seed=st.integers(0, 2**32), states=st.sampled_from([CHEAP, DEAR]))
def test_times_of_any_fraction(seed: int, states: PowerStates) -> None:
    """With fractional times every job still finds its nodes on, to the last bit."""
    rng = np.random.default_rng(seed)
    jobs = poisson(
        rng, jobs=40, mean_interarrival_s=9.7, cores=(1, 6), run_s=(1.3, 70.0), overestimate=1.5
    )
    slow = msgspec.structs.replace(states, switch_on_s=states.switch_on_s * 1.1)
    carried_out(nodes_of(6, slow), jobs)


@given(
    needed_s=st.lists(st.floats(0, 1e9), min_size=1, max_size=20),
    switch_on_s=st.floats(0, 1e5),
)
def test_wake_times_are_the_latest(needed_s: list[float], switch_on_s: float) -> None:
    """By the simulator's sum a node is on in time, and one or two roundings later it is not."""
    needed = np.array(needed_s)
    wake_s = wake_times_s(needed, switch_on_s)
    assert (wake_s + switch_on_s <= needed).all()
    assert (wake_s < needed).all()
    ulp_s = np.spacing(np.maximum(needed, switch_on_s))
    assert (needed - switch_on_s - wake_s <= 2 * ulp_s).all()


# The manager and its file


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """A plan that is read has the times that were written, to the last bit."""
    switches = (
        NodeSwitch(0.0, 3, "off"),
        NodeSwitch(0.1 + 0.2, 1, "off"),
        NodeSwitch(1e9 / 3, 4, "on"),
    )
    plan = SwitchingPlan("easy", 2e9 / 7, {1: 0.0, 7: 1e5 / 3}, switches)
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").read_text().splitlines()[:2] == ["{", ' "scheduler": "easy",']


def a_plan(**changes: object) -> str:
    """Return the text of a plan with some keys changed."""
    return json.dumps({"scheduler": "easy", "wasted_j": 0, "start_s": {}, "switches": []} | changes)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", r"plan\.json: expected a plan of `hpcosim oracle`: .* truncated"),
        ("{}", "missing required field `scheduler`"),
        (a_plan(more=1), "unknown field `more`"),
        (a_plan(start_s={"one": 1}), "key"),
        (a_plan(start_s={"1": -1}), ">= 0.0 - at `\\$.start_s"),
        (a_plan(switches=[{"time_s": 1, "nodes": 2, "state": "asleep"}]), "'asleep'"),
        (a_plan(switches=[{"time_s": -1, "nodes": 2, "state": "on"}]), r"switches\[0?.*time_s"),
        (a_plan(switches=[{"time_s": 1, "nodes": 0, "state": "on"}]), "nodes"),
        (a_plan(switches=[{"time_s": 1, "nodes": 1}]), "missing required field `state`"),
    ],
)
def test_bad_plans(tmp_path: Path, text: str, error: str) -> None:
    """A file that is no plan is an error with the field."""
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(PolicyError, match=error):
        read_plan(tmp_path / "plan.json")


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    """A missing file and a folder that cannot exist are errors."""
    (tmp_path / "file").write_text("")
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        read_plan(tmp_path / "plan.json")
    with pytest.raises(PolicyError, match="cannot be read: embedded null byte"):
        read_plan(tmp_path / "plan\0.json")
    with pytest.raises(PolicyError, match="cannot be written"):
        write_plan(SwitchingPlan("easy", 0.0, {}, ()), tmp_path / "file" / "plan.json")


@pytest.mark.parametrize(
    ("switches", "what"),
    [
        ([NodeSwitch(2.0, 2, "off")], "1 more nodes off at 2.0 s"),
        ([NodeSwitch(2.0, 1, "on")], "1 more nodes on at 2.0 s"),
    ],
)
def test_a_plan_for_another_schedule_is_noticed(switches: list[NodeSwitch], what: str) -> None:
    """A plan whose switches are impossible in this run is an error."""
    jobs = jobs_of((0.0, 10.0, 1), (5.0, 20.0, 1))
    with pytest.raises(PolicyError, match=what):
        simulate(nodes_of(2, DEAR), jobs, managed(on_first, oracle(switches)))


def test_the_lowest_numbered_are_switched() -> None:
    """Switches take the lowest-numbered idle or sleeping nodes."""
    switches = [NodeSwitch(1.0, 2, "off"), NodeSwitch(7.0, 1, "on")]
    jobs = jobs_of((0.0, 40.0, 1))
    simulation = simulate(nodes_of(4, DEAR), jobs, managed(on_first, oracle(switches)))
    recording = simulation.recording
    assert [at_s for at_s, _ in power_history(recording, 1)] == [1.0, 5.0, 7.0, 17.0]
    assert [at_s for at_s, _ in power_history(recording, 2)] == [1.0, 5.0]
    assert set(recording.power_node) == {1, 2}


# Scenarios

SCENARIO = """
name: night
platform:
  nodes:
    - &group
      count: 4
      processors: [{cores: 2, static_w: 100, dynamic_w: 5, idle_fraction: 0.5}]
      power_states:
        {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9}
workload:
  placement: whole_nodes
  synthetic: {model: poisson, jobs: 60, mean_interarrival_s: 900, cores: [1, 8]}
scheduler: {name: fcfs}
"""


def scenario(folder: Path, *changes: tuple[str, str]) -> Path:
    """Return the file of a scenario with some text replaced."""
    text = SCENARIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "night.yaml").write_text(text)
    return folder / "night.yaml"


def test_the_plan_of_a_scenario(tmp_path: Path) -> None:
    """The plan is made from the file, written, read and applied."""
    file = scenario(tmp_path)
    plan = plan_scenario(file, tmp_path / "plan.json")
    library = Library([file])
    opened = open_scenario(library.first, library.first_jobs, "oracle")
    metrics = run_in_process(
        opened, managed(on_first, oracle(read_plan(tmp_path / "plan.json").switches))
    )
    assert metrics["wasted_energy_j"] == pytest.approx(plan.wasted_j, rel=1e-9)
    assert plan.shutdowns > 0


@pytest.mark.parametrize("scheduler", ["fcfs", "sjf", "easy", "conservative"])
@pytest.mark.parametrize("seed", range(5))
def test_any_scheduler_s_schedule_is_kept(tmp_path: Path, scheduler: str, seed: int) -> None:
    """The schedule with all nodes on is kept, also of schedulers that would backfill otherwise."""
    changes = (("900,", "100, run_s: [5, 400], overestimate: 10,"), ("name: night", "name: busy"))
    library = Library([scenario(tmp_path, *changes)], {"seed": seed})
    always_on = open_scenario(library.first, library.first_jobs, scheduler)
    waits = run_in_process(always_on, make_policy(scheduler))
    chosen = Chosen(scheduler, Oracle(), "unaware", scheduler)
    metrics = run_chosen(chosen, library.default, tmp_path / "out").metrics
    plan = plan_of(library.first, library.first_jobs, scheduler).cheapest
    assert metrics["wasted_energy_j"] == pytest.approx(plan.wasted_j, rel=1e-9)
    kept = ("jobs_completed", "mean_wait_s", "max_wait_s", "median_wait_s", "makespan_s")
    assert [metrics[name] for name in kept] == [waits[name] for name in kept]
    assert metrics["node_shutdowns"] == plan.shutdowns > 0
    assert metrics["max_wait_s"] > 0.0


def test_jobs_the_scheduler_turned_away_are_again() -> None:
    """Jobs without a start in the plan are rejected, and delay no other job."""
    jobs = jobs_of((0.0, 10.0, 1), (1.0, 10.0, 1), (2.0, 5.0, 1))
    simulation = simulate(nodes_of(1, DEAR), jobs, on_time({1: 0.0, 3: 12.5}))
    times_s = list(starts(simulation).values())
    assert times_s == pytest.approx([0.0, math.nan, 12.5], nan_ok=True)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("switch_off_w: 9}", "switch_off_w: 9, switch_on_sd_s: 1}", "set switch_on_sd_s .* to 0"),
        ("whole_nodes", "cores", "leaves cores of a node free"),
        ("sleep_w: 9,", "sleep_w: 60,", "sleep_w is 60.0 W, switch_off_w is 9.0 W"),
        ("sleep_w: 9,", "sleep_w: 95,", "sleep_w to be the lowest power"),
    ],
)
def test_what_the_oracle_does_not_plan_for(tmp_path: Path, old: str, new: str, error: str) -> None:
    """Unsupported platforms and jobs are an error with the key."""
    with pytest.raises(OracleError, match=error):
        plan_scenario(scenario(tmp_path, (old, new)))


def test_nodes_that_are_always_on_are_refused(tmp_path: Path) -> None:
    """Nodes without power states are an error."""
    lines = SCENARIO.splitlines()
    kept = [line for line in lines if "power_states" not in line and "sleep_w" not in line]
    (tmp_path / "day.yaml").write_text("\n".join(kept))
    with pytest.raises(OracleError, match="add power_states"):
        plan_scenario(tmp_path / "day.yaml")


@pytest.mark.parametrize("more_w", [0, 1])
def test_groups_must_be_alike(tmp_path: Path, more_w: int) -> None:
    """Two groups of equal nodes are one group; different nodes are an error."""
    second = SCENARIO.partition("&group\n")[2].partition("workload:")[0]
    second = second.replace("count: 4", "count: 2").replace("100", str(100 + more_w))
    file = scenario(tmp_path, ("&group\n", "\n"), ("workload:\n", f"    -\n{second}workload:\n"))
    if more_w:
        with pytest.raises(OracleError, match=r"platform\.nodes\[1\] differs from"):
            plan_scenario(file)
    else:
        assert plan_scenario(file).shutdowns > 0


def test_a_job_that_takes_no_time_is_refused() -> None:
    """A job with a run time of 0 is an error."""
    schedule = schedule_of(simulate(nodes_of(1, DEAR), jobs_of((0.0, 5.0, 1))))
    with pytest.raises(OracleError, match="a run time of 0"):
        cheapest_switching(replace(schedule, job_end_s=schedule.job_start_s), IDLE_W, DEAR)


def test_scipy_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SciPy the error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(OracleError, match=r"pip install 'hpcosim\[oracle\]'"):
        plan_scenario(scenario(tmp_path))


NASA = """
name: nasa-last-fifth
platform:
  nodes:
    - count: 128
      processors: [{cores: 1, static_w: 190, dynamic_w: 0}]
      power_states:
        {sleep_w: 9, switch_on_s: 2700, switch_on_w: 190, switch_off_s: 1800, switch_off_w: 9}
workload: {trace: nasa-ipsc, jobs: [14452, 18066]}
scheduler: {name: easy}
"""


@pytest.mark.slow
@pytest.mark.trace
def test_the_last_fifth_of_nasa(
    tmp_path: Path, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that start at their submission waste at least 7.6 GJ, of 29.6 GJ always on."""
    monkeypatch.setenv("HPCOSIM_TRACES", str(traces))
    file = tmp_path / "nasa.yaml"
    file.write_text(NASA)
    plan = plan_scenario(file, tmp_path / "plan.json")
    library = Library([file])
    opened = open_scenario(library.first, library.first_jobs, "oracle")
    metrics = run_in_process(
        opened, managed(on_first, oracle(read_plan(tmp_path / "plan.json").switches))
    )
    assert metrics["jobs"] == 3614
    assert metrics["max_wait_s"] == 0.0
    assert metrics["wasted_energy_j"] == pytest.approx(plan.wasted_j, rel=1e-9)
    assert plan.wasted_j == 7_610_902_929
