"""The scheduler's mirror of the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcosim_client import Job, Policy, PolicyAlarm, PolicyError, View
from hpcosim_client.scheduler_state import JobQueue
from hpcosim_client.view import FIRST_ALLOCATED_ALARM
from hpcosim_protocol import Alarm, CancelAlarm, SetAlarm
from hpcosim_schedulers import make_policy, managed
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.synthetic.lublin import poisson
from support.simulating import cluster_of, jobs_of, simulate, starts


@given(seed=st.integers(0, 2**32), name=st.sampled_from(["fcfs", "easy", "conservative", "sjf"]))
def test_view_stays_true_while_the_scheduler_takes_its_time(seed: int, name: str) -> None:
    """With thinking time, in which jobs end, no allocation is rejected and free cores agree."""
    rng = np.random.default_rng(seed)
    platform = cluster_of(4, 4)
    table = poisson(
        rng, jobs=30, mean_interarrival_s=20.0, cores=(1, 16), run_s=(5, 80), overestimate=2.0
    )
    simulation, view, decide = Simulation(platform, table), View(platform), make_policy(name)
    batch = simulation.advance()
    while not batch.ended:
        view.apply(batch.now_s, batch.events)
        assert not any(rejected.decision == "allocate_job" for rejected in view.rejected)
        assert view.nodes.free.tolist() == simulation.cluster.free
        decide(view)
        thought_s = float(rng.integers(0, 30))
        batch = simulation.advance(view.decisions, wake_on=view.wake_on, elapsed_s=thought_s)


def test_nodes_a_job_may_not_use_are_passed_over() -> None:
    """A job of whole nodes does not start on named nodes of which one is busy."""
    platform = cluster_of(2, 2)
    jobs = jobs_of((0.0, 5.0, 1), (1.0, 5.0, 4), placement="whole_nodes")
    simulation, view = Simulation(platform, jobs), View(platform)
    view.apply(*simulation.advance()[:2])
    assert view.start(view.queue[1], [0])
    view.apply(*simulation.advance(view.decisions)[:2])
    assert not view.start(view.queue[2], [0, 1])
    assert view.decisions == []


@pytest.mark.parametrize(
    "jobs",
    [
        lambda queue: queue.values(),
        lambda queue: (job for _, job in queue.items()),
        lambda queue: (queue[job_id] for job_id in queue),
        lambda queue: (queue[job_id] for job_id in queue.keys()),  # noqa: SIM118
    ],
    ids=["values", "items", "iteration", "keys"],
)
def test_jobs_are_started_while_the_queue_is_iterated(
    jobs: Callable[[JobQueue], Iterable[Job]],
) -> None:
    """Every waiting job is reached once, although started jobs leave the queue."""

    def start_all_that_fit(view: View) -> None:
        for job in jobs(view.queue):
            view.start(job)

    submitted = jobs_of((0.0, 9.0, 1), (0.0, 9.0, 3), (0.0, 9.0, 1), (0.0, 5.0, 1), (0.0, 1.0, 2))
    simulation = simulate(cluster_of(1, 3), submitted, start_all_that_fit)
    assert starts(simulation) == {1: 0.0, 2: 9.0, 3: 0.0, 4: 0.0, 5: 18.0}


def waiting(gpus: int = 0) -> tuple[View, Job]:
    """Return a view of two nodes with two cores each, and its waiting job of two cores."""
    platform = cluster_of(2, 2)
    if gpus:
        (group,) = platform.nodes
        platform = replace(platform, nodes=(replace(group, gres={"gpu:a100": gpus}),))
    view = View(platform)
    view.apply(*Simulation(platform, jobs_of((0.0, 5.0, 2))).advance()[:2])
    return view, view.queue[1]


@pytest.mark.parametrize("nodes", [None, [0]])
def test_a_running_job_can_t_be_started(nodes: list[int] | None) -> None:
    """It is an error of the policy although its nodes are busy."""
    view, job = waiting()
    assert view.start(job, [0])
    with pytest.raises(PolicyError, match="job 1 cannot start: it is not in the queue"):
        view.start(job, nodes)


@pytest.mark.parametrize(
    ("nodes", "cores", "gres", "why"),
    [
        ([0, 0], None, (), r"nodes \[0, 0\]: expected each node once"),
        ([0, 0], [1, 1], (), "expected each node once"),
        ([0.5], None, (), r"nodes \[0.5\]: expected numbers from 0 to 1"),
        ([2], [2], (), "expected numbers from 0 to 1"),
        ([0, 1], [3, -1], (), r"cores \[3, -1\]: expected numbers above 0 that add up to 2"),
        ([0, 1], [2], (), "expected 2 numbers, one per node"),
        ([0], [1], (), "expected numbers above 0 that add up to 2"),
        ([0], None, [{"gpu:a100": [0]}], "devices without cores"),
        (None, [2], (), "cores without nodes"),
        ([0], [2], [{}, {}], "gres of 2 nodes: expected 1"),
        ([0], [2], [{"gpu:b": [0]}], "gres 'gpu:b': the nodes have gpu:a100"),
    ],
)
def test_wrong_places_for_a_job_are_errors(nodes: Any, cores: Any, gres: Any, why: str) -> None:
    """Wrong nodes, cores and devices are errors of the policy, before the job is placed."""
    view, job = waiting(gpus=1)
    free = view.nodes.free.copy()
    with pytest.raises(PolicyError, match=why):
        view.start(job, nodes, cores=cores, gres=gres)
    assert (view.nodes.free == free).all()
    assert view.decisions == []


@pytest.mark.parametrize(
    ("decide", "why"),
    [
        (lambda view, job: view.kill(job, state="dead"), "with the state 'dead': expected killed,"),
        (lambda view, job: view.kill(job, grace_s=-5), "grace_s is -5; expected seconds >= 0"),
        (lambda view, job: view.kill(job, grace_s=math.nan), "grace_s is nan"),
        (lambda view, job: view.requeue(job, grace_s=-5), "cannot be requeued: grace_s is -5"),
        (lambda view, job: view.requeue(job, begin_s=math.inf), "begin_s is inf"),
        (lambda view, job: view.reject(job, state="dead"), "expected rejected, cancelled"),
        (lambda view, job: view.submit(job), "a Job cannot be submitted: expected hpcosim_proto"),
    ],
)
def test_wrong_decisions_about_a_running_job_are_errors(
    decide: Callable[[View, Any], None], why: str
) -> None:
    """Wrong states, times and types are errors of the policy, on every transport."""
    view, job = waiting()
    view.start(job)
    sent = len(view.decisions)
    with pytest.raises(PolicyError, match=why):
        decide(view, job)
    assert len(view.decisions) == sent


def test_a_waiting_job_can_t_be_killed() -> None:
    """Only jobs that run or are suspended are killed or requeued."""
    view, job = waiting()
    for decide in (view.kill, view.requeue):
        with pytest.raises(PolicyError, match="it is not running"):
            decide(job)


@pytest.mark.parametrize("node", [-1, 2])
def test_a_node_that_is_not_there_can_t_be_switched(node: int) -> None:
    """A node that does not exist is an error of the policy."""
    with pytest.raises(PolicyError, match=f"node {node} does not exist"):
        View(cluster_of(2)).set_node_power(node, on=False)


def test_alarms_of_policies_that_are_combined_do_not_disturb_each_other() -> None:
    """Alarms of a job scheduler, a power manager and user code do not disturb each other."""
    scheduler, woken = PolicyAlarm(), []

    def decide(view: View) -> None:
        woken.append(view.now_s)
        if view.now_s == 0.0:
            scheduler.set(view, 3.0)

    beside = managed(decide, lambda view: 2.0 if view.now_s == 0.0 else None)

    def with_user_code(view: View) -> None:
        beside(view)
        if view.now_s == 0.0:
            view.set_alarm(1.0)

    simulate(cluster_of(1), jobs_of((0.0, 1.0, 1), (4.0, 1.0, 1)), starting(with_user_code))
    assert [at_s for at_s in woken if 0.0 < at_s < 4.0] == [1.0, 2.0, 3.0]


def starting(policy: Policy) -> Policy:
    """Return the policy that also starts every job."""

    def decide(view: View) -> None:
        policy(view)
        for job in list(view.queue.values()):
            view.start(job)

    return decide


def test_an_alarm_is_cancelled_only_while_it_is_set() -> None:
    """The server would reject the decision."""
    view, alarm = View(cluster_of(1)), PolicyAlarm()
    alarm.cancel(view)
    alarm.set(view, 5.0)
    alarm.cancel(view)
    alarm.cancel(view)
    number = FIRST_ALLOCATED_ALARM
    assert view.decisions == [SetAlarm(5.0, number), CancelAlarm(number)]


def test_an_alarm_is_set_again_only_for_another_time() -> None:
    """And again once it went off; infinity cancels it."""
    view, alarm = View(cluster_of(1)), PolicyAlarm()
    for at_s in (5.0, 5.0, 6.0):
        alarm.set_or_cancel(view, at_s)
    number = FIRST_ALLOCATED_ALARM
    assert view.decisions == [SetAlarm(5.0, number), SetAlarm(6.0, number)]
    view.apply(6.0, [Alarm(6.0, number)])
    alarm.set_or_cancel(view, math.inf)
    alarm.set_or_cancel(view, 7.0)
    alarm.set_or_cancel(view, math.inf)
    assert view.decisions == [SetAlarm(7.0, number), CancelAlarm(number)]


def test_an_alarm_at_a_numpy_number_can_be_sent() -> None:
    """Policies calculate with NumPy; messages and results hold plain numbers."""
    view = View(cluster_of(1))
    view.set_alarm(np.float64(5.0), 1)
    (decision,) = view.decisions
    assert isinstance(decision, SetAlarm)
    assert type(decision.at_s) is float


def test_a_queue_may_be_started_while_it_is_walked() -> None:
    """Iteration is over a copy of the jobs; started jobs have left the queue."""
    platform = cluster_of(2)
    simulation, view = Simulation(platform, jobs_of(*[(0.0, 5.0, 1)] * 3)), View(platform)
    view.apply(*simulation.advance()[:2])
    assert [view.start(job) for job in list(view.queue.values())] == [True, True, False]
    assert list(view.queue) == [3]
    assert sorted(view.running) == [1, 2]
