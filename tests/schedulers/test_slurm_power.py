"""Slurm's power saving, each rule to the letter; in most tests nodes take 4 s off and 10 s on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcosim_client import Policy, PolicyError, View
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor, SetNodePower
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.settings import Slurm, kept_on
from hpcosim_schedulers.power.slurm import Scans, slurm
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_workloads.synthetic.lublin import poisson
from hpcosim_workloads.table import JobTable
from support.power_manager_runs import STATES, nodes_of, switched, switched_off
from support.simulating import jobs_of, simulate, starts

EACH_SECOND = {"power_save_interval_s": 0, "suspend_rate_per_min": 0, "resume_rate_per_min": 0}


def rules_of(suspend_time_s: float = 15.0, **settings: Any) -> Slurm:
    """Return settings with scans every second and no limits, except for those given."""
    return Slurm(suspend_time_s, **(EACH_SECOND | settings))


def saved(count: int, jobs: JobTable, rules: Slurm, states: PowerStates = STATES) -> Simulation:
    """Run jobs first come, first served on nodes of one core that Slurm switches."""
    return simulate(nodes_of(count, states), jobs, slurm(make_policy("fcfs"), rules))


def switched_on(simulation: Simulation) -> list[tuple[float, int]]:
    """Return when which node began to boot."""
    return [(at_s, node) for at_s, node, state in switched(simulation) if state == "switching_on"]


def test_a_node_is_switched_off_by_the_first_scan_that_finds_it_idle_for_longer() -> None:
    """Scans are 11 s apart, and just after a change: at 0, 1, 12, 20, 21, 32, 43, 44, 55, 56."""
    simulation = saved(1, jobs_of((0.0, 20.0, 1), (60.0, 5.0, 1)), Slurm(15.0))
    assert switched(simulation) == [
        (43.0, 0, "switching_off"),
        (47.0, 0, "sleeping"),
        (60.0, 0, "switching_on"),
        (70.0, 0, "on"),
    ]
    assert starts(simulation) == {1: 0.0, 2: 70.0}


def test_idle_for_just_the_suspend_time_is_not_enough() -> None:
    """With a scan each second a node free since 20 is switched off at 36, not at 35."""
    simulation = saved(1, jobs_of((0.0, 20.0, 1), (60.0, 5.0, 1)), rules_of(15.0))
    assert switched_off(simulation) == [(36.0, 0)]


def test_the_clock_has_whole_seconds() -> None:
    """A node freed at 20.7 was busy in second 20; one given at 43.5 begins to boot at 44."""
    simulation = saved(1, jobs_of((0.0, 20.7, 1), (43.5, 5.0, 1)), rules_of(15.0))
    assert switched_off(simulation) == [(36.0, 0)]
    assert switched_on(simulation) == [(44.0, 0)]
    assert starts(simulation)[2] == 54.0


def test_the_clock_of_a_node_begins_anew_with_each_job() -> None:
    """Two jobs keep the node busy until 35, though it was idle for 10 s between."""
    jobs = jobs_of((0.0, 20.0, 1), (30.0, 5.0, 1), (90.0, 1.0, 1))
    assert switched_off(saved(1, jobs, rules_of(15.0))) == [(51.0, 0)]


def test_a_node_held_for_a_job_is_not_idle() -> None:
    """Node 0 waits from 31 on for node 1, which takes 40 s to boot, and is not switched off."""
    jobs = jobs_of((0.0, 30.0, 1), (31.0, 5.0, 2))
    slow = msgspec.structs.replace(STATES, switch_on_s=40.0)
    simulation = saved(2, jobs, rules_of(8.0), slow)
    assert starts(simulation)[2] == 71.0
    assert switched_off(simulation) == [(9.0, 1)]


def test_a_node_asleep_is_given_to_no_job_before_a_scan_says_so() -> None:
    """Told off at 43 and asleep at 47, it is freed by the scan of 55, as that of 44 is too soon."""
    simulation = saved(1, jobs_of((0.0, 20.0, 1), (50.0, 5.0, 1)), Slurm(15.0))
    assert switched_on(simulation) == [(56.0, 0)]
    assert starts(simulation)[2] == 66.0


def test_a_longer_suspend_timeout_withholds_a_node_longer() -> None:
    """Told off at 36 with 20 s, it is powered down when 20 s are over: at 57, had from 58 on."""
    jobs = jobs_of((0.0, 20.0, 1), (50.0, 5.0, 1))
    simulation = saved(1, jobs, rules_of(15.0, suspend_timeout_s=20.0))
    assert switched_on(simulation) == [(58.0, 0)]


@pytest.mark.parametrize(
    ("timeout_s", "expected"),
    [(None, {1: 0.0, 2: 32.0, 3: 82.0}), (30.0, {1: 0.0, 2: 58.0, 3: 20.0})],
)
def test_backfilling_knows_when_a_node_is_back(
    timeout_s: float | None, expected: dict[int, float]
) -> None:
    """Job 3, of 25 s, starts at 20 if node 1, switched off at 16, returns at 47, not at 21."""
    jobs = jobs_of((0.0, 20.0, 1), (17.0, 50.0, 2), (18.0, 25.0, 1))
    rules = rules_of(15.0, suspend_timeout_s=timeout_s)
    simulation = simulate(nodes_of(2), jobs, slurm(make_policy("easy"), rules))
    assert starts(simulation) == expected


def test_a_node_slow_to_switch_off_is_waited_for() -> None:
    """Its random time may exceed the timeout; it is not allocated before it sleeps."""
    states = PowerStates(5, 10, 80, 4, 20, switch_off_sd_s=30.0)
    simulation = Simulation(nodes_of(8, states), jobs_of((0.0, 5.0, 8), (22.0, 5.0, 8)))
    refused = played(simulation, slurm(make_policy("fcfs"), rules_of(10.0)))
    asleep_s = max(at_s for at_s, _, state in switched(simulation) if state == "sleeping")
    assert asleep_s > 22.0
    assert switched_on(simulation)[0][0] > asleep_s
    assert not refused


def played(simulation: Simulation, policy: Policy) -> list[Any]:
    """Let a policy decide to the end, and return the decisions that were rejected."""
    view, refused = View(simulation.cluster.platform), []
    batch = simulation.advance()
    while not batch.ended:
        view.apply(batch.now_s, batch.events)
        refused += view.rejected
        policy(view)
        batch = simulation.advance(view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s)
    return refused


def test_the_suspend_bucket_is_full_at_first_and_gets_a_token_each_period() -> None:
    """60 a minute and 10 s: ten nodes at once, by number, then one a second."""
    jobs = jobs_of((0.0, 100.0, 1))
    off = switched_off(saved(13, jobs, Slurm(15.0)))
    assert off == [*((23.0, node) for node in range(1, 11)), (24.0, 11), (25.0, 12)]


def test_tokens_come_at_multiples_of_their_period() -> None:
    """6 a minute: one at 20, 30, 40 s; of scans at 23, 24, 35, 36, 47 each third finds one."""
    off = switched_off(saved(4, jobs_of((0.0, 100.0, 1)), Slurm(15.0, suspend_rate_per_min=6)))
    assert off == [(23.0, 1), (35.0, 2), (47.0, 3)]


def test_a_rate_of_0_is_no_limit() -> None:
    """All nodes are switched off by one scan, and booted by one."""
    jobs = jobs_of((0.0, 1.0, 1), (60.0, 5.0, 100))
    simulation = saved(100, jobs, rules_of(15.0))
    assert switched_off(simulation) == [*((16.0, node) for node in range(1, 100)), (17.0, 0)]
    assert switched_on(simulation) == [(60.0, node) for node in range(100)]


def test_the_resume_bucket_limits_how_many_nodes_boot() -> None:
    """With a token each 10 s the nodes of a job boot one by one; it starts with the last."""
    jobs = jobs_of((0.0, 10.0, 1), (40.0, 5.0, 3))
    simulation = saved(3, jobs, rules_of(15.0, resume_rate_per_min=6))
    assert switched_on(simulation) == [(40.0, 0), (50.0, 1), (60.0, 2)]
    assert starts(simulation)[2] == 70.0
    # Node 0: 10 s job, 16 s idle, 4 s off, 10 s asleep, 10 s boot, 20 s held idle, 5 s job.
    node_0 = 10 * 100 + 16 * 100 + 4 * 20 + 10 * 5 + 10 * 80 + 20 * 100 + 5 * 100
    node_1 = 16 * 100 + 4 * 20 + 30 * 5 + 10 * 80 + 10 * 100 + 5 * 100
    node_2 = 16 * 100 + 4 * 20 + 40 * 5 + 10 * 80 + 5 * 100
    assert sum(meter.energy_j for meter in simulation.cluster.meters) == node_0 + node_1 + node_2


def test_tokens_go_to_jobs_in_the_order_they_were_given_nodes() -> None:
    """The narrow job waits until the wide one before it has its tokens."""
    jobs = jobs_of((0.0, 10.0, 1), (40.0, 5.0, 2), (41.0, 5.0, 1))
    simulation = saved(3, jobs, rules_of(15.0, resume_rate_per_min=6))
    assert switched_on(simulation) == [(40.0, 0), (50.0, 1), (60.0, 2)]
    assert starts(simulation) == {1: 0.0, 2: 60.0, 3: 70.0}


def test_jobs_on_nodes_that_are_on_need_no_token() -> None:
    """Job 3 finds node 2 on, and starts while job 2, before it, waits for its second token."""
    jobs = jobs_of((0.0, 44.0, 3), (70.0, 5.0, 2), (71.0, 5.0, 1))
    rules = rules_of(15.0, resume_rate_per_min=1, suspend_exc_nodes="2")
    simulation = saved(3, jobs, rules)
    assert switched_on(simulation) == [(70.0, 0), (120.0, 1)]
    assert starts(simulation) == {1: 0.0, 2: 130.0, 3: 71.0}


def test_one_scan_a_second() -> None:
    """A job given nodes in a second that was scanned already has them booted in the next."""

    def one_at_a_time(view: View) -> None:
        for job in list(view.queue.values())[:1]:
            view.start(job)

    jobs = jobs_of((0.0, 1.0, 1), (40.0, 5.0, 1), (40.0, 5.0, 1))
    simulation = simulate(nodes_of(2), jobs, slurm(one_at_a_time, rules_of(15.0)))
    assert switched_on(simulation) == [(40.0, 0), (41.0, 1)]


def test_a_job_that_waits_for_tokens_and_is_rejected_is_forgotten() -> None:
    """No node boots for it any more, and its nodes are given to others."""
    fcfs = make_policy("fcfs")

    def rejecting(view: View) -> None:
        held = view.running.get(2)
        if held is not None and view.now_s == 45.0:
            view.reject(held)
        fcfs(view)

    jobs = jobs_of((0.0, 10.0, 1), (40.0, 5.0, 2), (45.0, 5.0, 2))
    policy = slurm(rejecting, rules_of(15.0, resume_rate_per_min=6))
    simulation = simulate(nodes_of(2), jobs, policy)
    assert switched_on(simulation) == [(40.0, 0), (50.0, 1)]
    assert starts(simulation)[3] == 60.0


def test_a_job_scheduler_that_switches_nodes_is_refused() -> None:
    """Slurm alone says which nodes are on."""
    switching = slurm(lambda view: view.set_node_power(0, on=False), rules_of(15.0))
    with pytest.raises(PolicyError, match="slurm does not permit a job scheduler that switches"):
        simulate(nodes_of(2), jobs_of((0.0, 50.0, 1)), switching)


def test_the_least_time_between_scans_holds_after_changes_too() -> None:
    """With 30 s scans are at 0, 31 and 62: node 1 is switched off at 31, node 0 at 62."""
    jobs = jobs_of((0.0, 20.0, 1), (90.0, 1.0, 1))
    simulation = saved(2, jobs, rules_of(15.0, power_save_min_interval_s=30))
    assert switched_off(simulation) == [(31.0, 1), (62.0, 0)]


def test_excluded_nodes_stay_on() -> None:
    """Of six nodes, 0 is busy, 1 and 2 are excluded, and one of 3 to 5."""
    rules = rules_of(15.0, suspend_exc_nodes="1-2, 3-5:1")
    assert switched_off(saved(6, jobs_of((0.0, 50.0, 1)), rules)) == [(16.0, 4), (16.0, 5)]


@pytest.mark.parametrize("sets", ["n[2-3],n[4-6]:1", "1-2,n[4,5-6]:1"])
def test_excluded_nodes_have_names(sets: str) -> None:
    """Host lists name them, as SuspendExcNodes of slurm.conf does, also beside node numbers."""
    group = msgspec.structs.replace(nodes_of(6).nodes[0], names="n[1-6]")
    kept = kept_on(sets, "suspend_exc_nodes", Platform((group,)))
    assert [(nodes.tolist(), count) for nodes, count in kept] == [([1, 2], 2), ([3, 4, 5], 1)]


def test_a_count_is_of_nodes_that_are_idle_just_then() -> None:
    """Busy nodes do not count: node 2 stays on until node 0 is free."""
    jobs = jobs_of((0.0, 50.0, 1), (10.0, 50.0, 1))
    simulation = saved(3, jobs, rules_of(15.0, suspend_exc_nodes="0-2:1"))
    assert switched_off(simulation) == [(50.0, 2)]


def test_a_count_wakes_no_node() -> None:
    """When the node that was kept has a job, none is switched on in its place."""
    jobs = jobs_of((0.0, 90.0, 1), (40.0, 50.0, 1))
    simulation = saved(3, jobs, rules_of(15.0, suspend_exc_nodes="0-2:1"))
    assert (switched_off(simulation), switched_on(simulation)) == ([(16.0, 2)], [])


def test_a_count_beyond_the_set_keeps_all_of_it() -> None:
    """Five of three nodes are three."""
    rules = rules_of(15.0, suspend_exc_nodes="0-2:5")
    assert switched_off(saved(4, jobs_of((0.0, 50.0, 1)), rules)) == [(16.0, 3)]


@pytest.mark.parametrize(("states", "off"), [("", [1, 2]), ("PLANNED", [2])])
def test_planned_nodes_stay_on_if_that_is_asked(states: str, off: list[int]) -> None:
    """By default Slurm switches off a node that a job to come is to have."""
    fcfs = make_policy("fcfs")

    def planning(view: View) -> None:
        view.power_exchange.planned[1] = True
        fcfs(view)

    rules = rules_of(15.0, suspend_exc_states=states)
    simulation = simulate(nodes_of(3), jobs_of((0.0, 50.0, 1)), slurm(planning, rules))
    assert [node for _, node in switched_off(simulation)] == off


def test_nodes_without_power_states_are_left_alone() -> None:
    """Nodes that are always on are never switched."""
    policy = slurm(make_policy("fcfs"), rules_of(15.0))
    assert switched(simulate(nodes_of(2, None), jobs_of((0.0, 50.0, 1)), policy)) == []


def test_a_scan_in_thinking_time_is_made_after_it() -> None:
    """Scans are delayed, not lost, while the scheduler needs 7 s."""
    fcfs = make_policy("fcfs")

    def slow(view: View) -> None:
        fcfs(view)
        view.elapsed_s = 7.0

    simulation = Simulation(nodes_of(3), jobs_of((0.0, 60.0, 1), (50.0, 60.0, 3)))
    assert played(simulation, slurm(slow, rules_of(15.0))) == []
    assert [node for _, node in switched_off(simulation)][:2] == [1, 2]
    assert simulation.recording.over == 2


def test_a_run_ends_with_its_last_job() -> None:
    """No alarm of power saving holds the end up, even where a scheduler may submit jobs."""
    policy, rules = slurm(make_policy("fcfs"), rules_of(900.0)), Rules(dynamic_jobs=True)
    assert simulate(nodes_of(2), jobs_of((0.0, 20.0, 1)), policy, rules).now_s == 20.0


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            {"suspend_timeout_s": 3.0},
            r"at least 4\.0, the switch_off_s .*, got 3\.0",
        ),
        (
            {"resume_timeout_s": 9.0},
            r"at least 10\.0, the switch_on_s .*, got 9\.0",
        ),
        (
            {"suspend_exc_nodes": "0,2-7:1"},
            "expected node numbers from 0 to 4, got 7",
        ),
    ],
)
def test_settings_that_do_not_fit_the_platform(settings: dict[str, Any], error: str) -> None:
    """They are refused before anything is decided, and both numbers are named."""
    with pytest.raises(PolicyError, match=error):
        saved(5, jobs_of((0.0, 50.0, 1)), rules_of(15.0, **settings))


def test_timeouts_just_as_long_as_the_platform_s_do() -> None:
    """A timeout is at least the time that switching takes."""
    rules = rules_of(15.0, suspend_timeout_s=4.0, resume_timeout_s=10.0)
    assert switched_off(saved(2, jobs_of((0.0, 50.0, 1)), rules)) == [(16.0, 1)]


def test_nodes_that_no_allocation_wakes() -> None:
    """Where nothing would ever boot a node, nothing is switched off."""
    view = View(nodes_of(2), wake_on_allocation=False)
    with pytest.raises(PolicyError, match="wake_on_allocation: true"):
        slurm(make_policy("fcfs"), rules_of(15.0))(view)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{}", "missing required field `suspend_time_s`"),
        ('{"suspend_time_s": -1}', "suspend_time_s"),
        ('{"suspend_time_s": 1, "suspend_rate_per_min": -1}', "suspend_rate_per_min"),
        ('{"suspend_time_s": 1, "suspend_exc_nodes": 1204}', "Expected `str`, got `int`"),
        (
            '{"suspend_time_s": 1, "suspend_exc_nodes": "0-9:4;20"}',
            "got '0-9:4;20'",
        ),
        (
            '{"suspend_time_s": 1, "suspend_exc_nodes": "1,,2"}',
            "expected sets .*, got ''",
        ),
        ('{"suspend_time_s": 1, "suspend_exc_nodes": "9-0"}', "the set '9-0' is empty"),
        ('{"suspend_time_s": 1, "suspend_exc_nodes": "hm[1-"}', "suspend_exc_nodes: .*hm"),
        ('{"suspend_time_s": 1, "suspend_exc_nodes": "0-9:0"}', "the set '0-9:0' is empty"),
        ('{"suspend_time_s": 1, "suspend_exc_states": "DOWN"}', "suspend_exc_states"),
        ('{"suspend_time_s": 1, "suspend_rate": 1}', "unknown field `suspend_rate`"),
    ],
)
def test_bad_settings(text: str, error: str) -> None:
    """Invalid settings are rejected when they are read."""
    with pytest.raises(msgspec.ValidationError, match=error):
        msgspec.json.decode(text, type=Slurm)


SETS = st.sampled_from(["", "0", "0-3:2", "0-1:1,2-3:1", "1,2-5:3"])
RULES = st.builds(
    Slurm,
    suspend_time_s=st.sampled_from([0.0, 2.5, 20.0]),
    suspend_timeout_s=st.sampled_from([None, 4.0, 33.3]),
    suspend_rate_per_min=st.sampled_from([0, 1, 7, 60]),
    resume_rate_per_min=st.sampled_from([0, 2, 13, 300]),
    suspend_exc_nodes=SETS,
    power_save_interval_s=st.sampled_from([0, 3, 10]),
    power_save_min_interval_s=st.sampled_from([0, 5, 30]),
)
VARYING = PowerStates(5, 10, 80, 4, 20, switch_on_sd_s=3.0, switch_off_sd_s=3.0)


def some_jobs(seed: int, whole: bool) -> JobTable:
    """Draw jobs for six nodes, at whole seconds or not."""
    rng = np.random.default_rng(seed)
    how: dict[str, Any] = {"cores": (1, 4), "run_s": (5, 80), "overestimate": 2.0}
    table = poisson(rng, jobs=20, mean_interarrival_s=25.0, **how)
    if not whole:
        return table
    return replace(
        table,
        submit_s=np.floor(table.submit_s),
        run_s=np.ceil(table.run_s),
        requested_s=2 * table.run_s,
    )


@given(
    seed=st.integers(0, 2**32),
    scheduler=st.sampled_from(["fcfs", "sjf", "easy", "conservative", "minmin"]),
    rules=RULES,
    states=st.sampled_from([STATES, VARYING]),
    cores=st.sampled_from([1, 2, 3]),
    aware=st.booleans(),
    thinks_s=st.sampled_from([0.0, 0.0, 2.5]),
)
def test_every_job_is_run_and_nothing_refused(
    seed: int,
    scheduler: str,
    rules: Slurm,
    states: PowerStates,
    cores: int,
    aware: bool,
    thinks_s: float,
) -> None:
    """Whatever the settings, the server does all that is decided."""
    scheduling = make_policy(scheduler, "aware" if aware and scheduler != "minmin" else "unaware")

    def thinking(view: View) -> None:
        scheduling(view)
        # Conservative backfilling may set an alarm for within its thinking time.
        view.elapsed_s = 0.0 if scheduler == "conservative" else thinks_s

    jobs = some_jobs(seed, whole=False)
    if scheduler == "minmin":
        jobs = replace(jobs, cores=np.ones_like(jobs.cores))
    nodes = NodeGroup(6 // cores, (Processor(cores, 1.0, 100.0),), power_states=states)
    simulation = Simulation(Platform((nodes,)), jobs)
    rules = msgspec.structs.replace(rules, suspend_exc_nodes="0-1:1")
    assert played(simulation, slurm(thinking, rules)) == []
    assert simulation.recording.over == 20


@given(seed=st.integers(0, 2**32), rules=RULES)
def test_never_more_than_the_bucket_allows(seed: int, rules: Slurm) -> None:
    """In any window no more nodes are switched than it holds, and than tokens come meanwhile."""
    simulation = saved(6, some_jobs(seed, whole=False), rules)
    for rate, switchings in (
        (rules.suspend_rate_per_min, switched_off(simulation)),
        (rules.resume_rate_per_min, switched_on(simulation)),
    ):
        size = max(1, rate * max(1, rules.power_save_interval_s) // 60)
        times_s = [at_s for at_s, _ in switchings]
        for first, from_s in enumerate(times_s if rate else ()):
            for last, to_s in enumerate(times_s[first:], first):
                period_s = 60_000 // rate / 1000
                came = math.floor(to_s / period_s) - math.floor(from_s / period_s)
                assert last - first + 1 <= size + came


@given(seed=st.integers(0, 2**32), rules=RULES, k=st.integers(1, 3))
def test_a_set_keeps_so_many_idle(seed: int, rules: Slurm, k: int) -> None:
    """When a node of a set is switched off, `k` others of it are on and idle."""
    rules = msgspec.structs.replace(rules, suspend_exc_nodes=f"1-4:{k}")
    policy = slurm(make_policy("fcfs"), rules)

    def watched(view: View) -> None:
        policy(view)
        off = [each.node for each in view.decisions if isinstance(each, SetNodePower)]
        if any(1 <= node <= 4 and not view.nodes.jobs[node] for node in off):
            assert (view.nodes.on & (view.nodes.jobs == 0))[1:5].sum() >= k

    simulate(nodes_of(6), some_jobs(seed, whole=False), watched)


@given(seed=st.integers(0, 2**32), rules=RULES, whole=st.booleans())
def test_waking_each_second_changes_nothing(seed: int, rules: Slurm, whole: bool) -> None:
    """No scan that could do something is passed over: as many wake-ups as seconds bring no more."""
    jobs = some_jobs(seed, whole)
    restless = slurm(make_policy("fcfs"), rules)

    def each_second(view: View) -> None:
        restless(view)
        view.set_alarm(math.floor(view.now_s) + 1.0, 1)

    rested = saved(6, jobs, rules)
    woken = simulate(nodes_of(6), jobs, each_second)
    assert switched(woken) == switched(rested)
    assert starts(woken) == starts(rested)


@given(
    shortest_s=st.integers(0, 5),
    interval_s=st.integers(0, 12),
    changes_s=st.lists(st.floats(0, 100) | st.integers(0, 100).map(float), max_size=12),
)
@example(shortest_s=0, interval_s=10, changes_s=[20.0, 20.5])
def test_scans_are_when_a_thread_that_wakes_each_second_makes_them(
    shortest_s: int, interval_s: int, changes_s: list[float]
) -> None:
    """A literal thread, second by second, and the computed scans agree."""
    begun, changed_s, literal = -shortest_s - 1, 0.0, []
    last = begun
    for second in range(150):
        changed_s = max([0.0, *(each for each in changes_s if each <= second)])
        news = math.floor(changed_s) >= last
        if second > last + shortest_s and (news or second > last + interval_s):
            literal.append(second)
            last = second
    scans, computed = Scans.begun(0.0, shortest_s, interval_s), []
    for change_s in [*sorted(changes_s), 150.0]:
        while scans.first(math.floor(scans.last) + 1) < change_s:
            scans.last = scans.first(scans.last + 1)
            computed.append(scans.last)
        scans.changed_s = change_s
    assert computed == literal
