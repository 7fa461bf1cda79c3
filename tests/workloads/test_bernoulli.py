"""The workload of Deep-EAS: distributions, columns and scenarios."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import Hello
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_server.errors import SessionRefused
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.synthetic.bernoulli import bernoulli
from hpcosim_workloads.table import COLUMNS, JobTable
from support.paths import SCENARIOS

MANY = 2_000  # sequences
STEPS = 60
APART_S = 2000.0
SIGMAS = 5.0
DEEP_EAS = SCENARIOS / "papers" / "deep_eas"
RATES = ("0.1", "0.3", "0.5", "0.7", "0.9")
NAMES = (
    *(f"lambda_{rate}" for rate in RATES),
    *(f"perfect_{rate}" for rate in RATES),
    *("beta_0.2", "beta_0.8"),
)


def table(seed: int = 1, **changed: Any) -> JobTable:
    """Return a workload with the paper's arguments, and changed ones."""
    arguments: dict[str, Any] = {
        "arrival_probability": 0.7,
        "short_probability": 0.5,
        "short_run_s": (1, 3),
        "long_run_s": (10, 15),
        "cores": (1, 10),
        "accuracy": 4.0,
        "slowdown": 1.0,
        "steps": STEPS,
        "sequences": MANY,
        "apart_s": APART_S,
    }
    return bernoulli(np.random.default_rng(seed), **(arguments | changed))


def columns(jobs: JobTable) -> dict[str, list[Any]]:
    """Return the columns of a table as lists."""
    return {name: getattr(jobs, name).tolist() for name in COLUMNS}


