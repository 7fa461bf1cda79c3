"""The scheduler power-capped: the simulated power stays within the cap."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcosim_client import Policy, PolicyError, play
from hpcosim_client.nodes import NodePool
from hpcosim_protocol import (
    Decision,
    EventKind,
    NodeGroup,
    Placement,
    Platform,
    PowerStates,
    Processor,
)
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.heuristics.power_profile import PowerBounds
from hpcosim_schedulers.power.manager import managed
from hpcosim_schedulers.power.settings import AlwaysOn, KeepIdle, Power, Timeout
from hpcosim_schedulers.power.timeout import timeout
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.engine.simulation import Batch, Simulation
from hpcosim_sim.physics.power import GroupMeter
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.run_record import node_spans
from hpcosim_workloads.series import Series, constant
from hpcosim_workloads.table import PLACEMENTS, JobTable, job_table
from support.power_capped_oracle import power_capped as power_capped_oracle
from support.simulating import cluster_of, jobs_of, simulate, starts

CAP = "power_cap_w"


def series_of(*changes: tuple[float, float]) -> Series:
    """Return a series of (time in s, value)."""
    times_s, values = np.array(changes, dtype=np.float64).T
    return Series(times_s, values)


def capped(
    platform: Platform,
    jobs: JobTable,
    cap: Series,
    *,
    forecast_s: float = 1e9,
    policy: Policy | None = None,
) -> Simulation:
    """Return the simulation of jobs below a cap."""
    simulation = Simulation(platform, jobs, signals=[Signal(CAP, cap, forecast_s)])
    play(
        policy or make_policy("power-capped"),
        platform,
        lambda d, w, e: simulation.advance(d, wake_on=w, elapsed_s=e),
    )
    return simulation


def power_steps(simulation: Simulation) -> list[tuple[float, float, float]]:
    """Return begin, end and power (W) of all nodes of every period of constant power."""
    spans = list(node_spans(simulation.record()))
    times_s = sorted({at_s for span in spans for at_s in (span.start_s, span.end_s)})
    return [
        (
            start_s,
            end_s,
            sum(
                span.power_w * len(span.nodes)
                for span in spans
                if span.start_s <= start_s and end_s <= span.end_s
            ),
        )
        for start_s, end_s in pairwise(times_s)
    ]


def excess_w(simulation: Simulation, cap: Series) -> float:
    """Return the greatest power above the cap at any time of a run; below 0: never above."""
    return max(
        (
            power_w - min([cap.at(start_s), *(value for _, value in cap.changes(start_s, end_s))])
            for start_s, end_s, power_w in power_steps(simulation)
        ),
        default=-1.0,
    )


class Scene(NamedTuple):
    """A run below a cap.

    Attributes:
        platform: the cluster.
        jobs: the workload; no job overruns its requested time.
        cap: the cap, W, at least the power of the cluster without jobs in any state.
        timeout_s: idle time after which nodes are switched off, s.
    """

    platform: Platform
    jobs: JobTable
    cap: Series
    timeout_s: float


processors = st.builds(
    Processor,
    cores=st.integers(1, 4),
    static_w=st.integers(0, 100).map(float),
    dynamic_w=st.integers(0, 30).map(float),
    idle_fraction=st.sampled_from([0.0, 0.3, 1.0]),
)
power_states = st.builds(
    PowerStates,
    sleep_w=st.integers(0, 9).map(float),
    switch_on_s=st.integers(0, 30).map(float),
    switch_on_w=st.integers(0, 200).map(float),
    switch_off_s=st.integers(0, 30).map(float),
    switch_off_w=st.integers(0, 200).map(float),
)
groups = st.builds(
    NodeGroup,
    count=st.integers(1, 3),
    processors=st.lists(processors, min_size=1, max_size=2).map(tuple),
    power_states=st.none() | power_states,
)


def resting_w(platform: Platform) -> float:
    """Return the greatest power of a cluster without jobs whose nodes are switched off."""
    total_w = 0.0
    for group in platform.nodes:
        states = group.power_states
        total_w += group.count * max(group.idle_w, states.switch_off_w if states else 0.0)
    return total_w


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Return a scene."""
    platform = Platform(tuple(draw(st.lists(groups, min_size=1, max_size=2))))
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 30),
                st.integers(1, 60),
                st.integers(0, 30),
                st.integers(1, platform.core_count),
            ),
            min_size=1,
            max_size=12,
        )
    )
    after_s, run_s, more_s, cores = np.array(rows, dtype=np.float64).T
    jobs = job_table(
        job_id=range(1, len(rows) + 1),
        submit_s=np.cumsum(after_s),
        run_s=run_s,
        requested_s=run_s + more_s,
        cores=cores,
        placement=PLACEMENTS.index(draw(st.sampled_from(PLACEMENTS))),
    )
    above_w = st.integers(0, 400).map(float)
    changes = [(0.0, resting_w(platform) + draw(above_w))]
    for later_s in draw(st.lists(st.integers(1, 100), max_size=4)):
        changes.append((changes[-1][0] + later_s, resting_w(platform) + draw(above_w)))
    return Scene(platform, jobs, series_of(*changes), float(draw(st.integers(0, 40))))


