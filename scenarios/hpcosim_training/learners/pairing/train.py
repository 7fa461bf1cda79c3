"""Training a pairing agent on a scenario: what `hpcosim train pairing` does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_client.agents.pairing.model import About, actor_of, save_pairing
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_protocol import energy_estimate_j
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_training.environments.arguments import check_power
from hpcosim_training.learners.pairing.learner import PairingLearner
from hpcosim_training.learners.pairing.settings import PairingTraining
from hpcosim_training.learning.session import Told, TrainingSession
from hpcosim_training.learning.settings import flat
from hpcosim_training.learning.workers import parallel_map
from hpcosim_workloads.table import JobTable

ACTOR = "actor.safetensors"


def train_pairing(
    path: Path,
    out: Path,
    training: PairingTraining,
    *,
    validation: Path | None = None,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    told: Told = lambda _: None,
) -> Path:
    """Train a pairing agent for a scenario's platform on its workload.

    The folder gets `actor.safetensors`, `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.
    The same arguments give the same bytes of weights, whatever the workers. Torch is held to one
    thread, which is no slower for these networks, so that trainings can run side by side.

    Args:
        path: the scenario's file; its own scheduler is ignored.
        out: the folder.
        training: how.
        validation: a scenario whose workload is used for validation; its platform is ignored.
        resume: resume from the folder's checkpoint.
        overrides: values of the scenario to change, by dotted path.
        told: is called with each iteration when it is over.

    Returns:
        The actor's file.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: there is no checkpoint to resume from, or it is of another training.
        OSError: the folder can't be written to.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    check_power(scenario.platform, path)
    pairing = scaled_for(training.pairing, scenario, jobs)
    training = dataclasses.replace(training, pairing=pairing)
    validated_on = jobs if validation is None else Library([validation]).first_jobs
    use_one_thread()
    with parallel_map(training.workers) as parallel:
        learner = PairingLearner(scenario, jobs, validated_on, training, parallel)
        session = TrainingSession(learner, out, resume=resume)
        session.run(told)
    actor = actor_of(pairing)
    actor.load_state_dict(session.weights())
    about = About(pairing=pairing, training=flat(training, {"pairing"}) | session.about())
    save_pairing(out / ACTOR, actor, about)
    return out / ACTOR


def scaled_for(pairing: Pairing, scenario: Scenario, jobs: JobTable) -> Pairing:
    """Return the settings with scales that suit a workload.

    They are the medians over its jobs of the requested time and of the least energy estimate.
    """
    platform = scenario.platform
    requests = list(zip(jobs.cores.tolist(), jobs.requested_s.tolist(), strict=True))
    estimates_j = [
        [
            energy_estimate_j(platform, group, cores, requested_s, 0)
            for cores, requested_s in requests
        ]
        for group in range(len(platform.nodes))
    ]
    return msgspec.structs.replace(
        pairing,
        time_s=max(float(np.median(jobs.requested_s)), 1e-6),
        energy_j=max(float(np.median(np.min(estimates_j, axis=0))), 1e-6),
    )