def rows(jobs: JobTable, *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of a table, job by job."""
    return list(zip(*(getattr(jobs, name).tolist() for name in names), strict=True))


def check_share(hits: Any, share: float) -> None:
    """Check that the share of true values is within five standard deviations."""
    sigma = math.sqrt(share * (1 - share) / len(hits))
    assert np.mean(hits) == pytest.approx(share, abs=SIGMAS * sigma)


@given(
    seed=st.integers(0, 2**32),
    arrival_probability=st.floats(0.2, 1.0),
    short_probability=st.floats(0.0, 1.0),
    short_run_s=st.tuples(st.integers(1, 9), st.integers(0, 9)),
    long_run_s=st.tuples(st.integers(20, 99), st.integers(0, 99)),
    cores=st.tuples(st.integers(1, 9), st.integers(0, 9)),
    accuracy=st.none() | st.floats(0.01, 100.0),
    steps=st.integers(40, 90),
    sequences=st.integers(1, 4),
    idle_s=st.floats(0.0, 1e6),
)
def test_every_job_is_within_the_ranges(
    seed: int,
    arrival_probability: float,
    short_probability: float,
    short_run_s: tuple[int, int],
    long_run_s: tuple[int, int],
    cores: tuple[int, int],
    accuracy: float | None,
    steps: int,
    sequences: int,
    idle_s: float,
) -> None:
    """All columns are within their ranges, and jobs are sorted by submission."""
    short_s, long_s, sizes = (
        (least, least + more) for least, more in (short_run_s, long_run_s, cores)
    )
    apart_s = steps + idle_s
    drawn = table(
        seed,
        arrival_probability=arrival_probability,
        short_probability=short_probability,
        short_run_s=short_s,
        long_run_s=long_s,
        cores=sizes,
        accuracy=accuracy,
        steps=steps,
        sequences=sequences,
        apart_s=apart_s,
    )
    assert 0 < len(drawn) <= steps * sequences
    assert np.all(np.diff(drawn.submit_s) > 0)
    times_s = {number * apart_s + step for number in range(sequences) for step in range(steps)}
    assert set(drawn.submit_s.tolist()) <= times_s
    assert np.all((drawn.cores >= sizes[0]) & (drawn.cores <= sizes[1]))
    assert np.all((drawn.run_s >= 1) & (drawn.run_s % 1 == 0))
    means_s = {*range(short_s[0], short_s[1] + 1), *range(long_s[0], long_s[1] + 1)}
    assert set(drawn.requested_s.tolist()) <= means_s
    if accuracy is None:
        assert drawn.run_s.tolist() == drawn.requested_s.tolist()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_arrival_probability_at_each_step(rate: float) -> None:
    """Each step, also the first and the last, has an arrival with the probability."""
    jobs = table(arrival_probability=rate)
    came = np.zeros((MANY, STEPS), dtype=bool)
    came[(jobs.submit_s // APART_S).astype(int), (jobs.submit_s % APART_S).astype(int)] = True
    assert came.sum() == len(jobs)
    check_share(came.ravel(), rate)
    for step in range(STEPS):
        check_share(came[:, step], rate)


def test_arrivals_are_independent() -> None:
    """Arrivals at consecutive steps are independent."""
    jobs = table()
    came = np.zeros((MANY, STEPS), dtype=bool)
    came[(jobs.submit_s // APART_S).astype(int), (jobs.submit_s % APART_S).astype(int)] = True
    check_share((came[:, ::2] & came[:, 1::2]).ravel(), 0.7 * 0.7)


def test_arrival_probability_of_1() -> None:
    """With the probability 1 a job arrives at every step."""
    jobs = table(arrival_probability=1.0, sequences=2)
    assert jobs.submit_s.tolist() == [*range(60), *range(2000, 2060)]


@pytest.mark.parametrize("short", [0.2, 0.5, 0.8])
def test_each_mean_is_as_likely_as_uniform_makes_it(short: float) -> None:
    """Mean run times are uniform: 1, 2 or 3 s for short jobs, 10 to 15 s for long ones."""
    requested_s = table(short_probability=short).requested_s
    for mean_s in (1, 2, 3):
        check_share(requested_s == mean_s, short / 3)
    for mean_s in range(10, 16):
        check_share(requested_s == mean_s, (1 - short) / 6)


@pytest.mark.parametrize(("short", "means_s"), [(1.0, {1, 2, 3}), (0.0, set(range(10, 16)))])
def test_all_jobs_may_be_of_one_kind(short: float, means_s: set[int]) -> None:
    """With the probability 1 all jobs are short, with 0 all are long."""
    assert set(table(short_probability=short, sequences=20).requested_s.tolist()) == means_s


def test_each_size_is_as_likely() -> None:
    """Cores are uniform, ends included, for short and long jobs."""
    jobs = table()
    for size in range(1, 11):
        check_share(jobs.cores == size, 0.1)
        check_share(jobs.cores[jobs.requested_s <= 3] == size, 0.1)


@pytest.mark.parametrize("accuracy", [1.0, 4.0, 100.0])
def test_run_times_are_normal_about_their_mean(accuracy: float) -> None:
    """Run times of jobs of 12 s have a rounded normal distribution."""
    jobs = table(accuracy=accuracy)
    run_s = jobs.run_s[jobs.requested_s == 12]
    deviation_s = math.sqrt(12 / accuracy)
    for second in range(6, 19):
        edges = [(second + half - 12) / deviation_s for half in (-0.5, 0.5)]
        below, up_to = (0.5 * (1 + math.erf(edge / math.sqrt(2))) for edge in edges)
        check_share(run_s == second, up_to - below)


def test_a_run_time_is_never_below_a_second() -> None:
    """Run times that would be rounded to 0 or below are 1 s."""
    jobs = table(accuracy=1.0)
    run_s = jobs.run_s[jobs.requested_s == 1]
    assert run_s.min() == 1
    check_share(run_s == 1, 0.5 * (1 + math.erf(0.5 / math.sqrt(2))))


def test_accuracy_changes_nothing_but_run_times() -> None:
    """Another accuracy keeps submission times, cores and requests."""
    names = ("job_id", "submit_s", "requested_s", "cores")
    perfect, rough = table(accuracy=None), table(accuracy=0.5)
    assert rows(perfect, *names) == rows(rough, *names)
    assert perfect.run_s.tolist() != rough.run_s.tolist()


@pytest.mark.parametrize("accuracy", [None, 4.0])
def test_slowdown_multiplies_both_times_and_nothing_else(accuracy: float | None) -> None:
    """Run and requested times are multiplied by the slowdown, exactly."""
    fastest, slowest = (table(accuracy=accuracy, slowdown=slowdown) for slowdown in (1.0, 2.5))
    assert rows(slowest, "job_id", "submit_s", "cores") == rows(
        fastest, "job_id", "submit_s", "cores"
    )
    assert slowest.run_s.tolist() == (2.5 * fastest.run_s).tolist()
    assert slowest.requested_s.tolist() == (2.5 * fastest.requested_s).tolist()


def test_more_arrivals_have_all_jobs_of_less() -> None:
    """With one seed the jobs of a lower rate are among those of a higher rate."""
    names = ("submit_s", "requested_s", "run_s", "cores")
    few, many = (set(rows(table(arrival_probability=rate), *names)) for rate in (0.3, 0.9))
    assert few < many


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 12))
def test_a_sequence_is_the_same_however_many_there_are(seed: int, some: int, more: int) -> None:
    """The jobs of fewer sequences are the first of more sequences."""
    few, many = table(seed, sequences=some), table(seed, sequences=some + more)
    first = many.take(many.submit_s < some * APART_S)
    assert columns(first) == columns(few)


def test_a_sequence_is_the_same_however_far_apart() -> None:
    """Another `apart_s` changes only submission times."""
    names = ("job_id", "requested_s", "run_s", "cores")
    near, far = table(apart_s=60.0, sequences=5), table(apart_s=1e9, sequences=5)
    assert rows(near, *names) == rows(far, *names)
    assert (near.submit_s % 60.0).tolist() == (far.submit_s % 1e9).tolist()


@pytest.mark.parametrize(
    ("changed", "right"),
    [
        ({"arrival_probability": -0.1}, "it must be from 0 to 1"),
        ({"arrival_probability": 1.1}, "it must be from 0 to 1"),
        ({"arrival_probability": math.nan}, "it must be from 0 to 1"),
        ({"arrival_probability": 0.0}, "no arrival in 2 x 60 steps"),
        ({"short_probability": -0.1}, "it must be from 0 to 1"),
        ({"short_probability": 1.1}, "it must be from 0 to 1"),
        ({"short_run_s": (0, 3)}, "1 <= min <= max"),
        ({"short_run_s": (4, 3)}, "1 <= min <= max"),
        ({"long_run_s": (0, 3)}, "1 <= min <= max"),
        ({"long_run_s": (10, 10**16)}, "1 <= min <= max <= 1000000000000000.0"),
        ({"cores": (0, 4)}, "1 <= min <= max"),
        ({"cores": (5, 4)}, "1 <= min <= max"),
        ({"accuracy": 0.0}, "above 0 and finite, or null: perfect"),
        ({"accuracy": -1.0}, "above 0 and finite, or null: perfect"),
        ({"accuracy": math.inf}, "above 0 and finite, or null: perfect"),
        ({"slowdown": 0.9}, "it must be 1 or more"),
        ({"slowdown": math.nan}, "it must be 1 or more"),
        ({"slowdown": math.inf}, "every requested time at most 1000000000000000.0 s"),
        ({"slowdown": 1e14}, "every requested time at most 1000000000000000.0 s"),
        ({"steps": 0}, "it must be 1 or more"),
        ({"sequences": 0}, "it must be 1 or more"),
        ({"sequences": 3, "max_jobs": 179}, "180 jobs, the maximum is 179"),
        ({"apart_s": 59.0}, "at least the 60 steps of a sequence"),
        ({"apart_s": math.inf}, "finite"),
        ({"apart_s": 1e15}, "end after the maximum"),
    ],
)
def test_an_argument_out_of_range_is_refused(changed: dict[str, Any], right: str) -> None:
    """The error names the argument and the valid range."""
    with pytest.raises(WorkloadError, match=right) as caught:
        table(**({"sequences": 2} | changed))
    assert str(caught.value).startswith(next(iter(changed)))


def test_sequences_without_a_job_are_left_out() -> None:
    """Sequences without arrivals do not change the times of the others."""
    jobs = table(arrival_probability=0.02)
    numbers = jobs.submit_s // APART_S
    assert len(set(numbers.tolist())) < MANY
    assert numbers[-1] > MANY * 0.98


# --- in scenarios ---------------------------------------------------------------------------


def scenario(folder: Path, model: str) -> Path:
    """Write a scenario of the model."""
    path = folder / "x.yaml"
    path.write_text(
        "name: x\nseed: 3\nplatform:\n"
        "  nodes: [{count: 2, processors: [{cores: 10, static_w: 1, dynamic_w: 1}]}]\n"
        f"workload:\n  synthetic: {{model: bernoulli, {model}}}\n  placement: one_node\n"
    )
    return path


def test_a_scenario_draws_them_as_the_paper_has_them(tmp_path: Path) -> None:
    """The defaults of a scenario are the paper's, with one sequence."""
    path = scenario(tmp_path, "arrival_probability: 0.6")
    jobs = jobs_of(load_scenario(path), tmp_path)
    drawn = table(3, arrival_probability=0.6, sequences=1)
    assert columns(jobs) == columns(drawn) | {"placement": [1] * len(drawn)}


def test_a_scenario_sets_every_argument(tmp_path: Path) -> None:
    """A scenario can set every argument."""
    model = (
        "arrival_probability: 1, short_probability: 0.1, short_run_s: [2, 4], "
        "long_run_s: [20, 30], cores: [2, 6], accuracy: null, slowdown: 3, steps: 7, sequences: 2, "
        "apart_s: 9.5"
    )
    jobs = jobs_of(load_scenario(scenario(tmp_path, model)), tmp_path)
    drawn = table(
        3,
        arrival_probability=1,
        short_probability=0.1,
        short_run_s=(2, 4),
        long_run_s=(20, 30),
        cores=(2, 6),
        accuracy=None,
        slowdown=3.0,
        steps=7,
        sequences=2,
        apart_s=9.5,
    )
    assert columns(jobs) == columns(drawn) | {"placement": [1] * 14}


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ("sequences: 2", "`arrival_probability` is missing"),
        ("arrival_probability: 2", r"workload.synthetic.arrival_probability: expected"),
        ("arrival_probability: 1, short_probability: -1", r"synthetic.short_probability: expected"),
        ("arrival_probability: 1, accuracy: 0", r"workload.synthetic.accuracy: expected"),
        ("arrival_probability: 1, slowdown: 0.9", r"workload.synthetic.slowdown: expected"),
        ("arrival_probability: 1, slowdown: 1e4, long_run_s: [1, 1000000000000]", "slowdown is"),
        ("arrival_probability: 1, short_run_s: [0, 2]", r"synthetic.short_run_s\[0\]: expected"),
        ("arrival_probability: 1, long_run_s: [1.5, 2]", r"synthetic.long_run_s\[0\]: expected"),
        ("arrival_probability: 1, cores: [3, 2]", r"cores is \(3, 2\); it must be"),
        ("arrival_probability: 1, steps: 0", r"workload.synthetic.steps: expected"),
        ("arrival_probability: 1, sequence: 1", "did you mean 'sequences'?"),
        ("arrival_probability: 0", "the workload has no jobs"),
        ("arrival_probability: 1, sequences: 17", "1020 jobs, the maximum is 1000"),
    ],
)
def test_a_bad_model_is_told_by_field(tmp_path: Path, model: str, what: str) -> None:
    """The error names the field and the valid range."""
    with pytest.raises((ScenarioError, WorkloadError), match=what):
        Library([scenario(tmp_path, model)], max_jobs=1000)


