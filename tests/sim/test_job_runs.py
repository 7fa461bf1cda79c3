"""Jobs with several runs: suspension, requeue, grace, checkpoints, and failures of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_protocol import (
    AllocateJob,
    Checkpointing,
    Decision,
    Event,
    KillJob,
    NodeGroup,
    NodePowerChanged,
    NodeRepaired,
    Platform,
    PowerStates,
    Processor,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SetCheckpoint,
    SetNodePower,
    SuspendJob,
)
from hpcosim_sim.engine.engine import Rules, draw_s
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import (
    Distribution,
    DistributionKind,
    FailureModel,
    JobAction,
    NodeChange,
    SiteEvents,
)
from hpcosim_sim.errors import SimulationStuck
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.results import Run, write_results
from support.recordings import runs_of
from support.site_scenes import final_states, job, rejection, table

NODE = Processor(2, 1.0, 100.0, 10.0, 0.5)
ONE = AllocateJob(1, [0])


def simulate(
    *jobs: Any, nodes: int = 1, states: PowerStates | None = None, **more: Any
) -> Simulation:
    """Return a simulation of nodes with two cores each, that has begun."""
    platform = Platform((NodeGroup(nodes, (NODE,), power_states=states),))
    rules = Rules(validate=True, kill_at_walltime=more.pop("kill_at_walltime", False))
    simulation = Simulation(platform, table(*jobs), rules, **more)
    simulation.advance(wake_on=["no_more_jobs"])
    return simulation


def later(simulation: Simulation, elapsed_s: float, *decisions: Decision) -> list[Any]:
    """Carry out decisions after a time, at once, and return all events up to then."""
    return simulation.advance(decisions, elapsed_s=elapsed_s, wake_on=["job_suspended"]).events


def told(events: Sequence[Event]) -> list[tuple[float, str, int]]:
    """Return time, type and job of the events of jobs."""
    return [
        (event.time_s, type(event).__name__, job_id)
        for event in events
        if (job_id := getattr(event, "job_id", None)) is not None
    ]


def play_on(simulation: Simulation) -> None:
    """Advance to the end without decisions."""
    while not simulation.advance().ended:
        pass


def failing(*changes: tuple[float, int, str]) -> SiteEvents:
    """Return changes of nodes: time, node, kind."""
    return SiteEvents(tuple(NodeChange(at_s, (node,), kind) for at_s, node, kind in changes))  # type: ignore[arg-type]


def test_a_suspended_job_frees_its_cores_and_keeps_its_work() -> None:
    """A job of 10 s that is suspended from 4 to 9 s ends at 15 s; another uses its cores."""
    simulation = simulate(job(1, cores=2), job(2, run_s=5.0, cores=2))
    simulation.advance([ONE], wake_on=["job_started"])
    later(simulation, 4.0, SuspendJob(1))
    simulation.advance([AllocateJob(2, [0])], wake_on=["job_completed"])
    assert simulation.now_s == 9.0
    simulation.advance([ResumeJob(1)])
    assert simulation.now_s == 15.0
    recording = simulation.recording
    assert (recording.start_s[0], recording.end_s[0], recording.suspended_s[0]) == (0.0, 15.0, 5.0)
    assert list(simulation.record().job_energies_j) == [1200.0, 600.0]


def test_suspended_time_does_not_count_for_the_time_limit() -> None:
    """A job with a limit of 6 s that is suspended for 5 s is killed after 11 s."""
    simulation = simulate(job(1, requested_s=6.0), kill_at_walltime=True)
    simulation.advance([ONE], wake_on=["job_started"])
    later(simulation, 4.0, SuspendJob(1))
    simulation.advance([ResumeJob(1)], elapsed_s=5.0)
    assert (simulation.now_s, final_states(simulation)) == (11.0, {1: "timeout"})


def test_a_requeued_job_loses_its_work_and_waits() -> None:
    """A requeued job is told, waits until its begin time and starts from the begin."""
    simulation = simulate(job(1, requeue=True))
    simulation.advance([ONE], wake_on=["job_started"])
    events = simulation.advance([RequeueJob(1, begin_s=20.0)], elapsed_s=4.0).events
    assert told(events) == [(4.0, "JobRequeued", 1)]
    assert simulation.cluster.free == [2]
    assert told(simulation.advance().events) == [(20.0, "JobEligible", 1)]
    simulation.advance([ONE])
    recording = simulation.recording
    assert (recording.start_s[0], recording.end_s[0]) == (20.0, 30.0)
    assert (runs_of(recording, 0), recording.lost_core_s[0]) == (2, 4.0)


@pytest.mark.parametrize(
    ("jobs", "decision", "code"),
    [
        ([job(1)], RequeueJob(1), "not_requeueable"),
        ([job(1)], ResumeJob(1), "job_not_suspended"),
        ([job(1)], SuspendJob(2), "unknown_job"),
        ([job(1)], KillJob(1, grace_s=-1.0), "bad_time"),
        ([job(1, requeue=True)], RequeueJob(1, begin_s=float("nan")), "bad_time"),
        ([job(1)], SetCheckpoint(1, 5.0), "job_not_waiting"),
    ],
)
def test_decisions_that_do_not_fit_the_job_are_rejected(
    jobs: list[Any], decision: Decision, code: str
) -> None:
    """The rejection has a code for each reason."""
    simulation = simulate(*jobs)
    simulation.advance([ONE], wake_on=["job_started"])
    assert rejection(simulation, decision)[0] == code


def test_a_job_resumes_only_on_free_cores() -> None:
    """A suspended job whose cores another job holds is not resumed."""
    simulation = simulate(job(1, cores=2), job(2, cores=1))
    simulation.advance([ONE], wake_on=["job_started"])
    simulation.advance([SuspendJob(1), AllocateJob(2, [0])], wake_on=["job_started"])
    code, reason = rejection(simulation, ResumeJob(1))
    assert (code, reason) == (
        "node_busy", "resume_job: job 1 needs 2 cores of node 0; free: 1"
    )  # fmt: skip


def test_the_node_of_a_suspended_job_is_not_switched_off() -> None:
    """A node stays on while a suspended job holds it."""
    states = PowerStates(1.0, 1.0, 1.0, 1.0, 1.0)
    simulation = simulate(job(1), states=states)
    simulation.advance([ONE, SuspendJob(1)], wake_on=["job_suspended"])
    assert rejection(simulation, SetNodePower(0, "sleeping"))[0] == "node_busy"


@pytest.mark.parametrize(
    ("grace_s", "end_s", "state"),
    [(0.0, 4.0, "preempted"), (3.0, 7.0, "preempted"), (6.0, 10.0, "completed")],
)  # fmt: skip
def test_a_job_goes_on_in_its_time_of_grace(grace_s: float, end_s: float, state: str) -> None:
    """A killed job ends when its grace is over, or by itself before."""
    simulation = simulate(job(1))
    simulation.advance([ONE], wake_on=["job_started"])
    simulation.advance([KillJob(1, grace_s, "preempted")], elapsed_s=4.0)
    assert (simulation.now_s, final_states(simulation)) == (end_s, {1: state})


def test_a_requeue_ends_the_grace_of_the_run() -> None:
    """A job that is requeued in its time of grace is not killed in its next run."""
    simulation = simulate(job(1, requeue=True))
    simulation.advance([ONE], wake_on=["job_started"])
    simulation.advance([KillJob(1, 5.0), RequeueJob(1)], wake_on=["job_requeued"])
    simulation.advance([ONE])
    assert (simulation.now_s, final_states(simulation)) == (10.0, {1: "completed"})


def test_jobs_of_a_failed_node_are_requeued_or_end() -> None:
    """A job that permits it is requeued; the other ends in state node_failed."""
    simulation = simulate(
        job(1, requeue=True), job(2), site_events=failing((3.0, 0, "fail"), (5.0, 0, "repair"))
    )
    events = simulation.advance([AllocateJob(1, [0]), AllocateJob(2, [0])]).events
    assert told(events)[-3:] == [
        (3.0, "JobRequeued", 1), (3.0, "JobEligible", 1), (3.0, "JobCompleted", 2)
    ]  # fmt: skip
    assert rejection(simulation, ONE)[0] == "node_unavailable"
    simulation.advance()
    simulation.advance([ONE])
    assert (simulation.now_s, final_states(simulation)) == (
        15.0,
        {1: "completed", 2: "node_failed"},
    )
    record = simulation.record()
    assert record.state_node_s == {
        "computing": 13.0, "idle": 0.0, "sleeping": 0.0, "switching_on": 0.0,
        "switching_off": 0.0, "down": 2.0,
    }  # fmt: skip
    assert record.energy_j == 3 * 120.0 + 10 * 110.0
    metrics = measure(record)
    assert metrics["node_failures"] == metrics["requeues_node_failed"] == 1
    assert metrics["node_availability"] == pytest.approx(13 / 15)
    assert metrics["lost_core_s"] == 6.0
    assert metrics["utilization"] == (3 * 2 + 10) / (2 * 15)


def test_a_drained_node_keeps_its_jobs_and_accepts_no_new_ones() -> None:
    """A job on a drained node ends as usual; the next one is rejected until the repair."""
    events = failing((3.0, 0, "drain"), (20.0, 0, "repair"))
    simulation = simulate(job(1), job(2), site_events=events)
    simulation.advance([ONE])
    assert rejection(simulation, AllocateJob(2, [0]))[0] == "node_unavailable"
    simulation.advance(wake_on=["node_repaired"])
    assert (simulation.now_s, final_states(simulation)) == (20.0, {1: "completed"})
    simulation.advance([AllocateJob(2, [0])])
    assert simulation.now_s == 30.0


def test_a_sleeping_node_that_failed_is_on_after_its_repair() -> None:
    """The scheduler is told that the node is on."""
    states = PowerStates(1.0, 2.0, 50.0, 3.0, 40.0)
    events = failing((10.0, 0, "fail"), (20.0, 0, "repair"))
    simulation = simulate(job(1), nodes=2, states=states, site_events=events)
    simulation.advance([AllocateJob(1, [1]), SetNodePower(0, "sleeping")], wake_on=["node_failed"])
    assert rejection(simulation, SetNodePower(0, "on"))[0] == "node_unavailable"
    simulation = simulate(job(1, run_s=30.0), nodes=2, states=states, site_events=events)
    simulation.advance([AllocateJob(1, [1]), SetNodePower(0, "sleeping")], wake_on=["node_failed"])
    assert simulation.advance(wake_on=["node_repaired"]).events == [
        NodeRepaired(20.0, 0), NodePowerChanged(20.0, 0, "on")
    ]  # fmt: skip
    assert simulation.power.are_on([0, 1])


def test_a_job_whose_node_fails_while_it_is_switched_on_waits_again() -> None:
    """An allocated job is requeued, and the transition of the node ends with its failure."""
    states = PowerStates(1.0, 5.0, 50.0, 1.0, 40.0)
    events = failing((4.0, 0, "fail"), (20.0, 0, "repair"))
    simulation = simulate(job(1, requeue=True), states=states, site_events=events)
    simulation.advance([SetNodePower(0, "sleeping")], wake_on=["node_power_changed"])
    simulation.advance(wake_on=["node_power_changed"])
    assert simulation.power.state[0] == "sleeping"
    told_then = told(simulation.advance([ONE], wake_on=["job_eligible"]).events)
    assert told_then[-2:] == [(4.0, "JobRequeued", 1), (4.0, "JobEligible", 1)]
    assert simulation.recording.lost_core_s == {}
    simulation.advance(wake_on=["node_repaired"])
    simulation.advance([ONE])
    assert simulation.now_s == 30.0


def test_checkpoints_keep_work_over_a_failure() -> None:
    """A job of 10 s with checkpoints after 4 s resumes at 4 s of its work."""
    checkpointing = Checkpointing(cost_s=1.0, interval_s=4.0, restart_s=2.0)
    simulation = simulate(
        job(1, requeue=True, checkpointing=checkpointing),
        site_events=failing((7.0, 0, "fail"), (8.0, 0, "repair")),
    )
    simulation.advance([ONE])
    simulation.advance([])
    simulation.advance([ONE])
    # Until 7 s: 4 s of work, a checkpoint, 2 s of work that are lost. Then: reading, 6 s of work,
    # one checkpoint.
    assert simulation.now_s == 8.0 + 2.0 + 6.0 + 1.0
    assert simulation.recording.lost_core_s == {0: pytest.approx(2.0)}


def test_the_scheduler_sets_the_checkpoint_interval() -> None:
    """A job without an interval writes checkpoints at the interval that a decision sets."""
    simulation = simulate(job(1, checkpointing=Checkpointing(1.0)))
    assert rejection(simulation, SetCheckpoint(1, 0.0))[0] == "bad_time"
    simulation.advance([SetCheckpoint(1, 3.0), ONE])
    assert simulation.now_s == 13.0


def test_a_longer_requested_time_moves_the_end_of_a_running_job() -> None:
    """An update of a running job's requested time holds for its current run."""
    updates = SiteEvents((), (JobAction(at_s=3.0, job_id=1, kind="update", requested_s=8.0),))
    simulation = simulate(job(1, requested_s=5.0), kill_at_walltime=True, site_events=updates)
    simulation.advance([ONE], wake_on=["job_completed"])
    assert (simulation.now_s, final_states(simulation)) == (8.0, {1: "timeout"})


