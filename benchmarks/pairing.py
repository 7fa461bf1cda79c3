"""The pairing agent: its environment, a decision over tcp, an iteration of its training."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import torch

from benchmarks.wire import two_processes
from hpcosim_gym.learning.networks import arrays_of
from hpcosim_papers.ineps.agent.policy import PairingMetadata, save_pairing
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_papers.ineps.environments.pairing_vector import JobNodePairingVectorEnv
from hpcosim_papers.ineps.learners.networks import actor_of, initialise
from hpcosim_papers.ineps.learners.settings import PAPERS, Windows
from hpcosim_papers.ineps.learners.train import train_pairing
from hpcosim_scenarios.running.library import Library

INEPS = Path(__file__).parents[1] / "scenarios" / "papers" / "ineps"
FORMS = {
    "papers": Pairing(sees="papers", wait=False),
    "foreseen": Pairing(sees="foreseen", wait=False, wait_s=None),
}


def run(smoke: bool) -> dict[str, float]:
    """Return the figures, with randomly initialised networks: training does not affect speed."""
    figures = {}
    for name, pairing in FORMS.items():
        rate = _decisions_per_s(pairing, 2 if smoke else 200)
        figures[f"Experiment 2, environment, {name}, decisions/s"] = rate
    for name, pairing in FORMS.items():
        for count in (8, 32 if smoke else 256):
            rate = _vector_ratio(pairing, count, 5 if smoke else 50)
            figures[f"Experiment 3, {count} in a vector / single, {name}"] = rate
    for name, pairing in FORMS.items():
        figures[f"40 nodes x 10 jobs, {name}, over tcp, ms/decision"] = _over_tcp_ms(pairing)
    figures["Experiment 3, papers' training, s/iteration"] = _training_s(1 if smoke else 5)
    return figures


def _decisions_per_s(pairing: Pairing, runs: int) -> float:
    """Return the decisions/s of the environment with uniformly random actions."""
    library = Library([INEPS / "exp2.yaml"])
    task = PairingTask(library.first.platform, pairing, "spent")
    environment = JobNodePairingEnv(task=task, jobs=library.first_jobs)
    rng = np.random.default_rng(0)
    decisions, began_s = 0, time.perf_counter()
    for _ in range(runs):
        environment.reset()
        while not environment.done:
            environment.choose(int(rng.integers(len(environment.choices.rows))))
            decisions += 1
    return decisions / (time.perf_counter() - began_s)


def _vector_ratio(pairing: Pairing, count: int, steps: int) -> float:
    """Return the steps/s of a vector / those of one environment, per CPU time."""
    library = Library([INEPS / "exp3.yaml"])
    task = PairingTask(library.first.platform, pairing, "spent")
    envs = JobNodePairingVectorEnv(count, task=task, jobs=library.first_jobs)
    alone = JobNodePairingEnv(task=task, jobs=library.first_jobs)
    rng, spent_s = np.random.default_rng(0), {"one": 0.0, "many": 0.0}
    _, info = envs.reset()
    _, own = alone.reset()
    for _ in range(steps):
        actions = (info["action_mask"] * rng.random(info["action_mask"].shape)).argmax(axis=1)
        began_s = time.process_time()
        _, _, _, _, info = envs.step(actions)
        spent_s["many"] += time.process_time() - began_s
        action = int(rng.choice(np.flatnonzero(own["action_mask"])))
        began_s = time.process_time()
        _, _, _, _, own = alone.step(action)
        spent_s["one"] += time.process_time() - began_s
    return count * spent_s["one"] / spent_s["many"]


def _over_tcp_ms(pairing: Pairing) -> float:
    """Return the wall time of Experiment 3 in two processes per decision (one for each job)."""
    library = Library([INEPS / "exp3.yaml"])
    actor = actor_of(pairing)
    initialise(actor, torch.Generator().manual_seed(0))
    with TemporaryDirectory() as folder:
        model = Path(folder) / "actor.safetensors"
        save_pairing(model, arrays_of(actor.state_dict()), PairingMetadata(pairing=pairing))
        jobs = library.first_jobs
        wall_s, _ = two_processes(
            "tcp://127.0.0.1:*", library.first.platform, jobs, f"pairing:{model}"
        )
    return 1000.0 * wall_s / len(jobs)


def _training_s(iterations: int) -> float:
    """Return the wall time of a training iteration: 5 episodes of 90 jobs and the update."""
    pairing = msgspec.structs.replace(FORMS["papers"], placements_per_event="one")
    training = dataclasses.replace(
        PAPERS,
        pairing=pairing,
        iterations=iterations,
        windows=Windows(jobs=90),
        reward="spent",
        validate_every=0,
    )
    with TemporaryDirectory() as folder:
        began_s = time.perf_counter()
        train_pairing(INEPS / "exp3.yaml", Path(folder), training)
        return (time.perf_counter() - began_s) / iterations