def test_a_client_cannot_request_too_many_jobs(tmp_path: Path) -> None:
    """Too many jobs are an error before they are drawn."""
    library = Library([scenario(tmp_path, "arrival_probability: 1")], max_jobs=1000)
    overrides: dict[str, bool | int | float | str] = {"workload.synthetic.sequences": 10**8}
    with pytest.raises(SessionRefused, match="the maximum is 1000"):
        library.open(Hello(versions=[1], client="a client", overrides=overrides))


def test_scenarios_are_those_of_the_paper() -> None:
    """There is a scenario for each rate and share of the paper, with its cluster and one seed."""
    found = {
        path.stem: load_scenario(path)
        for path in DEEP_EAS.glob("*.yaml")
        if not path.stem.startswith("machines_")  # those are our own
    }
    assert set(found) == set(NAMES)
    first = found["lambda_0.1"]
    for name, one in found.items():
        kind, value = name.split("_")
        assert one.name == f"deep-eas-{kind}-{value}"
        assert (one.seed, one.platform) == (first.seed, first.platform)
        clocks_ghz = [group.processors[0].clock_ghz for group in one.platform.nodes]
        assert (clocks_ghz, one.workload.reference_clock_ghz) == ([2.0, 1.0], 1.0)
        assert one.workload.synthetic == Bernoulli(
            arrival_probability=0.7 if kind == "beta" else float(value),
            short_probability=float(value) if kind == "beta" else 0.5,
            accuracy=None if kind == "perfect" else 4.0,
            slowdown=2.0,
            sequences=150,
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_scenario_runs_sequence_by_sequence(name: str) -> None:
    """Every job of a sequence ends before the next sequence begins."""
    library = Library([DEEP_EAS / f"{name}.yaml"])
    opened = open_scenario(library.first, library.first_jobs, "fcfs")
    metrics = run_in_process(opened, make_policy("fcfs"))
    recording, jobs = opened.simulation.recording, library.first_jobs
    assert metrics["jobs_completed"] == len(jobs) == len(recording)
    assert np.array_equal(
        np.array(recording.end_s) // APART_S, np.array(recording.submit_s) // APART_S
    )
    energies_j = opened.simulation.record().job_energies_j
    for row, job in enumerate(jobs.rows()):
        [node] = recording.nodes_of(row)
        run_s = recording.end_s[row] - recording.start_s[row]
        assert run_s == (0.5, 1.0)[node] * job.run_s
        assert energies_j[row] == pytest.approx(job.cores * (9.809, 1.0)[node] * run_s, rel=1e-12)
    assert {node for row in range(len(jobs)) for node in recording.nodes_of(row)} == {0, 1}
    assert metrics["energy_j"] == pytest.approx(sum(energies_j), rel=1e-9)


def test_longest_sequence_ends_before_the_next() -> None:
    """The longest sequence ends before the next one: long jobs of ten cores, one by one."""
    jobs = table(
        arrival_probability=1.0,
        short_probability=0.0,
        long_run_s=(15, 15),
        cores=(10, 10),
        slowdown=2.0,
    )
    number = (jobs.submit_s // APART_S).astype(int)
    assert (STEPS - 1 + np.bincount(number, weights=jobs.run_s)).max() < APART_S
