"""Memory contention: golden results, comparison with an oracle, and cases by hand."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import Policy
from hpcosim_protocol import (
    AllocateJob,
    Contention,
    KillJob,
    NodeGroup,
    Platform,
    Processor,
    SetAlarm,
    task_speed,
)
from hpcosim_schedulers.heuristics.scripted import Start, scripted
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.physics import execution
from hpcosim_sim.physics.execution import SharedProcessor, check_contention
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_workloads.table import JobTable, job_table
from support.contention_oracle import speed_of
from support.contention_scenes import MANY_CORES, ask_oracle, random_processor, scenes
from support.examples import examples
from support.golden import golden, golden_jobs, golden_platform
from support.random_scenes import Scene, play
from support.simulating import jobs_of, simulate

# --- golden results ---------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["ours", "oracle"])
def test_speeds_match_the_golden_table(formula: str) -> None:
    """Every speed of the golden table matches to 9 decimals."""
    rows = golden("contention.json")["rows"]
    assert len(rows) == 598
    for row in rows:
        model = Contention(row["c"], row["b"], row["da"], row["db"], row["dc"], row["dd"])
        x, y, active = row["x_total_MBps"], row["y_own_MBps"], row["active_tasks"]
        if formula == "ours":
            speed = task_speed(model, x, y, active)
        else:
            speed = speed_of(model, x, y, active - 1)
        assert speed == row["speed"], row


def script(rows: list[tuple[int, float, float, int]]) -> Policy:
    """Return a policy that starts each job at its recorded time on its recorded node."""
    return scripted(
        {
            job_id: Start(order, start_s, [node], [], "exp1.json")
            for order, (job_id, start_s, _, node) in enumerate(rows)
        }
    )


def test_experiment_1_matches_the_golden_results() -> None:
    """Each recorded schedule, replayed, has the recorded end times and energy."""
    known = golden("exp1.json")
    assert len(known["scripted_schedules"]) == 4
    platform, jobs = golden_platform(known["platform"]), golden_jobs(known["workload"])
    for name, expected in known["scripted_schedules"].items():
        simulation = simulate(platform, jobs, script(expected["jobs"]))
        recording = simulation.recording
        for job_id, start_s, finish_s, node in expected["jobs"]:
            row = recording.job_id.index(job_id)
            assert recording.start_s[row] == pytest.approx(start_s, rel=0, abs=1e-6), name
            assert recording.end_s[row] == pytest.approx(finish_s, rel=0, abs=1e-6), name
            assert recording.nodes_of(row) == [node]
        metrics = measure(simulation.record())
        assert metrics["energy_j"] == pytest.approx(expected["energy_J"], rel=1e-8), name
        assert metrics["edp_js"] == pytest.approx(expected["edp_Js"], rel=1e-8), name
        assert metrics["makespan_s"] == pytest.approx(expected["makespan_s"], rel=1e-8), name


# --- against the oracle -----------------------------------------------------------------------


MANY = examples(500)


@MANY
@given(scenes())
def test_ends_of_jobs_match_the_oracle(scene: Scene) -> None:
    """In random scenes, jobs end when the reference integration says."""
    played = play(scene)
    slow = ask_oracle(scene, played)
    recording = played.simulation.recording
    ended = {
        job_id: recording.end_s[row]
        for row, job_id in enumerate(recording.job_id)
        if recording.nodes_of(row)
    }
    assert slow.finish_s == pytest.approx(ended, rel=1e-9, abs=1e-9)
    for row, job in enumerate(scene.jobs.rows()):
        ran_s = recording.end_s[row] - recording.start_s[row]
        if STATES[recording.state[row]] == "timeout":
            assert scene.rules.kill_at_walltime
            assert ran_s == pytest.approx(job.requested_s, rel=1e-9)
        elif STATES[recording.state[row]] == "completed" and scene.rules.kill_at_walltime:
            assert ran_s <= job.requested_s * (1 + 1e-9)


@MANY
@given(scenes())
def test_energy_of_groups_matches_the_oracle(scene: Scene) -> None:
    """The energy of each node group equals that of the reference integration."""
    played = play(scene)
    slow = ask_oracle(scene, played)
    energy_j = played.simulation.record().energy_j
    assert energy_j == pytest.approx(slow.energy_j, rel=1e-9, abs=1e-9)
    group_of = played.simulation.cluster.group_of
    for group, meter in enumerate(played.simulation.cluster.meters):
        group_j = sum(j for (node, _), j in slow.processor_j.items() if group_of[node] == group)
        assert meter.energy_j == pytest.approx(group_j, rel=1e-9, abs=1e-9)


@examples(50)
@given(scenes())
def test_same_seed_same_recording(scene: Scene) -> None:
    """The same scene gives the same recording to the byte."""
    first, second = (_columns(play(scene).simulation.recording) for _ in range(2))
    assert first.keys() == second.keys()
    for name, column in first.items():
        if isinstance(column, array):
            assert second[name].tobytes() == column.tobytes(), name
        else:
            assert second[name] == column, name


def _columns(recording: Recording) -> dict[str, Any]:
    """Return everything that a recording holds, its explanations included."""
    return {**vars(recording), **vars(recording.explanations), "explanations": None}


# --- by hand ----------------------------------------------------------------------------------

# Two tasks with work left that demand at least 50 MB/s each, and 100 MB/s together, each
# run at 1 / 1.6 = 0.625 of their speed; one alone runs at full speed.
HALVING = Contention(c_mbps=100.0, b_per_mbps=-1.0, da=0.0, db_mbps=0.0, dc_mbps=50.0, dd_mbps=0.0)


def node(cores: int, clock_ghz: float = 1.0, contention: Contention | None = HALVING) -> NodeGroup:
    """Return a node of one processor."""
    return NodeGroup(1, (Processor(cores, clock_ghz, contention=contention),))


class Work(NamedTuple):
    """A job, when and where it starts.

    Attributes:
        gops: 10^9 operations of each task; 0: it takes `run_s`.
        volume_mb: of each task.
        tasks: on each node.
    """

    gops: float
    volume_mb: float
    tasks: dict[int, int]
    start_s: float = 0.0
    requested_s: float = 1e6
    run_s: float = 0.0


def table_of(works: list[Work]) -> JobTable:
    """Return the workload with ids from 1; each job is submitted at its start time."""
    return job_table(
        job_id=range(1, len(works) + 1),
        submit_s=[work.start_s for work in works],
        run_s=[work.run_s or work.gops for work in works],
        requested_s=[work.requested_s for work in works],
        cores=[sum(work.tasks.values()) for work in works],
        ops=[work.gops * 1e9 for work in works],
        memory_volume_mb=[work.volume_mb for work in works],
    )


def run_works(platform: Platform, *works: Work, rules: Rules | None = None) -> Simulation:
    """Run jobs, sorted by start time, to their end."""
    simulation = Simulation(platform, table_of(list(works)), rules)
    batch = simulation.advance()
    started = 0
    while not batch.ended:
        waiting = range(started, len(simulation.recording))
        decisions = [
            AllocateJob(row + 1, list(works[row].tasks), list(works[row].tasks.values()))
            for row in waiting
        ]
        started = len(simulation.recording)
        batch = simulation.advance(decisions)
    return simulation


def ends(simulation: Simulation) -> list[float]:
    """Return the end times of the jobs, by job id."""
    return simulation.recording.end_s.tolist()


def states(simulation: Simulation) -> list[str]:
    """Return the final states of the jobs, by job id."""
    return [STATES[code] for code in simulation.recording.state]


def test_two_jobs_by_hand() -> None:
    """Two jobs slow each other while both run."""
    # 2 s alone, then 8e9 operations at 0.625e9: until 14.8. By then 8e9 of the second are done.
    simulation = run_works(
        Platform((node(2),)), Work(10, 1000, {0: 1}), Work(10, 1000, {0: 1}, start_s=2.0)
    )
    assert ends(simulation) == pytest.approx([14.8, 16.8], rel=1e-12)


def test_tasks_of_one_job_slow_each_other() -> None:
    """The tasks of one job contend with each other."""
    assert ends(run_works(Platform((node(2),)), Work(10, 1000, {0: 2}))) == [16.0]


def test_ended_task_counts_for_bandwidth_only() -> None:
    """A task that has ended counts for the total bandwidth, not for the number of active tasks."""
    platform = Platform((node(3, 2.0), node(1, 1.0)))
    # Job 1 on node 0, at 2 GHz: until 5. Its sibling at 1 GHz: until 10. It asks for 100 MB/s
    # there, the tasks of the others for 45 MB/s each.
    early, late = Work(10, 500, {0: 1, 1: 1}), Work(20, 450, {0: 1}, start_s=6.0)
    # With job 1 counted, job 2 would run at less than its speed.
    assert ends(run_works(platform, early, late)) == [10.0, 16.0]
    # Two at 45 MB/s stay below 100 MB/s, but for job 1; u = 0.9, so that S = 0.00856.
    both = late._replace(tasks={0: 2})
    slowed = round(1 / 1.6 + 0.00856 * 0.6 / 1.6, 9)
    done_gops = 4 * 2 * slowed  # when job 1 is over
    simulation = run_works(platform, early, both)
    assert ends(simulation) == pytest.approx([10.0, 10.0 + (20 - done_gops) / 2], rel=1e-9)


def test_speeds_stay_when_a_task_ends_before_its_sibling() -> None:
    """Speeds change when cores are released, not when a task ends."""
    platform = Platform((node(2, 2.0), node(1, 1.0)))
    # On node 0 both run at 0.625 * 2e9: job 1 until 8, its sibling until 10. Job 2 has then
    # 12.5e9 done and does 2e9 a second: until 13.75. At full speed from 8 on: until 13.
    simulation = run_works(platform, Work(10, 1000, {0: 1, 1: 1}), Work(20, 2000, {0: 1}))
    assert ends(simulation) == pytest.approx([10.0, 13.75], rel=1e-12)


def test_a_job_ends_with_its_last_task() -> None:
    """A job slowed on one node holds its cores on all nodes until its end."""
    works = [Work(10, 1000, {0: 1, 1: 1}), Work(30, 3000, {0: 1})]
    simulation = Simulation(Platform((node(2), node(1))), table_of(works))
    simulation.advance()
    batch = simulation.advance([AllocateJob(1, [0, 1], [1, 1]), AllocateJob(2, [0])])
    assert batch.now_s == 16.0  # at 0.625e9 a second on node 0
    assert simulation.cluster.free == [1, 1]


@pytest.mark.parametrize("how", ["killed", "timeout"])
def test_a_job_ended_early_slows_no_longer(how: str) -> None:
    """A killed or timed-out job no longer slows other jobs."""
    # By 4 s job 1 has done 2.5e9 operations; alone it needs 7.5 s more.
    works = [Work(10, 1000, {0: 1}), Work(10, 1000, {0: 1}, requested_s=4.0)]
    rules = Rules(kill_at_walltime=how == "timeout")
    simulation = Simulation(Platform((node(2),)), table_of(works), rules)
    simulation.advance()
    batch = simulation.advance([AllocateJob(1, [0]), AllocateJob(2, [0]), SetAlarm(4.0)])
    assert batch.now_s == 4.0
    simulation.advance([KillJob(2)] if how == "killed" else [], wake_on=[])
    assert ends(simulation) == [11.5, 4.0]
    assert states(simulation) == ["completed", how]


def test_a_processor_without_constants_has_no_contention() -> None:
    """A processor without contention constants runs its tasks at full speed."""
    platform = Platform((node(4, contention=None), node(2)))
    greedy = Work(10, 1e9, {0: 2})
    assert ends(run_works(platform, greedy, greedy)) == [10.0, 10.0]
    # Job 1 has a task on each node; only the one on node 1 is slowed.
    simulation = run_works(platform, Work(10, 1000, {0: 3, 1: 1}), Work(10, 1000, {1: 1}))
    assert ends(simulation) == [16.0, 16.0]


def test_a_job_of_fixed_duration_neither_slows_nor_is_slowed() -> None:
    """A job of fixed duration takes no part in contention."""
    fixed = Work(0, 1e9, {0: 2}, run_s=3.0)
    other = Work(10, 1000, {0: 1})
    simulation = run_works(Platform((node(4),)), fixed, other, other)
    assert ends(simulation) == [3.0, 16.0, 16.0]
    assert ends(run_works(Platform((node(3),)), fixed, other)) == [3.0, 10.0]


def test_a_run_time_at_a_reference_clock_is_operations() -> None:
    """With a reference clock, a job without operations takes part in contention."""
    timed = Work(0, 1000, {0: 1}, run_s=5.0)
    simulation = run_works(Platform((node(2),)), timed, timed, rules=Rules(reference_ghz=2.0))
    assert ends(simulation) == [16.0, 16.0]


# --- to the bit -------------------------------------------------------------------------------


@MANY
@given(st.integers(0, 2**32))
def test_a_job_alone_ends_to_the_bit(seed: int) -> None:
    """A job alone on its processors ends at exactly start + operations / speed."""
    random = Random(seed)
    group = NodeGroup(1, (random_processor(random),))
    processor = group.processors[0]
    tasks = random.randint(1, processor.cores)
    work = Work(10 ** random.uniform(-1, 2), random.uniform(0, 2e5), {0: tasks}, random.random())
    ops, rate = work.gops * 1e9, processor.ops_per_s
    asked = work.volume_mb / (ops / rate)
    speed = 1.0
    if processor.contention is not None:
        speed = speed_of(processor.contention, asked * tasks, asked, tasks - 1)
    simulation = run_works(Platform((group,)), work)
    assert ends(simulation) == [work.start_s + ops / rate / speed]


@MANY
@given(st.integers(0, 2**32))
def test_a_job_whose_speed_never_changes_ends_to_the_bit(seed: int) -> None:
    """Starts and ends of other jobs that slow nothing leave the end of a job to the bit."""
    random = Random(seed)
    rate = random.uniform(0.5, 4.0)
    processor = Processor(8, rate, contention=MANY_CORES)
    works = [
        Work(10 ** random.uniform(-1, 2), 0.0, {0: 1}, start_s)
        for start_s in sorted(random.uniform(0, 10) for _ in range(8))
    ]
    simulation = run_works(Platform((NodeGroup(1, (processor,)),)), *works)
    expected = [work.start_s + work.gops * 1e9 / processor.ops_per_s for work in works]
    assert ends(simulation) == expected


@MANY
@given(st.integers(0, 2**32))
def test_contention_that_slows_nothing_changes_nothing(seed: int) -> None:
    """Contention that slows nothing leaves the ends of a log's jobs unchanged to the bit."""
    random = Random(seed)
    clock_ghz = random.choice([1.0, 2.1, 2.4, 3.3, random.uniform(0.5, 4.0)])
    plain = Processor(64, clock_ghz)
    contended = Processor(64, clock_ghz, contention=MANY_CORES)
    run_s = [float(random.randint(1, 5000)) for _ in range(20)]
    jobs = jobs_of(*[(float(at_s), each_s, 1) for at_s, each_s in enumerate(run_s)])
    rules = Rules(reference_ghz=clock_ghz, kill_at_walltime=True)
    one, other = (
        simulate(Platform((NodeGroup(1, (processor,)),)), jobs, "fcfs", rules).recording
        for processor in (plain, contended)
    )
    assert one.end_s == other.end_s
    assert one.state == other.state
    assert {STATES[state] for state in one.state} == {"completed"}