def test_users_requeue_suspend_and_resume() -> None:
    """Actions of users on jobs have the effect of the decisions; others are counted."""
    actions = (
        JobAction(at_s=2.0, job_id=1, kind="suspend"),
        JobAction(at_s=3.0, job_id=1, kind="suspend"),
        JobAction(at_s=5.0, job_id=1, kind="resume"),
        JobAction(at_s=6.0, job_id=1, kind="requeue", begin_s=9.0),
    )
    simulation = simulate(job(1, requeue=True), site_events=SiteEvents((), actions))
    simulation.advance([ONE], wake_on=["job_requeued"])
    assert simulation.recording.lost_core_s == {0: 3.0}
    simulation.advance()
    simulation.advance([ONE])
    assert (simulation.now_s, simulation.actions.ignored) == (19.0, 1)


def test_failures_for_ever_do_not_keep_a_stuck_simulation_going() -> None:
    """A simulation in which a job waits for ever while nodes fail and are repaired is stuck."""
    model = FailureModel((0,), Distribution("constant", 1.0), Distribution("constant", 1.0))
    platform, jobs = Platform((NodeGroup(1, (NODE,)),)), table(job(1))
    simulation = Simulation(platform, jobs, site_events=SiteEvents((), (), (model,)))
    with pytest.raises(SimulationStuck, match="were changes of signals or nodes"):
        play_on(simulation)


