"""Heuristics, rules, agents and search on workloads that no agent was trained on.

The workloads are Experiments 1 to 4 with other orders, mixes and loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from hpcosim_client import Policy
from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.statistics.bootstrap import Bootstrap, Estimate, estimate, mean
from hpcosim_experiments.statistics.rows import Row, Rows, where, write_rows
from hpcosim_gym.learning.networks import arrays_of, use_one_thread
from hpcosim_gym.learning.rollout import Rollout, joined
from hpcosim_gym.learning.update import behaviour_cloning, weights_of
from hpcosim_papers.ineps.agent.plan_search import PlanSearch
from hpcosim_papers.ineps.agent.policy import PairingMetadata, Rule, pairing_rule, save_pairing
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import task_of
from hpcosim_papers.ineps.learners.networks import PairBatch, batch_of, join, new_agent
from hpcosim_papers.ineps.learners.settings import FORESEEING
from hpcosim_papers.studies.agents import in_parallel
from hpcosim_papers.studies.study import Request, papers_folder, scenario_path
from hpcosim_scenarios.planning.instance import Instance
from hpcosim_scenarios.planning.lower_bound import lower_bound
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_sim.record.folder import prepare
from hpcosim_workloads.table import JobTable

# Distillation: one network for all experiments learns the decisions of the search.

DEMONSTRATIONS = {"exp1": 18, "exp2": 12, "exp3": 1, "exp4_mem": 4, "exp4_comp": 4, "exp4_mixed": 0}
"""Number of workloads by experiment; Experiment 4 mixed has the jobs of the two before it."""

EPOCHS = 20
TRAINING = replace(FORESEEING, iterations=0, cloning_epochs=EPOCHS)


STUDY = "pairing-unseen"

KINDS = ("exp1", "exp2", "exp3", "exp4_mem", "exp4_comp", "exp4_mixed")
"""Names of the scenarios that the workloads are drawn from."""

Split = Literal["training", "validation", "final"]
SEEDS: dict[Split, int] = {"training": 22_000_000, "validation": 22_000_001, "final": 20_261_123}
"""Seeds of the workloads. Networks learn from `training`, all choices use `validation`, and `final`
is for the last table only."""

INSTANCES = 20
LOADS = (1.0, 2.0, 0.25)
"""Submission rates relative to the scenario's; a workload's number selects one in turn."""


def distil(objective: Objective, path: Path, workers: int | None = None) -> None:
    """Train a network on the decisions of the search, and write it."""
    use_one_thread()
    tasks = [
        (Unseen(kind, "training", number), objective)
        for kind in KINDS
        for number in range(DEMONSTRATIONS[kind])
    ]
    shown = in_parallel(_demonstration, tasks, workers, f"pairing-unseen, {objective}")
    training = replace(TRAINING, pairing=Pairing(objective=objective))
    agent = new_agent(training, nodes=1)
    rollout = joined(shown, join)
    losses = behaviour_cloning(agent, rollout, training, np.random.default_rng(training.seed))
    about = {"decisions": len(rollout), "cross_entropy": losses.policy, "epochs": EPOCHS}
    metadata = PairingMetadata(pairing=training.pairing, training=about)
    save_pairing(path, arrays_of(weights_of(agent.actor)), metadata)


def _demonstration(task: tuple[Unseen, Objective]) -> Rollout[PairBatch]:
    """Return the decisions of the search on a workload, with zero rewards."""
    one, objective = task
    library = Library([scenario_path("ineps", one.kind)])
    pairing = task_of(Pairing(objective=objective), "foreseen", library.first)
    env = JobNodePairingEnv(task=pairing, jobs=one.draw(library.first_jobs))
    env.reset()
    search = PlanSearch(objective, env.view)
    seen, chosen = [], []
    while not env.done:
        choice = search.choose(env.view, env.choices, env.forecast)
        seen.append(env.choices)
        chosen.append(choice)
        env.choose(choice)
    return _rollout(batch_of(seen), chosen)


def _rollout(batch: PairBatch, chosen: Sequence[int]) -> Rollout[PairBatch]:
    count = len(chosen)
    return Rollout(
        batch,
        torch.tensor(chosen),
        torch.zeros((count, 1)),
        np.zeros(count),
        np.zeros(count, dtype=np.int64),
        None,
        np.zeros(1, dtype=np.bool_),
    )


HEURISTIC, TUNED, RULE, AGENT, DISTILLED, SEARCH, BOUND = (
    *("best heuristic", "best rule", "rule", "agent", "distilled", "search", "lower bound"),
)
POLICIES = (HEURISTIC, TUNED, RULE, AGENT, DISTILLED, SEARCH, BOUND)
NO_BOUND = ("exp4_mixed",)  # too many combinations of six kinds of jobs on a node

BEST_HEURISTICS: Mapping[str, str] = {
    "exp1": "minmin-immediate",
    "exp2": "first-high-cores-one",
    "exp3": "minmin-immediate",
    "exp4_mem": "maxmin",
    "exp4_comp": "first-high-cores",
    "exp4_mixed": "minmin-immediate",
}
"""The best of 88 deterministic heuristics on the first validation workloads."""

BEST_RULES: Mapping[str, Rule] = {
    "exp1": Rule("cheapest", 0.0, 0),
    "exp2": Rule("costliest", 0.1, 2),
    "exp3": Rule("costliest", 0.1, 3),
    "exp4_mem": Rule("costliest", 0.0, 3),
    "exp4_comp": Rule("longest", 0.3, 2),
    "exp4_mixed": Rule("longest", 0.3, 3),
}
"""The best of the 36 rules on the first validation workloads of each experiment."""

NETWORK = "energy.safetensors"
COLUMNS = ("experiment", "number", "load", "resampled", "policy", "energy_j")


class Task(NamedTuple):
    """A run."""

    workload: Unseen
    policy: str
    models: Path


def reproduce(request: Request) -> None:
    """Write `results.csv` and `summary.md`; of a training also the distilled network."""
    out = request.out
    prepare(out, force=request.force or request.train)  # there is no experiment to continue
    models = out if request.train else papers_folder() / "ineps" / STUDY
    if request.train:
        distil("energy", models / NETWORK, request.workers)
    tasks = [
        Task(workload, policy, models)
        for kind in KINDS
        for policy in POLICIES
        if policy != BOUND or kind not in NO_BOUND
        for workload in unseen(kind, "final")
    ]
    rows = in_parallel(run_one, tasks, request.workers, request.name)
    write_rows(out / "results.csv", COLUMNS, rows, digits=None)
    (out / "summary.md").write_text(summary(rows), encoding="utf-8")


def run_one(task: Task) -> Row:
    """Run a policy on a workload, and return a row of `results.csv`."""
    one, library = task.workload, Library([scenario_path("ineps", task.workload.kind)])
    jobs = one.draw(library.first_jobs)
    if task.policy == BOUND:
        energy_j = lower_bound(Instance(library.first, jobs), "energy")
    else:
        opened = open_scenario(library.first, jobs, task.policy)
        energy_j = float(run_in_process(opened, _make(task))["energy_j"])
    labels = (one.kind, one.number, one.load, int(one.resampled), task.policy)
    return dict(zip(COLUMNS, (*labels, energy_j), strict=True))


def _make(task: Task) -> Policy:
    kind = task.workload.kind
    if task.policy == TUNED:
        return pairing_rule("energy", BEST_RULES[kind])
    trained = papers_folder() / "ineps" / f"pairing-{kind.partition('_')[0]}"
    names = {
        HEURISTIC: BEST_HEURISTICS[kind],
        RULE: "pairing-rule-energy",
        AGENT: f"pairing:{trained / 'energy.safetensors'}",
        DISTILLED: f"pairing:{task.models / NETWORK}",
        SEARCH: "pairing-search-energy",
    }
    return make_policy(names[task.policy])


PAIRS = (
    (SEARCH, RULE),
    (SEARCH, TUNED),
    (SEARCH, AGENT),
    (SEARCH, HEURISTIC),
    (DISTILLED, RULE),
    (AGENT, RULE),
    (RULE, HEURISTIC),
    (BOUND, RULE),
)


def difference(rows: Rows, policy: str, base: str) -> Estimate:
    """Return the mean relative difference of a policy to another one, in %, with its interval.

    Workloads are resampled as a whole: the differences are paired.

    Args:
        rows: the values on the same workloads, in the same order for each policy.
    """
    value, other = (
        np.array([row["energy_j"] for row in where(rows, policy=name)]) for name in (policy, base)
    )
    return estimate([100.0 * (value / other - 1.0)], mean, Bootstrap())


def summary(rows: Rows) -> str:
    """Return the comparison as Markdown."""
    lines = []
    for kind in dict.fromkeys(row["experiment"] for row in rows):
        found = where(rows, experiment=kind)
        known = {row["policy"] for row in found}
        pairs = [pair if known.issuperset(pair) else None for pair in PAIRS]
        lines.append([kind, *(_cell(difference(found, *pair)) if pair else "" for pair in pairs)])
    head = ["workloads of", *(f"{one} to {other}" for one, other in PAIRS)]
    return document(
        ["# Unseen workloads"],
        [
            "Mean difference of the energy in %, with its 95 % bootstrap interval, over "
            f"{INSTANCES} workloads of each experiment; negative: the first is better. Workloads "
            "are the experiment's jobs in random order or drawn with replacement, submitted at the "
            f"experiment's rate, twice and a quarter of it. Their seed is {SEEDS['final']}, which "
            "no training, validation or choice uses."
        ],
        table(head, lines),
    )


def _cell(found: Estimate) -> str:
    return f"{found.value:+.2f} ({found.low:+.2f} to {found.high:+.2f})"


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
        count = len(jobs)
        order = rng.integers(count, size=count) if self.resampled else rng.permutation(count)
        first_s = float(jobs.submit_s[0])
        drawn = replace(jobs.take(order), job_id=np.arange(count))
        return drawn.at(first_s + (jobs.submit_s - first_s) / self.load)


def unseen(kind: str, split: Split) -> list[Unseen]:
    """Return the workloads of a scenario for one use."""
    return [Unseen(kind, split, number) for number in range(INSTANCES)]
