"""Rules, agents and search on workloads that no agent was trained on.

The workloads are Experiments 1 to 4 with other orders, mixes and loads. Agents are corrected rules,
see `corrections`: one for each experiment and objective.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.statistics.bootstrap import Bootstrap, Estimate, estimate, mean
from hpcosim_experiments.statistics.rows import Row, Rows, where, write_rows
from hpcosim_papers.ineps.agent.policy import BEST, Rule, load_pairing
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_papers.ineps.learners.corrections import (
    ACTOR,
    CorrectedRule,
    CorrectionTraining,
    Strategy,
    objectives_of,
    pairing_task,
    read_corrected_rule,
    train_corrections,
    uncorrected,
    variant,
)
from hpcosim_papers.ineps.study.pairing import validation_of
from hpcosim_papers.studies.agents import in_parallel, keep_best, train_all
from hpcosim_papers.studies.study import Request, papers_folder, scenario_path
from hpcosim_scenarios.planning.instance import Instance
from hpcosim_scenarios.planning.lower_bound import lower_bound
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_workloads.table import JobTable

STUDY = "pairing-unseen"

KINDS = ("exp1", "exp2", "exp3", "exp4_mem", "exp4_comp", "exp4_mixed")
"""Names of the scenarios that the workloads are drawn from."""

OBJECTIVES: tuple[Objective, ...] = ("energy", "edp")
METRICS: Mapping[Objective, str] = {"energy": "energy_j", "edp": "edp_js"}

Split = Literal["validation", "final"]
SEEDS: dict[Split, int] = {"validation": 22_000_001, "final": 20_261_129}
"""Seeds of the workloads: all choices use `validation`, and `final` is for the last table only.
Trainings draw theirs from their own seeds."""

INSTANCES = 20
LOADS = (1.0, 2.0, 0.25)
"""Submission rates relative to the scenario's; a workload's number selects one in turn."""


class Unseen(NamedTuple):
    """A workload drawn from a scenario's."""

    kind: str
    split: Split
    number: int

    @property
    def load(self) -> float:
        """Submission rate relative to the scenario's."""
        return LOADS[self.number % len(LOADS)]

    @property
    def resampled(self) -> bool:
        """Whether jobs are drawn with replacement; otherwise they are in random order."""
        return self.number // len(LOADS) % 2 == 1

    def draw(self, jobs: JobTable) -> JobTable:
        """Return the workload: the scenario's submission times, divided by the load."""
        rng = np.random.default_rng([SEEDS[self.split], KINDS.index(self.kind), self.number])
        return variant(jobs, rng, self.load, resampled=self.resampled)


def unseen(kind: str, split: Split) -> list[Unseen]:
    """Return the workloads of a scenario for one use."""
    return [Unseen(kind, split, number) for number in range(INSTANCES)]


# Training: five seeds for each experiment and objective.

TRAINED_SEEDS = range(5)

SMALL = CorrectionTraining(sigma=0.3, learning_rate=0.08, generations=300)
SETTINGS: Mapping[str, CorrectionTraining] = {
    "exp1": SMALL,
    "exp2": SMALL,
    "exp3": CorrectionTraining(),
    "exp4_mem": CorrectionTraining(generations=200),
    "exp4_comp": CorrectionTraining(sigma=0.08, learning_rate=0.05),
}
TRAININGS: Mapping[tuple[str, Objective], CorrectionTraining] = {
    (kind, objective): replace(training, objective=objective)
    for kind, training in SETTINGS.items()
    for objective in OBJECTIVES
}
"""Settings, chosen by the validation of seeds 0 and 1. There is no agent of Experiment 4 mixed: its
training takes ten times as long."""

TRAINED_COLUMNS = ("experiment", "objective", "seed", "start", "validation", "cpu_s")
"""Columns of `agents.csv`: objective / the rule's on the validation workloads of the training,
of the uncorrected start and of the agent, and the processor time of the training."""


class AgentTraining(NamedTuple):
    """A training of the study."""

    kind: str
    objective: Objective
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{model_name(self.kind, self.objective)}-{self.seed}"


def model_name(kind: str, objective: Objective) -> str:
    """Return the name of the agent of an experiment, without a suffix."""
    return f"{kind}-{objective}"


def train_one(task: AgentTraining, folder: Path) -> list[Row]:
    """Train an agent into a folder, and return its row of `agents.csv`."""
    training = replace(TRAININGS[task.kind, task.objective], seed=task.seed)
    measures: list[Mapping[str, float]] = []
    train_corrections(
        scenario_path("ineps", task.kind),
        folder,
        training,
        report=lambda done: measures.append(done.measures),
    )
    found = (measures[0]["validation"], measures[-1]["best"], measures[-1]["cpu_s"])
    return [dict(zip(TRAINED_COLUMNS, (*task, *found), strict=True))]


# Evaluation.