def failing_for_ever(*jobs: Any, mean_s: float = 1.0, start_s: float | None = None) -> Simulation:
    """Return a simulation of a node that fails and is repaired for ever."""
    times = Distribution("constant", mean_s)
    site_events = SiteEvents((), (), (FailureModel((0,), times, times),))
    platform = Platform((NodeGroup(1, (NODE,)),))
    rules = Rules(initial_time_s=start_s)
    return Simulation(platform, table(*jobs), rules, site_events=site_events)


def test_failures_in_a_long_elapsed_time_do_not_keep_the_server_busy() -> None:
    """A request that lets 1e15 s pass ends as stuck, while a job waits and nodes fail."""
    simulation = failing_for_ever(job(1))
    with pytest.raises(SimulationStuck, match="the last 10001 events were changes"):
        simulation.advance(elapsed_s=1e15)


def test_a_request_has_a_limited_number_of_changes_of_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pending alarm does not permit changes of nodes without end in one request."""
    monkeypatch.setattr("hpcosim_sim.engine.simulation.MAX_CHANGES", 100)
    simulation = failing_for_ever(job(1))
    simulation.advance([SetAlarm(1e15)], wake_on=["no_more_jobs"])
    with pytest.raises(SimulationStuck, match="more than 100 times; expected a shorter time"):
        simulation.advance(elapsed_s=1e14)


def test_events_that_nobody_waits_for_are_told_before_failures_go_on_for_ever() -> None:
    """A scheduler that waits for other kinds of events is told of the job, then it is stuck."""
    simulation = failing_for_ever(job(1))
    told_of = simulation.advance(wake_on=["job_started"]).events
    assert "JobSubmitted" in {type(event).__name__ for event in told_of}
    with pytest.raises(SimulationStuck, match="events were changes of signals or nodes"):
        simulation.advance(wake_on=["job_started"])


def test_failures_late_in_time_let_time_pass() -> None:
    """Failures at times of 1e15 s, which have no milliseconds, are at different times."""
    simulation = failing_for_ever(job(1, submit_s=9e14), mean_s=0.001)
    first, second = (simulation.advance(wake_on=["node_failed"]).now_s for _ in range(2))
    assert first < second


@pytest.mark.parametrize(
    ("kind", "again"), [("requeue", RequeueJob(7)), ("suspend", SuspendJob(7))]
)
def test_taking_a_job_back_at_its_start_for_ever_is_an_error(
    kind: str, again: Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starts and requeues, or suspensions, in turn at one instant end; the error names the job."""
    monkeypatch.setattr("hpcosim_sim.engine.simulation.MAX_TAKEN_BACK", 20)
    simulation = simulate(job(7, requeue=True))
    start = AllocateJob(7, [0])
    simulation.advance([start], wake_on=["job_started"])
    forth = start if kind == "requeue" else ResumeJob(7)
    for _ in range(21):
        simulation.advance([again], wake_on=["job_requeued", "job_suspended"])
        simulation.advance([forth], wake_on=["job_started", "job_resumed"])
    with pytest.raises(SimulationStuck, match="no time passed, the last time job 7; expected"):
        simulation.advance([again])