@pytest.mark.parametrize(
    ("tasks", "requested_s", "end_s", "state"),
    [
        (1, 10.0, 10.0, "completed"),
        (1, 9.9, 9.9, "timeout"),
        (2, 16.0, 16.0, "completed"),
        (2, 15.9, 15.9, "timeout"),
        (2, 99.0, 16.0, "completed"),
    ],
)
def test_walltime(tasks: int, requested_s: float, end_s: float, state: str) -> None:
    """A job that ends exactly at its requested time is completed, slowed or not."""
    work = Work(10, 1000, {0: tasks}, requested_s=requested_s)
    simulation = run_works(Platform((node(2),)), work, rules=Rules(kill_at_walltime=True))
    assert (ends(simulation), states(simulation)) == ([end_s], [state])


# --- tasks that end together ------------------------------------------------------------------


def test_a_task_that_ends_at_a_release_has_no_work_left() -> None:
    """A task that ends at an instant does not count for the speeds of that instant."""
    # On node 0, 2 GHz, three tasks that ask for 100 MB/s each run at 1 - 150 / 300 = 0.5.
    constants = Contention(150.0, -1.0 / 300.0, 0.0, 0.0, 50.0, 0.0)
    platform = Platform((node(3, 2.0, constants), node(1, 0.5, None), node(1, 0.5, None)))
    # Job 1 has done its part there at 5, and is over at 10; just then job 2 has done its part
    # there, but is over at 20 only. From 10 on, job 3 is the only task with work left.
    simulation = run_works(
        platform,
        Work(5, 250, {0: 1, 1: 1}),
        Work(10, 500, {0: 1, 2: 1}),
        Work(100, 5000, {0: 1}),
    )
    assert ends(simulation) == pytest.approx([10.0, 20.0, 55.0], rel=1e-12)