HEURISTIC, TUNED, RULE, START, AGENT, PPO, SEARCH, BOUND = (
    *("best heuristic", "best rule", "rule", "untrained", "agent"),
    *("agent of the given workload", "search", "lower bound"),
)
"""Policies; `PPO` is the agent that was trained on the experiment's own workload."""

COMPILED = (RULE, TUNED, START, AGENT)
"""Those that the compiled engine plays."""

INTERPRETED: Mapping[Objective, Sequence[str]] = {
    "energy": (HEURISTIC, PPO, SEARCH, BOUND),
    "edp": (PPO, SEARCH),
}
NO_BOUND = ("exp4_mixed",)  # too many combinations of six kinds of jobs on a node

BEST_HEURISTICS: Mapping[str, str] = {
    "exp1": "minmin-immediate",
    "exp2": "first-high-cores-one",
    "exp3": "minmin-immediate",
    "exp4_mem": "maxmin",
    "exp4_comp": "first-high-cores",
    "exp4_mixed": "minmin-immediate",
}
"""The best of 88 deterministic heuristics on the first validation workloads, by energy."""

BEST_RULES: Mapping[tuple[str, Objective], Rule] = {
    ("exp1", "energy"): Rule("cheapest", 0.0, 0),
    ("exp1", "edp"): Rule("cheapest", 0.1, 2),
    ("exp2", "energy"): Rule("costliest", 0.1, 2),
    ("exp2", "edp"): Rule("longest", 0.1, 3),
    ("exp3", "energy"): Rule("costliest", 0.1, 3),
    ("exp3", "edp"): Rule("cheapest", 0.3, 3),
    ("exp4_mem", "energy"): Rule("longest", 0.0, 3),
    ("exp4_mem", "edp"): Rule("longest", 0.0, 3),
    ("exp4_comp", "energy"): Rule("longest", 0.3, 2),
    ("exp4_comp", "edp"): Rule("longest", 0.3, 2),
    ("exp4_mixed", "energy"): Rule("cheapest", 0.3, 3),
    ("exp4_mixed", "edp"): Rule("cheapest", 0.3, 3),
}
"""The best of the 36 rules on the 20 validation workloads of each experiment."""

COLUMNS = ("experiment", "objective", "number", "load", "resampled", "policy", "seed", "value")
"""Columns of `results.csv`; `seed` is that of the training, empty for other policies."""


class Evaluation(NamedTuple):
    """Runs of one policy on all workloads of an experiment; agents by seed are one policy."""

    kind: str
    objective: Objective
    policy: str
    agents: Mapping[int, Path]


def reproduce(request: Request) -> None:
    """Write `results.csv` and `summary.md`; of a training also the agents and `agents.csv`.

    Without a training, the shipped agents play: the best seed by validation of each.
    """
    out, shipped = request.out, papers_folder() / "ineps" / STUDY
    if request.train:
        agents = _train(request)
    else:
        agents = {
            cell: _shipped(shipped / f"{model_name(*cell)}.safetensors") for cell in TRAININGS
        }
    tasks = [
        Evaluation(kind, objective, policy, agents.get((kind, objective), {}))
        for kind in KINDS
        for objective in OBJECTIVES
        for policy in (*COMPILED, *INTERPRETED[objective])
        if (kind, objective) in TRAININGS or policy not in (START, AGENT)
        if policy != BOUND or kind not in NO_BOUND
    ]
    parts = in_parallel(evaluate, tasks, request.workers, request.name)
    rows = [row for part in parts for row in part]
    write_rows(out / "results.csv", COLUMNS, rows, digits=None)
    (out / "summary.md").write_text(summary(rows), encoding="utf-8")


def _train(request: Request) -> dict[tuple[str, Objective], dict[int, Path]]:
    """Train all agents, and copy the best of each cell; return all of them."""
    out = request.out
    tasks = [AgentTraining(*cell, seed) for cell in TRAININGS for seed in TRAINED_SEEDS]
    train_all(tasks, out, train_one, TRAINED_COLUMNS, workers=request.workers, title=request.name)
    agents = {
        cell: {seed: out / AgentTraining(*cell, seed).name / ACTOR for seed in TRAINED_SEEDS}
        for cell in TRAININGS
    }
    for cell, models in agents.items():
        folders = [path.parent for path in models.values()]
        keep_best(folders, ACTOR, out / f"{model_name(*cell)}.safetensors", validation_of)
    return agents


def _shipped(path: Path) -> dict[int, Path]:
    """Return an agent by the seed of its training."""
    _, about = load_pairing(path)
    return {int(about.training["seed"]): path}


