"""Train a pairing agent on a scenario: the function behind `hpcosim train pairing`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_experiments.executors import parallel_map
from hpcosim_gym.environments.arguments import check_power
from hpcosim_gym.learning.session import OnIteration, TrainingSession
from hpcosim_gym.learning.settings import flat_settings
from hpcosim_gym.learning.threads import use_one_thread
from hpcosim_gym.learning.weights import arrays_of
from hpcosim_papers.ineps.agent.model import PairingMetadata, save_pairing
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.learners.learner import PairingLearner
from hpcosim_papers.ineps.learners.settings import PairingTraining
from hpcosim_protocol import energy_estimate_j
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
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
    on_iteration: OnIteration = lambda _: None,
) -> Path:
    """Train a pairing agent for a scenario's platform on its workload.

    The folder gets `actor.safetensors`, `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.
    The same arguments give the same bytes of weights for any number of workers. Torch uses one
    thread, which is as fast for these small networks, so that several trainings can run side by
    side.

    Args:
        path: the scenario file; its scheduler is ignored.
        out: the output folder.
        training: settings of the training.
        validation: scenario file whose workload is used for validation; its platform is ignored.
            None: validate on the training workload.
        resume: resume from the folder's checkpoint.
        overrides: values that replace those of the scenario, by dotted path.
        on_iteration: called after each iteration.

    Returns:
        Path of the actor.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    check_power(scenario.platform, path)
    pairing = with_workload_scales(training.pairing, scenario, jobs)
    training = dataclasses.replace(training, pairing=pairing)
    validation_jobs = jobs if validation is None else Library([validation]).first_jobs
    use_one_thread()
    with parallel_map(training.executor) as parallel:
        learner = PairingLearner(scenario, jobs, validation_jobs, training, parallel)
        session = TrainingSession(learner, out, resume=resume)
        session.run(on_iteration)
    about = PairingMetadata(
        pairing=pairing, training=flat_settings(training, {"pairing"}) | session.about()
    )
    save_pairing(out / ACTOR, arrays_of(session.weights()), about)
    return out / ACTOR


def with_workload_scales(pairing: Pairing, scenario: Scenario, jobs: JobTable) -> Pairing:
    """Return the settings with feature scales that fit a workload.

    The scales are the medians over its jobs of requested time and of lowest energy estimate.
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