@pytest.mark.slow
@given(scene=scenes(), switches=st.booleans())
def test_the_power_never_exceeds_the_cap(scene: Scene, switches: bool) -> None:
    """At no time of any run, whether nodes are switched off and booted for jobs or not."""
    power = Timeout(scene.timeout_s) if switches else AlwaysOn()
    policy = with_power("power-capped", power)
    simulation = capped(scene.platform, scene.jobs, scene.cap, policy=policy)
    assert excess_w(simulation, scene.cap) <= 1e-6
    assert simulation.recording.over == len(scene.jobs)
    peak_w = max((power_w for _, _, power_w in power_steps(simulation)), default=0.0)
    assert measure(simulation.record())["peak_power_w"] == pytest.approx(peak_w)


@pytest.mark.slow
@given(scene=scenes())
def test_jobs_that_overrun_their_requests_end(scene: Scene) -> None:
    """The simulation ends with every job over, whatever the cap."""
    jobs = dataclasses.replace(scene.jobs, run_s=3.0 * scene.jobs.run_s)
    assert capped(scene.platform, jobs, scene.cap).recording.over == len(jobs)


def decisions_below(
    policy: Policy, platform: Platform, jobs: JobTable, cap: Series, forecast_s: float
) -> list[object]:
    """Return all decisions of a run, with the kinds of events that wake the policy."""
    simulation = Simulation(platform, jobs, signals=[Signal(CAP, cap, forecast_s)])
    heard: list[object] = []

    def ask(
        decisions: Sequence[Decision], wake_on: Collection[EventKind] | None, elapsed_s: float
    ) -> Batch:
        heard.append((simulation.now_s, list(decisions), wake_on))
        return simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)

    play(policy, platform, ask)
    return heard


@pytest.mark.slow
@settings(deadline=None)
@given(
    scene=scenes(),
    kind=st.sampled_from(["always on", "switched", "constant cap"]),
    forecast_s=st.sampled_from([0.0, 20.0, 1e9]),
    overrun=st.sampled_from([1.0, 1.0, 2.0]),
    request=st.sampled_from([1.0, 1.0, 0.0]),
)
def test_every_decision_is_that_of_the_slow_reference(
    scene: Scene, kind: str, forecast_s: float, overrun: float, request: float
) -> None:
    """Whatever the cap, the power states, and the errors of the requested times."""
    platform, cap, jobs = scene.platform, scene.cap, scene.jobs
    if kind != "switched":
        groups = tuple(replace(group, power_states=None) for group in platform.nodes)
        platform = Platform(groups)
    if kind == "constant cap":
        cap = constant(float(cap.values[0]))
    least_s = np.where(np.arange(len(jobs)) % 3 == 0, request, 1.0)
    jobs = dataclasses.replace(
        jobs, run_s=overrun * jobs.run_s, requested_s=least_s * jobs.requested_s
    )
    fast, slow = make_policy("power-capped"), power_capped_oracle()
    if kind == "switched":
        fast, slow = (managed(policy, timeout(scene.timeout_s)) for policy in (fast, slow))
    decided = decisions_below(fast, platform, jobs, cap, forecast_s)
    assert decided == decisions_below(slow, platform, jobs, cap, forecast_s)


@given(
    group=groups,
    starts_and_ends=st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=20),
)
def test_the_bound_of_a_node_holds_for_any_distribution_of_tasks(
    group: NodeGroup, starts_and_ends: list[tuple[bool, int]]
) -> None:
    """Whichever processors have the tasks; with one processor the bound is the power."""
    platform = Platform((group,))
    bounds, meter = PowerBounds(platform, NodePool(platform)), GroupMeter(group, 0.0)
    tasks = [0] * len(group.processors)
    for more, place in starts_and_ends:
        slot = place % len(tasks)
        tasks[slot] += 1 if more else -1
        tasks[slot] = min(max(tasks[slot], 0), group.processors[slot].cores)
        [bound_w] = bounds.computing_w(np.array([0]), np.array([sum(tasks)]))
        power_w = meter.node_power_w("on", tuple(tasks))
        assert bound_w >= power_w - 1e-9
        if len(tasks) == 1:
            assert bound_w == pytest.approx(power_w)


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 8), st.integers(0, 20)),
        min_size=1,
        max_size=15,
    ).map(sorted),
    placement=st.sampled_from(["cores", "whole_nodes"]),
)
def test_below_a_cap_that_never_binds_the_schedule_is_that_of_easy(
    jobs: list[tuple[int, int, int, int]], placement: Placement
) -> None:
    """Start by start, on equal nodes, for placements whose free cores easy counts as well."""
    table = jobs_of(
        *((float(at), float(run), n, float(run + more)) for at, run, n, more in jobs),
        placement=placement,
    )
    simulation = capped(cluster_of(2, 4), table, constant(1e6))
    easy = simulate(cluster_of(2, 4), table, "easy")
    assert starts(simulation) == pytest.approx(starts(easy), nan_ok=True)