@MANY
@given(st.integers(0, 2**32))
def test_ends_at_one_instant_come_in_one_batch(seed: int) -> None:
    """Ends of several shares and jobs at one instant are returned in one batch."""
    ops = float(Random(seed).randint(10**9, 10**12))
    all_stalled = Contention(0.0, -1.0, -1000.0, 0.0, 1.0, 0.0)
    platform = Platform((node(16, 1.0, all_stalled), node(16, 2.0, all_stalled)))
    jobs = job_table(
        job_id=[1, 2, 3],
        requested_s=1e6,
        cores=[2, 1, 1],
        ops=[ops, ops, 2 * ops],
        memory_volume_mb=ops / 1e6,
    )
    simulation = Simulation(platform, jobs)
    simulation.advance()
    simulation.advance([AllocateJob(1, [0, 1], [1, 1]), AllocateJob(2, [0]), AllocateJob(3, [1])])
    assert simulation.recording.over == 3
    assert len(set(simulation.recording.end_s)) == 1


# --- invalid constants ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "dc_mbps", "dd_mbps", "sound"),
    [
        (9, 50_000, 6000, True),
        (10, 50_000, 6000, False),  # 50,000 - 9 * 6000 < 0
        (5, 40, 10, False),  # just 0
        (4, 40, 10, True),
        (1, 0, 0, False),
        (1, 1, 1000, True),
        (4, 0, -1, False),  # 0 for a single task
        (4, -1500, -1000, False),  # below 0 for two tasks, above 0 for four
        (4, 1, -1000, True),
    ],
)
def test_invalid_constants_are_rejected(
    cores: int, dc_mbps: float, dd_mbps: float, sound: bool
) -> None:
    """Constants with dc - k * dd <= 0 for a possible number of tasks are rejected."""
    constants = Contention(100.0, -1.0, 0.0, 0.0, dc_mbps, dd_mbps)
    processor = Processor(cores, contention=constants)
    platform = Platform((NodeGroup(2, (Processor(1), processor)),))
    jobs = table_of([Work(1, 0, {0: 1})])
    if sound:
        check_contention(processor)
        Simulation(platform, jobs)
        return
    with pytest.raises(ValueError, match=f"a processor of {cores} cores"):
        check_contention(processor)
    with pytest.raises(ValueError, match=f"a processor of {cores} cores"):
        Simulation(platform, jobs)


