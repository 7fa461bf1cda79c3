"""Distillation: one network for all experiments learns the decisions of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from hpcosim_gym.learning.agent import weights_of
from hpcosim_gym.learning.rollout import Rollout, joined
from hpcosim_gym.learning.threads import use_one_thread
from hpcosim_gym.learning.update import behaviour_cloning
from hpcosim_gym.learning.weights import arrays_of
from hpcosim_papers.ineps.agent.model import PairingMetadata, save_pairing
from hpcosim_papers.ineps.agent.plan_search import PlanSearch
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import task_of
from hpcosim_papers.ineps.learners.agent import PairBatch, batch_of, join, new_agent
from hpcosim_papers.ineps.learners.settings import FORESEEING
from hpcosim_papers.ineps.study.unseen_workloads import KINDS, Unseen
from hpcosim_papers.studies.papers import scenario_path
from hpcosim_papers.studies.pool import in_parallel
from hpcosim_scenarios.running.library import Library

DEMONSTRATIONS = {"exp1": 18, "exp2": 12, "exp3": 1, "exp4_mem": 4, "exp4_comp": 4, "exp4_mixed": 0}
"""Number of workloads by experiment; Experiment 4 mixed has the jobs of the two before it."""

EPOCHS = 20
TRAINING = replace(FORESEEING, iterations=0, cloning_epochs=EPOCHS)


def distil(objective: Objective, path: Path, workers: int | None = None) -> None:
    """Train a network on the decisions of the search, and write it.

    Args:
        objective: minimised quantity.
        path: the model file.
        workers: number of processes; None: one per core.
    """
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
