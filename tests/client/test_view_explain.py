"""Explanations of policies: what is sent, by which policy, and that it changes no decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import Policy, PolicyError
from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_protocol import (
    Decision,
    Explain,
    JobSubmitted,
    NodeGroup,
    Platform,
    PowerStates,
    Processor,
)
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.settings import Awareness
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.metrics import start_forecasts
from hpcosim_sim.record.tables import JOBS, NODE_STATES_OVER_TIME, SCHEDULE
from hpcosim_workloads.series import Series
from hpcosim_workloads.table import PLACEMENTS, JobTable
from support.examples import examples
from support.simulating import cluster_of, jobs_of, simulate

LISTS = ("fcfs", "sjf", "smallest", "f1", "wfp3")
EXPLAINING = (
    *LISTS,
    "shortest-low-power",
    "first-high-gflops-one",
    "easy",
    "conservative",
    "carbon-aware:slack_s=40",
    "power-capped",
)
SIGNALS = [
    Signal("co2_g_per_kwh", Series(np.array([0.0, 20.0, 45.0]), np.array([5.0, 1.0, 3.0])), 1e6),
    Signal("power_cap_w", Series(np.array([0.0, 30.0]), np.array([600.0, 900.0])), 1e6),
]


def view_of(*cores: int, explains: bool = True) -> tuple[View, list[Job]]:
    """Return a view at 10 s of a cluster of 4 cores, and its waiting jobs."""
    view = View(cluster_of(2, 2), explains=explains)
    view.apply(10.0, [JobSubmitted(10.0, n, each, 60.0) for n, each in enumerate(cores, 1)])
    return view, view.queue.values()


def sent(view: View) -> list[Decision]:
    """Return the decisions of a call and begin the next one."""
    decisions = view.decisions
    view.apply(view.now_s, [])
    return decisions


# --- the view ---------------------------------------------------------------------------------


def test_nothing_is_sent_unless_asked_for() -> None:
    """Without `explains` no decision is made, however wrong the arguments are."""
    view, [job] = view_of(1, explains=False)
    view.explain(job, "no reason", math.nan)
    assert sent(view) == []


def test_only_changes_are_sent() -> None:
    """A repeated explanation is not sent; another reason or another expected start is."""
    view, [job] = view_of(1)
    wanted = [("Priority", None), ("Priority", None), ("Priority", 20.0), ("Resources", 20.0)]
    for reason, expected_s in wanted:
        view.explain(job, reason, expected_s)
    view.apply(11.0, [])
    view.explain(job, "Resources", 20.0)
    assert view.decisions == []
    view.explain(job, "Priority")
    assert view.decisions == [Explain(1, "Priority")]


def test_an_expected_start_in_the_past_means_now() -> None:
    """An overdue expectation is the time at which the server executes the decisions."""
    view, [first, second] = view_of(1, 1)
    view.explain(first, "Resources", 3.0)
    view.elapsed_s = 2.5
    view.explain(second, "Resources", 10.0)
    assert sent(view) == [Explain(1, "Resources", 10.0), Explain(2, "Resources", 12.5)]


@pytest.mark.parametrize(
    ("reason", "expected_s", "words"),
    [
        ("", None, "job 1: the reason '' is malformed"),
        ("no node", None, "'no node' is malformed: expected a letter"),
        ("x" * 65, None, "malformed"),
        ("Priority", math.nan, "job 1: the expected start is nan s: expected at most"),
        ("Priority", math.inf, "is inf s"),
    ],
)
def test_invalid_explanations_are_errors(reason: str, expected_s: float | None, words: str) -> None:
    """The policy gets an error that says what was expected, and nothing is sent."""
    view, [job] = view_of(1)
    with pytest.raises(PolicyError, match=words):
        view.explain(job, reason, expected_s)
    assert sent(view) == []


def test_a_job_that_does_not_wait_has_no_explanation() -> None:
    """Explaining a job that was just started is an error; a rejected one is left out."""
    view, [first, second] = view_of(1, 1)
    view.start(first)
    with pytest.raises(PolicyError, match="job 1 cannot be explained: it is not in the queue"):
        view.explain(first, "Priority")
    view.reject(second)
    view.explain(second, "Priority")
    assert not any(isinstance(decision, Explain) for decision in sent(view))


# --- the policies -----------------------------------------------------------------------------

SCENES = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 40),
        st.integers(1, 8),
        st.integers(0, 30),
        st.sampled_from([0, 0, 0, 1, 2]),
    ),
    min_size=1,
    max_size=25,
)
Jobs = list[tuple[int, int, int, int, int]]


def table_of(jobs: Jobs, *, exact: bool = False, alike: bool = False) -> JobTable:
    """Return a workload of (submission, run time, cores, overestimate, placement).

    Args:
        jobs: the jobs.
        exact: requested times are run times.
        alike: no job restricts its placement.
    """
    ordered = sorted(jobs)
    rows = [
        (float(at), float(took), cores, float(took + (0 if exact else more)))
        for at, took, cores, more, _ in ordered
    ]
    table = jobs_of(*rows)
    if alike:
        return table
    kinds = [kind if cores <= 4 else 0 for _, _, cores, _, kind in ordered]
    assert max(kinds) < len(PLACEMENTS)
    return replace(table, placement=np.array(kinds, dtype=np.int8))


@pytest.mark.parametrize("name", EXPLAINING)
@given(jobs=SCENES)
@examples(25)
def test_explaining_changes_no_result(name: str, jobs: Jobs) -> None:
    """The schedule with explanations is that without them."""
    plain, explained = (
        simulate(cluster_of(2, 4), table_of(jobs), name, explain=explain, signals=SIGNALS)
        for explain in (False, True)
    )
    for table in (JOBS, NODE_STATES_OVER_TIME, SCHEDULE):
        assert list(table.text(explained.record())) == list(table.text(plain.record()))
    assert len(plain.recording.explanations) == 0


SLEEPY = Platform(
    (NodeGroup(2, (Processor(4, 1.0, 100.0, 10.0, 0.5),), power_states=PowerStates(
        sleep_w=5.0, switch_on_s=7.0, switch_on_w=90.0, switch_off_s=3.0, switch_off_w=80.0
    )),)
)  # fmt: skip


@pytest.mark.parametrize("awareness", ["unaware", "aware", "planned"])
@pytest.mark.parametrize("name", ["easy", "conservative", "carbon-aware:slack_s=40"])
@given(jobs=SCENES)
@examples(25)
def test_explaining_changes_no_result_beside_a_power_manager(
    name: str, awareness: Awareness, jobs: Jobs
) -> None:
    """Nor does it change the schedule of nodes that a power manager switches off."""
    from hpcosim_schedulers.catalogue.power import with_power
    from hpcosim_schedulers.power.settings import Timeout

    plain, explained = (
        simulate(
            SLEEPY,
            table_of(jobs),
            with_power(name, Timeout(5.0), awareness),
            explain=explain,
            signals=SIGNALS[:1],
        )
        for explain in (False, True)
    )
    for table in (JOBS, NODE_STATES_OVER_TIME, SCHEDULE):
        assert list(table.text(explained.record())) == list(table.text(plain.record()))


def watched(name: str, look: Callable[[View], None]) -> Policy:
    """Return a policy that is followed by a look at the view."""
    inner = make_policy(name)

    def decide(view: View) -> None:
        inner(view)
        look(view)

    return decide


@pytest.mark.parametrize("name", [*LISTS, "easy", "conservative"])
@given(jobs=SCENES)
@examples(25)
def test_every_waiting_job_is_explained(name: str, jobs: Jobs) -> None:
    """After each call one job waits for resources, and all others in the queue for it."""

    def look(view: View) -> None:
        reasons = [job.explanation[0] for job in view.queue.values() if job.explanation]
        assert len(reasons) == len(view.queue)
        assert reasons.count("Resources") == bool(reasons)
        assert set(reasons) <= {"Resources", "Priority"}

    simulate(cluster_of(2, 4), table_of(jobs), watched(name, look), explain=True)


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
@given(jobs=SCENES)
@examples(25)
def test_exact_requests_give_exact_forecasts_of_the_head(name: str, jobs: Jobs) -> None:
    """If jobs run as long as requested, the head starts when it was expected to."""
    table = table_of(jobs, exact=True, alike=True)
    simulation = simulate(cluster_of(2, 4), table, name, explain=True)
    found = start_forecasts(simulation.record())
    assert found.get("mean_abs_start_error_s", 0.0) == pytest.approx(0.0, abs=1e-9)


def said(simulation: Simulation) -> list[tuple[int, float, str, float | None]]:
    """Return the explanations: job, time, reason, expected start."""
    recording, column = simulation.recording, simulation.recording.explanations
    return [
        (recording.job_id[row], at_s, column.reasons[code], None if math.isnan(by_s) else by_s)
        for row, at_s, code, by_s in zip(
            column.row, column.time_s, column.reason, column.expected_start_s, strict=True
        )
    ]


def test_easy_explains_the_head_with_its_shadow_time() -> None:
    """The shadow time moves when a job ends before its requested time."""
    jobs = jobs_of((0, 30, 1, 30), (0, 20, 1, 60), (0, 5, 2), (0, 6, 2))
    assert said(simulate(cluster_of(2), jobs, "easy", explain=True)) == [
        (4, 0.0, "Priority", None),
        (3, 0.0, "Resources", 60.0),
        (3, 20.0, "Resources", 30.0),
        (4, 30.0, "Resources", 35.0),
    ]


def test_conservative_explains_each_job_with_its_reservation() -> None:
    """Reservations move to earlier times when a job ends early."""
    jobs = jobs_of((0, 10, 2, 40), (0, 5, 2, 5), (0, 6, 2, 6))
    assert said(simulate(cluster_of(2), jobs, "conservative", explain=True)) == [
        (2, 0.0, "Resources", 40.0),
        (3, 0.0, "Priority", 45.0),
        (3, 10.0, "Resources", 15.0),
    ]


def test_the_former_head_of_an_order_waits_for_the_new_one() -> None:
    """With `sjf` a shorter job that arrives becomes the head."""
    jobs = jobs_of((0, 50, 1), (1, 20, 2), (2, 10, 2))
    assert said(simulate(cluster_of(2), jobs, "sjf", explain=True)) == [
        (2, 1.0, "Resources", 50.0),
        (2, 2.0, "Priority", None),
        (3, 2.0, "Resources", 50.0),
        (2, 50.0, "Resources", 60.0),
    ]


def test_a_sleeping_scheduler_explains_when_it_wakes() -> None:
    """A job that arrives while the cluster is full is explained at the next event that counts."""
    jobs = jobs_of((0, 50, 2), (1, 20, 2), (2, 10, 2))
    assert said(simulate(cluster_of(2), jobs, "fcfs", explain=True)) == [
        (2, 1.0, "Resources", 50.0),
        (3, 50.0, "Resources", 70.0),
    ]


def test_carbon_aware_names_the_planned_start() -> None:
    """A delayed job waits for its begin; then it waits as a job of EASY."""
    jobs = jobs_of((0, 10, 2), (0, 30, 1))
    found = said(
        simulate(cluster_of(1, 2), jobs, "carbon-aware:slack_s=30", explain=True, signals=SIGNALS)
    )
    assert found[:2] == [(1, 0.0, "BeginTime", 20.0), (2, 0.0, "BeginTime", 20.0)]


def test_power_capped_names_the_power() -> None:
    """A job whose cores are free waits for power, until the cap rises."""
    platform = cluster_of(2, static_w=100.0, dynamic_w=100.0, idle_fraction=1.0)
    cap = Signal("power_cap_w", Series(np.array([0.0, 30.0]), np.array([300.0, 500.0])), 1e6)
    jobs = jobs_of((0, 100, 1), (0, 10, 1))
    found = said(simulate(platform, jobs, "power-capped", explain=True, signals=[cap]))
    assert found == [(2, 0.0, "PowerNotAvail", 30.0)]