# Nodes of one core draw 50 W idle and 110 W computing.


def test_jobs_wait_for_power() -> None:
    """Two of three nodes may compute at the same time."""
    jobs = jobs_of((0.0, 10.0, 1), (0.0, 20.0, 1), (0.0, 10.0, 1))
    assert starts(capped(cluster_of(3), jobs, constant(270.0))) == {1: 0.0, 2: 0.0, 3: 10.0}


def test_a_job_does_not_run_into_a_lower_cap() -> None:
    """It starts when its requested time fits before the low, or after it."""
    cap = series_of((0.0, 330.0), (50.0, 210.0), (100.0, 330.0))
    jobs = jobs_of((0.0, 10.0, 2, 60.0), (0.0, 10.0, 2, 40.0))
    assert starts(capped(cluster_of(3), jobs, cap)) == {1: 100.0, 2: 0.0}


def test_without_a_forecast_running_jobs_exceed_a_lower_cap() -> None:
    """They are not killed, and no job starts until the power is below the cap."""
    cap = series_of((0.0, 330.0), (50.0, 210.0))
    jobs = jobs_of((0.0, 100.0, 2), (60.0, 10.0, 1))
    simulation = capped(cluster_of(3), jobs, cap, forecast_s=0.0)
    assert starts(simulation) == {1: 0.0, 2: 100.0}
    assert excess_w(simulation, cap) == pytest.approx(60.0)


def test_a_job_that_overruns_its_request_is_waited_for() -> None:
    """Its power counts until its end, also where the next job is expected on its cores."""
    jobs = jobs_of((0.0, 100.0, 2, 10.0), (0.0, 10.0, 2), (1.0, 10.0, 1))
    assert starts(capped(cluster_of(2), jobs, constant(220.0))) == {1: 0.0, 2: 100.0, 3: 110.0}


def test_backfilling_does_not_take_the_power_of_the_head() -> None:
    """Job 2 waits for the power of all nodes; job 3 would delay it, job 4 ends before."""
    jobs = jobs_of((0.0, 50.0, 2), (1.0, 50.0, 3), (2.0, 100.0, 1), (3.0, 40.0, 1))
    simulation = capped(cluster_of(4), jobs, constant(200.0 + 3 * 60.0))
    assert starts(simulation) == {1: 0.0, 2: 50.0, 3: 100.0, 4: 3.0}


def asleep(*jobs: tuple[float, float, int], cap: Series) -> Simulation:
    """Return a run on two nodes that sleep from 1 s on: 5 W asleep, 300 W for 10 s of booting."""
    states = PowerStates(5.0, 10.0, 300.0, 1.0, 20.0)
    (group,) = cluster_of(2).nodes
    platform = Platform((replace(group, power_states=states),))
    policy = with_power("power-capped", Timeout(0.0))
    return capped(platform, jobs_of((0.0, 0.0, 1), *jobs), cap, policy=policy)


def test_nodes_boot_within_the_cap() -> None:
    """The job is allocated sleeping nodes when the cap admits the power of their boots."""
    simulation = asleep((50.0, 20.0, 1), cap=series_of((0.0, 200.0), (100.0, 400.0)))
    assert starts(simulation)[2] == 110.0


def test_a_woken_node_counts_after_its_job() -> None:
    """The low from 100 s on admits one idle node, so two nodes are not woken before it."""
    cap = series_of((0.0, 1000.0), (100.0, 60.0), (200.0, 1000.0))
    assert starts(asleep((50.0, 5.0, 2), cap=cap))[2] == 210.0
    assert starts(asleep((50.0, 5.0, 1), cap=cap))[2] == 60.0