def evaluate(task: Evaluation) -> list[Row]:
    """Run a policy on the workloads of an experiment, and return its rows of `results.csv`."""
    library = Library([scenario_path("ineps", task.kind)])
    workloads = unseen(task.kind, "final")
    drawn = [one.draw(library.first_jobs) for one in workloads]
    found: dict[int | str, Sequence[float]] = {}
    if task.policy in COMPILED:
        pairing = pairing_task(task.objective, library.first, library.first_jobs)
        played = _corrected(task, pairing, library.first_jobs)
        values = objectives_of(pairing, drawn, list(played.values()))
        found = {seed: each.tolist() for seed, each in zip(played, values, strict=True)}
    else:
        found[""] = [_interpreted(task, library, jobs) for jobs in drawn]
    return [
        dict(zip(COLUMNS, (*_labels(task, one), task.policy, seed, value), strict=True))
        for seed, values_of in found.items()
        for one, value in zip(workloads, values_of, strict=True)
    ]


def _labels(task: Evaluation, one: Unseen) -> tuple[str, str, int, float, int]:
    return one.kind, task.objective, one.number, one.load, int(one.resampled)


def _corrected(
    task: Evaluation, pairing: PairingTask, jobs: JobTable
) -> dict[int | str, CorrectedRule]:
    """Return the rules that play as the policy, of agents by seed."""
    cell = task.kind, task.objective
    if task.policy == AGENT:
        return {seed: read_corrected_rule(path) for seed, path in task.agents.items()}
    if task.policy == START:
        return {"": Strategy(pairing, jobs, TRAININGS[cell]).best}
    rule = BEST[task.objective] if task.policy == RULE else BEST_RULES[cell]
    return {"": uncorrected(rule)}


def _interpreted(task: Evaluation, library: Library, jobs: JobTable) -> float:
    """Return the objective of a run that the compiled engine does not have."""
    if task.policy == BOUND:
        return lower_bound(Instance(library.first, jobs), task.objective)
    trained = papers_folder() / "ineps" / f"pairing-{task.kind.partition('_')[0]}"
    names = {
        HEURISTIC: BEST_HEURISTICS[task.kind],
        PPO: f"pairing:{trained / task.objective}.safetensors",
        SEARCH: f"pairing-search-{task.objective}",
    }
    name = names[task.policy]
    opened = open_scenario(library.first, jobs, name)
    return float(run_in_process(opened, make_policy(name))[METRICS[task.objective]])


PAIRS = (
    (AGENT, RULE),
    (START, RULE),
    (TUNED, RULE),
    (PPO, RULE),
    (SEARCH, RULE),
    (HEURISTIC, RULE),
    (BOUND, RULE),
)


def difference(rows: Rows, policy: str, base: str) -> Estimate:
    """Return the mean relative difference of a policy to another one, in %, with its interval.

    Workloads are resampled as a whole: the differences are paired. Of agents of several seeds, a
    workload has the mean of their differences.

    Args:
        rows: the values on the same workloads, in the same order for each policy and seed.
    """
    other = np.array([row["value"] for row in where(rows, policy=base)])
    return estimate(
        [np.mean([_relative(values, other) for values in _by_seed(rows, policy)], axis=0)],
        mean,
        Bootstrap(),
    )


def _relative(values: Floats, base: Floats) -> Floats:
    return np.asarray(100.0 * (values / base - 1.0))


def _by_seed(rows: Rows, policy: str) -> Iterator[Floats]:
    found = where(rows, policy=policy)
    for seed in dict.fromkeys(row["seed"] for row in found):
        yield np.array([row["value"] for row in found if row["seed"] == seed])


def summary(rows: Rows) -> str:
    """Return the comparison as Markdown."""
    cells = dict.fromkeys((row["experiment"], row["objective"]) for row in rows)
    lines = [_line(rows, kind, objective) for kind, objective in cells]
    head = ["workloads of", "objective", *(f"{one} to {other}" for one, other in PAIRS)]
    return document(
        ["# Unseen workloads"],
        [
            "Mean difference of the objective in %, with its 95 % bootstrap interval, over "
            f"{INSTANCES} workloads of each experiment; negative: the first is better. Agents of "
            "several seeds: the mean; the last column has each. Workloads are the "
            "experiment's jobs in random order or drawn with replacement, submitted at the "
            f"experiment's rate, twice and a quarter of it. Their seed is {SEEDS['final']}, which "
            "no training, validation or choice uses."
        ],
        table([*head, "seeds of the agent"], lines),
    )


def _line(rows: Rows, kind: str, objective: str) -> list[str]:
    found = where(rows, experiment=kind, objective=objective)
    known = {row["policy"] for row in found}
    cells = [_cell(difference(found, *pair)) if known.issuperset(pair) else "" for pair in PAIRS]
    base = np.array([row["value"] for row in where(found, policy=RULE)])
    seeds = [f"{_relative(values, base).mean():+.2f}" for values in _by_seed(found, AGENT)]
    return [kind, objective, *cells, ", ".join(seeds)]


def _cell(found: Estimate) -> str:
    return f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})"