@pytest.mark.parametrize("name", ["da", "db_mbps", "dc_mbps", "dd_mbps"])
def test_constants_that_are_not_finite_are_rejected(name: str) -> None:
    """Constants that are not finite are rejected."""
    constants = msgspec.structs.replace(HALVING, **{name: math.nan})
    with pytest.raises(ValueError, match="contention"):
        check_contention(Processor(4, contention=constants))


# --- what an event costs ----------------------------------------------------------------------


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[SharedProcessor]:
    """Return a list that receives the processor of each method call."""
    seen: list[SharedProcessor] = []

    def watch(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: SharedProcessor, *args: Any) -> Any:
            seen.append(self)
            return method(self, *args)

        return wrapped

    for name in ("add", "remove", "end_due"):
        monkeypatch.setattr(SharedProcessor, name, watch(getattr(SharedProcessor, name)))
    return seen


def test_an_event_accesses_its_own_processors_only(
    looked_at: list[SharedProcessor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start or an end accesses the processors of its own job only."""
    nodes = 50
    platform = Platform((NodeGroup(nodes, (Processor(4, contention=HALVING),)),))
    works = [Work(1000, 1e5, {at: 2}) for at in range(nodes)] + [Work(1, 10, {7: 1})]
    simulation = Simulation(platform, table_of(works))
    simulation.advance()
    simulation.advance([AllocateJob(at + 1, [at]) for at in range(nodes)], wake_on=["job_started"])
    del looked_at[:]
    speeds: list[float] = []

    def count(*args: Any) -> float:
        speeds.append(task_speed(*args))
        return speeds[-1]

    monkeypatch.setattr(execution, "task_speed", count)
    simulation.advance([AllocateJob(nodes + 1, [7])], wake_on=["job_started"])
    assert len(looked_at) == 1
    assert 1 <= len(speeds) <= 2
    simulation.advance(wake_on=["job_completed"])
    assert len(set(looked_at)) == 1
    assert len(speeds) <= 3