def test_taking_many_jobs_back_at_one_instant_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job may be requeued at one instant, and again after time has passed."""
    monkeypatch.setattr("hpcosim_sim.engine.simulation.MAX_TAKEN_BACK", 0)
    simulation = simulate(job(1, requeue=True), job(2, requeue=True))
    for _ in range(2):
        simulation.advance([ONE, AllocateJob(2, [0])], wake_on=["job_started"])
        later(simulation, 1.0, RequeueJob(1), RequeueJob(2))
    assert [runs_of(simulation.recording, number) for number in (0, 1)] == [2, 2]


def test_suspended_jobs_that_nobody_resumes_are_an_error() -> None:
    """The error names the suspended jobs, and no waiting jobs if there are none."""
    simulation = simulate(job(1))
    simulation.advance([ONE, SuspendJob(1)], wake_on=["job_suspended"])
    with pytest.raises(SimulationStuck, match=r"at 0\.0 s: 1 job is suspended \(1\) and not r"):
        simulation.advance()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("exponential", 1.0), ("weibull", 0.7), ("lognormal", 0.8), ("constant", 1.0)],
)
def test_drawn_times_have_the_stated_mean(kind: DistributionKind, shape: float) -> None:
    """The mean of many drawn times is the mean of the distribution."""
    rng, times = np.random.default_rng(3), Distribution(kind, 100.0, shape)
    drawn = [draw_s(times, rng) for _ in range(10_000)]
    assert np.mean(drawn) == pytest.approx(100.0, rel=0.05)


def test_files_of_a_run_with_several_periods(tmp_path: Path) -> None:
    """runs.csv has each period; schedule.csv each start of a run; jobs.csv the last run."""
    simulation = simulate(job(1, cores=2, requeue=True, name="a,b"))
    simulation.advance([ONE], wake_on=["job_started"])
    later(simulation, 2.0, SuspendJob(1))
    simulation.advance([ResumeJob(1)], elapsed_s=1.0, wake_on=["job_resumed"])
    simulation.advance([RequeueJob(1)], elapsed_s=1.0, wake_on=["job_requeued"])
    simulation.advance([ONE])
    run = Run(hpcosim="1", scenario="s", scheduler="x", seed=1)
    write_results(tmp_path / "out", simulation.record(), run)
    assert (tmp_path / "out/runs.csv").read_text().splitlines()[1:] == [
        "1,1,0.0,2.0,suspended,0,2",
        "1,1,3.0,4.0,requeued,0,2",
        "1,2,4.0,14.0,completed,0,2",
    ]
    assert (tmp_path / "out/schedule.csv").read_text().splitlines()[1:] == [
        "1,0.0,0,2", "1,4.0,0,2"
    ]  # fmt: skip
    row = (tmp_path / "out/jobs.csv").read_text().splitlines()[1]
    assert row.startswith("1,0.0,4.0,14.0,completed,2,0,1560.0,")
    assert row.endswith(',"a,b",2,1.0,6.0')


@pytest.mark.parametrize(
    ("failure", "end"),
    [(False, "suspended_requeued"), (True, "suspended_requeued_node_failed")],
)
def test_requeue_of_a_suspended_job_is_in_the_files(
    tmp_path: Path, failure: bool, end: str
) -> None:
    """runs.csv has as many requeues and suspensions as the metrics."""
    change = NodeChange(5.0, (0,), "fail"), NodeChange(6.0, (0,), "repair")
    site_events = SiteEvents(change if failure else ())
    simulation = simulate(job(1, cores=2, requeue=True), site_events=site_events)
    simulation.advance([ONE], wake_on=["job_started"])
    later(simulation, 2.0, SuspendJob(1))
    requeue = [] if failure else [RequeueJob(1)]
    simulation.advance(requeue, elapsed_s=1.0, wake_on=["job_requeued"])
    simulation.advance([ONE], elapsed_s=4.0)
    play_on(simulation)
    run = Run(hpcosim="1", scenario="s", scheduler="x", seed=1)
    write_results(tmp_path / "out", simulation.record(), run)
    ends = [line.split(",")[4] for line in (tmp_path / "out/runs.csv").read_text().splitlines()]
    assert ends[1:] == [end, "completed"]
    metrics = measure(simulation.record())
    assert (metrics["requeues"], metrics["suspensions"]) == (1, 1)