def test_a_job_above_every_known_cap_is_rejected() -> None:
    """The jobs behind it run."""
    cap = series_of((0.0, 200.0), (10.0, 270.0))
    simulation = capped(cluster_of(3), jobs_of((0.0, 5.0, 3), (0.0, 5.0, 2), (0.0, 5.0, 1)), cap)
    assert [simulation.recording.state[row] for row in range(3)] == [6, 2, 2]
    assert starts(simulation) == pytest.approx({1: np.nan, 2: 10.0, 3: 15.0}, nan_ok=True)


PROCESSOR = Processor(8, static_w=143.0, dynamic_w=4.875, idle_fraction=0.5)


def resting(job_count: int, cap_w: float, power: Power) -> Simulation:
    """Return a run of jobs on nodes of 71.5 W idle, 182 W computing and 90 W switching off."""
    states = PowerStates(5.0, 60.0, 120.0, 60.0, 90.0)
    group = NodeGroup(24, (PROCESSOR,), power_states=states)
    jobs = jobs_of(*((0.0, 600.0, 8) for _ in range(job_count)))
    policy = with_power("power-capped", power)
    return capped(Platform((group,)), jobs, constant(cap_w), policy=policy)


# With one job: 23 x 71.5 W + 182 W = 1,826.5 W; 24 x 90 W = 2,160 W are switched off together.


@pytest.mark.parametrize("cap_w", [1826.5, 2000.0])
def test_nodes_that_are_always_on_count_with_their_idle_power(cap_w: float) -> None:
    """The power of switching off has no effect without a power manager."""
    simulation = resting(1, cap_w, AlwaysOn())
    assert starts(simulation) == {1: 0.0}
    assert excess_w(simulation, constant(cap_w)) <= 1e-6


def test_a_job_waits_until_nodes_are_switched_off() -> None:
    """All sleep from 960 s on; the job behind it does not overtake."""
    assert starts(resting(2, 2000.0, Timeout(900.0))) == {1: 1020.0, 2: 1020.0}


def test_a_job_above_the_cap_beside_sleeping_nodes_is_rejected_at_once() -> None:
    """It would draw 23 x 5 W + 182 W."""
    simulation = resting(1, 296.0, Timeout(900.0))
    assert [simulation.recording.state[0], simulation.recording.end_s[0]] == [6, 0.0]


def test_a_job_above_the_cap_while_its_node_boots_is_rejected_when_all_sleep() -> None:
    """It would fit with its node on, 10 W + 182 W, but a boot at 1,000 W is needed."""
    states = PowerStates(5.0, 60.0, 1000.0, 60.0, 90.0)
    group = NodeGroup(3, (PROCESSOR,), power_states=states)
    policy = with_power("power-capped", Timeout(900.0))
    jobs = jobs_of((0.0, 600.0, 8))
    simulation = capped(Platform((group,)), jobs, constant(300.0), policy=policy)
    assert [simulation.recording.state[0], simulation.recording.end_s[0]] == [6, 960.0]


def test_a_wait_for_nodes_that_stay_on_ends_after_a_day() -> None:
    """The power manager keeps all nodes on, so the job is rejected."""
    simulation = resting(1, 2000.0, KeepIdle(24))
    assert [simulation.recording.state[0], simulation.recording.end_s[0]] == [6, 86_400.0]


@pytest.mark.slow
@given(scene=scenes(), share=st.floats(0.05, 1.0), keep=st.none() | st.integers(0, 3))
def test_jobs_below_a_cap_that_is_too_low_end(scene: Scene, share: float, keep: int | None) -> None:
    """Every job starts or is rejected, whether nodes are switched off or kept on."""
    cap = Series(scene.cap.times_s, scene.cap.values * share)
    power = Timeout(scene.timeout_s) if keep is None else KeepIdle(keep, scene.timeout_s)
    policy = with_power("power-capped", power)
    simulation = capped(scene.platform, scene.jobs, cap, policy=policy)
    assert simulation.recording.over == len(scene.jobs)


def test_cheaper_nodes_go_first() -> None:
    """A job goes to the nodes that add the least power."""
    (costly,), (cheap,) = cluster_of(1, dynamic_w=50.0).nodes, cluster_of(1, dynamic_w=5.0).nodes
    simulation = capped(Platform((costly, cheap)), jobs_of((0.0, 5.0, 1)), constant(1000.0))
    assert simulation.recording.nodes_of(0) == [1]


def test_the_cap_must_be_a_signal_of_the_simulation() -> None:
    """Without it there is an error that says what to add."""
    with pytest.raises(PolicyError, match=r"has no signals; add signals\.power_cap_w"):
        simulate(cluster_of(1), jobs_of((0.0, 5.0, 1)), "power-capped")


def test_awareness_is_not_supported() -> None:
    """The scheduler has an order of nodes of its own."""
    with pytest.raises(PolicyError, match="aware is not supported by power-capped"):
        make_policy("power-capped", "aware")
