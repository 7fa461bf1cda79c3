"""The study of Deep-EAS: its trainings, the jobs held back, the optimum, and its tables."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from hpcosim_client import View
from hpcosim_experiments.statistics.rows import Row, read_rows
from hpcosim_papers.deep_eas.agent.network import NEVER, Scene
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines
from hpcosim_papers.deep_eas.agent.step_runs import weights
from hpcosim_papers.deep_eas.bound import optimum
from hpcosim_papers.deep_eas.environments.step_machines import step_jobs
from hpcosim_papers.deep_eas.study import lengths, optima, sweep
from hpcosim_papers.deep_eas.study.cases import (
    BUSIEST,
    COLUMNS,
    CURVES,
    EVERY_LENGTH,
    LENGTH_SEEDS,
    MEASURE,
    SEEDS,
    SWEEPS,
    Case,
    DeepEasTask,
    Sweep,
    every_length_of,
    model_name,
    normalised_edp,
    trainings,
)
from hpcosim_papers.deep_eas.study.held_jobs import DecisionRecord, find_held_jobs
from hpcosim_papers.studies.study import (
    Request,
    papers_folder,
    plan,
    reproduce_study,
    scenario_path,
)
from hpcosim_schedulers.heuristics.job_node import run_time_scale
from support.step_machines import Drawn, machines, table

FOLDER = papers_folder() / "deep_eas"
CORES = 4
SCORES = {0: 56.60, 1: 55.80, 2: 62.73, 3: 59.09, 4: 61.19}
"""Mean normalised energy-delay products of the seeds of `queue` on sequences of 13 steps."""
ALL = list(dict.fromkeys(task for study in (*SWEEPS, CURVES) for task in trainings(study)))


def test_what_is_trained() -> None:
    """Each form has three seeds at the busiest rate, and each training its own name."""
    assert len({task.name for task in ALL}) == len(ALL)
    for form in ("pairs", "picture", "paper"):
        seeds = [one.seed for one in ALL if (one.scenario, one.form) == (BUSIEST, form)]
        assert sorted(seeds) == list(SEEDS)
    for name, study in SWEEPS.items():
        for case in study.cases:
            assert case.path.exists(), name
            assert DeepEasTask(case.scenario, "pairs", 0) in ALL


def least_of_all(drawn: list[Drawn]) -> float:
    """Return the minimum sum of energy-delay products over all orders and machines.

    An optimal schedule is among those in which jobs, in some order, each start as early as possible
    on some machine.
    """
    view = View(machines())
    about = Machines(DeepEas(cores=CORES), view.nodes.dynamic_w, run_time_scale(view))
    jobs = step_jobs(about.settings, about.scale, [table(drawn)])
    cost, best = weights(about, jobs)[0], np.inf
    count = len(drawn)
    for order in itertools.permutations(range(count)):
        for on in itertools.product((0, 1), repeat=count):
            used, came = np.zeros((2, 80), dtype=int), 0.0
            for job in order:
                machine, cores = on[job], drawn[job].cores
                ran = int(jobs.actual[0, machine, job])
                step = drawn[job].submit_s
                while (used[machine, step : step + ran] > CORES - cores).any():
                    step += 1
                used[machine, step : step + ran] += cores
                came += cost[machine, job] * (step + ran - drawn[job].submit_s)
            best = min(best, came)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_the_best_of_all_schedules(seed: int) -> None:
    """The solver finds and proves the optimum of four jobs."""
    pytest.importorskip("scipy")
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, CORES + 1, (4, 3)).tolist()
    drawn = [Drawn(step, *some) for step, some in zip((0, 0, 1, 2), numbers, strict=True)]
    view = View(machines())
    about = Machines(DeepEas(cores=CORES), view.nodes.dynamic_w, run_time_scale(view))
    bound = optimum(about, step_jobs(about.settings, about.scale, [table(drawn)]), 40)
    assert bound.found == pytest.approx(least_of_all(drawn))
    assert bound.least == pytest.approx(bound.found, rel=1e-4)


def scene(rows: list[list[list[int]]]) -> Scene:
    """Return observations of two machines and two slots, with jobs of 2 and 12 steps (4 and 24)."""
    moments = len(rows)
    there = np.array(rows).max(axis=1) > NEVER
    return Scene(
        np.array([10.0, 1.0]),
        np.zeros((moments, 2, 30), dtype=np.int16),
        np.where(there, 1, 0).astype(np.int16),
        np.zeros((moments, 2), dtype=np.int16),
        np.array([[[2, 12], [4, 24]]] * moments, dtype=np.int16),
        np.array(rows, dtype=np.int16),
        np.zeros(moments, dtype=np.int16),
        np.zeros(moments, dtype=np.int16),
        np.zeros((moments, 2), dtype=np.int32),
        np.zeros(moments, dtype=np.int32),
        np.zeros((moments, 3), dtype=np.int16),
    )


def test_what_is_held_back() -> None:
    """A short job bound at a higher cost and a long job held once are counted.

    The short job costs 10 x 2 x 2 on machine 0, where it is bound, and 1 x 4 x 4 on machine 1.
    """
    both = [[0, 0], [0, 0]]
    long = [[NEVER, 0], [NEVER, 0]]
    observed = scene([both, long, long])
    hold = 4
    action, now_s = np.array([0, hold, 3]), np.array([0.0, 0.0, 1.0])
    found = find_held_jobs(DecisionRecord(observed, action, now_s, waiting=2))
    assert found.jobs.tolist() == [2, 12]
    assert found.costlier.tolist() == [2]
    assert (found.held.tolist(), found.once.tolist(), found.steps) == ([12], [12], 0.5)


def test_a_job_that_is_held_twice_is_one_job() -> None:
    """A job held at two steps is one job, identified by its submission time."""
    long = [[NEVER, 0], [NEVER, 0]]
    observed = scene([long, long])._replace(waited=np.array([[0, 3], [0, 4]], dtype=np.int16))
    record = DecisionRecord(observed, np.array([4, 4]), np.array([3.0, 4.0]), waiting=4)
    found = find_held_jobs(record)
    assert (found.held.tolist(), found.once.tolist(), found.steps) == ([12, 12], [12], 0.5)


@pytest.mark.parametrize("name", SWEEPS)
def test_an_experiment_has_the_cases_of_its_sweep(name: str, tmp_path: Path) -> None:
    """The file has each case with its scenario, the heuristics, and the given agent elsewhere."""
    model = tmp_path / "agent.safetensors"
    shutil.copyfile(FOLDER / model_name(BUSIEST, "pairs"), model)
    planned = plan(sweep.study_of(name, SWEEPS[name], [], model))
    cases = {case.label: f"../{case.scenario}.yaml" for case in SWEEPS[name].cases}
    assert {value.label: value.value for value in planned.axes["case"].values} == cases
    assert len(planned.runs) == len(cases) * (len(sweep.HEURISTICS) + 1)
    agents = {
        run.task.chosen.name for run in planned.runs if run.labels["scheduler"] == "elsewhere"
    }
    assert agents == {f"deep-eas:{model}"}


VALUES = ("lambda_0.9", "pairs", 0, 100.0, 50, 40, 500.0, 400.0, 150.0, 160.0)
AGENT: Row = dict(zip(COLUMNS, VALUES, strict=True))


def test_a_comparison_has_all_values() -> None:
    """A table has means, changes from ESJF, the range over seeds, and published values."""
    study = Sweep("Rates", "rate", (Case("lambda_0.9", "0.9", -42.88), Case("lambda_0.7", "0.7")))
    agents: list[Row] = [
        AGENT,
        {**AGENT, "seed": 1, "best": 170.0, "untrained_drawn": 410.0},
        {**AGENT, "scenario": "lambda_0.7"},
    ]
    heuristics = dict.fromkeys(sweep.HEURISTICS, 300.0) | {"esjf": 200.0}
    found = []
    for case, elsewhere in zip(study.cases, (160.0, 180.0), strict=True):
        values = heuristics | {sweep.TRANSFERRED: elsewhere}
        rows = [{"scheduler": name, MEASURE: value} for name, value in values.items()]
        found.append(sweep.compared(case, rows, agents))
    assert sweep.summary(study, found).splitlines()[4:] == [
        "| rate | 0.9 | 0.7 |",
        "|---|---|---|",
        "| esjf | 200.00 | 200.00 |",
        *(f"| {name} | 300.00 (+50.0 %) | 300.00 (+50.0 %) |" for name in sweep.HEURISTICS[1:]),
        "| Deep-EAS, pairs (ours) | **160.00** (-20.0 %), 150.00 to 170.00, 2 seeds "
        "| **150.00** (-25.0 %) |",
        "| before training | 405.00 | 400.00 |",
        "| ours, trained on lambda_0.9 alone | 160.00 (-20.0 %) | 180.00 (-10.0 %) |",
        "| Deep-EAS, published | (-42.88 %) |  |",
    ]


def test_results_beside_the_scenarios_are_of_all_that_is_trained() -> None:
    """Each training has a row, a learning curve, and a network."""
    rows = read_rows(FOLDER / "agents.csv", COLUMNS)
    assert [DeepEasTask(row["scenario"], row["form"], row["seed"]) for row in rows] == ALL
    for task in ALL:
        assert sweep.validations(sweep.curve_of(task, FOLDER))
        assert (FOLDER / task.model).exists()


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["perfect_0.1", "lambda_0.1"])  # short sequences
def test_shipped_models_have_the_published_values(scenario: str) -> None:
    """A shipped network reproduces its value to 0.1 %; floating-point sums differ by machine."""
    rows = read_rows(FOLDER / "agents.csv")
    best = next(row["best"] for row in rows if row["scenario"] == scenario)
    scheduler = f"deep-eas:{FOLDER / model_name(scenario, 'pairs')}"
    value = normalised_edp(scenario_path("deep_eas", scenario), scheduler)
    assert value == pytest.approx(best, rel=1e-3)


@pytest.mark.slow
def test_learning_curves_make_their_files(tmp_path: Path) -> None:
    """The summary is the published one, with a row for each training; the figure is a PNG."""
    reproduce_study(Request(CURVES, tmp_path))
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    rows = [line for line in summary.splitlines() if line.startswith("| lambda")]
    assert len(rows) == len(trainings(CURVES))
    assert summary == (FOLDER / CURVES / "summary.md").read_text(encoding="utf-8")
    assert (tmp_path / f"{CURVES}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_no_schedule_is_below_the_optimum(tmp_path: Path) -> None:
    """No schedule of ESJF or of the agent is below the lower bound, on small sequences."""
    pytest.importorskip("scipy")
    model = FOLDER / model_name(BUSIEST, "pairs")
    case = Case(BUSIEST, BUSIEST)
    found = optima.find_optima(case, model, FOLDER / EVERY_LENGTH, lengths=(3, 5), sequences=3)
    assert [row["steps"] for row in found] == [3, 5]
    for row in found:
        assert row["least"] <= row["found"] * (1 + 1e-9)
        assert row["found"] <= min(row["esjf"], row["agent"]) * (1 + 1e-9)
    optima.draw(tmp_path / "optimum.png", found)
    searched = optima.find_searches(case, model, FOLDER / EVERY_LENGTH, steps=3, sequences=3)
    assert min(row["edp"] for row in searched) >= found[0]["least"] * (1 - 1e-9)
    assert "| 3 |" in (text := optima.summary(found[:1], searched))
    assert all(f"| {row['agent']} | {row['knows']} |" in text for row in searched)


def test_the_shipped_agent_for_all_lengths_is_one_of_the_seeds() -> None:
    """The network for all lengths is that of one of its seeds."""
    networks = [(FOLDER / every_length_of(seed)).read_bytes() for seed in LENGTH_SEEDS]
    assert len(set(networks)) == len(LENGTH_SEEDS)
    assert (FOLDER / EVERY_LENGTH).read_bytes() in networks


@pytest.mark.slow
def test_agents_of_all_seeds_are_compared() -> None:
    """The quotient is that of the mean of the seeds; none of them is below the optimum."""
    pytest.importorskip("scipy")
    case = Case(BUSIEST, BUSIEST)
    few = lengths.SequenceSet(4, 0.9, 3, "esjf")
    (row,) = lengths.compare(case, FOLDER, [few])
    means = [row[f"mean seed {seed}"] for seed in LENGTH_SEEDS]
    quotient = np.mean(means) / row["mean heuristic"]
    assert row[f"quotient {lengths.SEEDS}"] == pytest.approx(quotient)
    gaps = lengths.find_gaps(case, FOLDER, sequences=1)
    assert min(gaps[f"mean seed {seed}"] for seed in LENGTH_SEEDS) >= gaps["least"] * (1 - 1e-9)
    text = lengths.summary([row], [], gaps)
    assert f"{np.mean(means):.1f} (sd {np.std(means, ddof=1):.1f})" in text


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "expected"), SCORES.items())
def test_shipped_seeds_have_their_scores(seed: int, expected: float) -> None:
    """A network has its mean on the sequences of 13 steps that choose, to 0.1 %."""
    (value, _) = lengths.score(
        Case(BUSIEST, BUSIEST), FOLDER / every_length_of(seed), lengths.CHOICE[1:2]
    ).values()
    assert value == pytest.approx(expected, rel=1e-3)
