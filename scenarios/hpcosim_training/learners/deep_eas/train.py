"""Training Deep-EAS on a scenario: what `hpcosim train deep-eas` does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

from hpcosim_client import make_policy
from hpcosim_client.agents.deep_eas.network import About, network_of, save_deep_eas
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_training.environments.step_costs import normalised_edps
from hpcosim_training.environments.step_machines import machines_of, model_of
from hpcosim_training.learners.deep_eas.learner import DeepEasLearner
from hpcosim_training.learners.deep_eas.settings import DeepEasTraining
from hpcosim_training.learning.session import Told, TrainingSession
from hpcosim_training.learning.settings import flat
from hpcosim_training.learning.workers import Map, parallel_map

NETWORK = "deep-eas.safetensors"
COMPARED = 10  # sequences of validation that the simulator runs, too
TOLERANCE = 1e-9  # relative difference of their results


def train_deep_eas(
    path: Path,
    out: Path,
    training: DeepEasTraining,
    *,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    told: Told = lambda _: None,
) -> Path:
    """Train Deep-EAS on sequences like a scenario's, drawn from another seed than its own.

    The folder gets `deep-eas.safetensors`, `curve.csv`, `tensorboard/` and
    `checkpoint.safetensors`. The same arguments give the same bytes of weights. Torch is held to
    one thread, so that trainings can run side by side.

    Arguments are those of `train_pairing`; the number of machines and their cores are the
    scenario's.

    Returns:
        The network's file.

    Raises:
        ScenarioError: its workload is not of the model `bernoulli`, nodes differ in cores, a job
            fits on none, or not everything happens at whole steps.
        WorkloadError: hardly a job is submitted.
        CheckpointError: there is no checkpoint to resume from, or it is of another training.
        OSError: the folder can't be written to.
    """
    scenario = Library([path], overrides).first
    use_one_thread()
    with parallel_map(training.workers) as parallel:
        learner = _learner(scenario, training, path, parallel)
        _compare(scenario, learner, path)
        session = TrainingSession(learner, out, resume=resume)
        session.run(told)
    settings = learner.settings.settings
    network = network_of(settings)
    network.load_state_dict(session.weights())
    about = About(settings=settings, training=flat(training, {"settings"}) | session.about())
    save_deep_eas(out / NETWORK, network, about)
    return out / NETWORK


def _learner(
    scenario: Scenario, training: DeepEasTraining, path: Path, parallel: Map
) -> DeepEasLearner:
    model = model_of(scenario, path)
    machines = machines_of(scenario, training.settings, path)
    training = dataclasses.replace(training, settings=machines.settings)
    try:
        return DeepEasLearner(machines, model, training, parallel)
    except ScenariosError as error:
        raise ScenarioError(f"can't be learned on: {error}", path, field="$.workload") from None


def _compare(scenario: Scenario, learner: DeepEasLearner, path: Path) -> None:
    """Check that sequences run as they do in the simulator.

    Raises:
        ScenarioError: they do not.
    """
    found = normalised_edps(learner.by_esjf).sum(axis=1)
    for table, total in zip(learner.tables[:COMPARED], found.tolist(), strict=False):
        opened = open_scenario(scenario, table, "esjf")
        judged = run_in_process(opened, make_policy("esjf"))["mean_normalised_edp"]
        if not math.isclose(judged, total / len(table), rel_tol=TOLERANCE):
            raise ScenarioError(
                f"can't be learned on: ESJF comes to {judged:.6g} in the simulator on a sequence "
                f"on which it comes to {total / len(table):.6g} in whole steps; nodes must be on "
                "always, take no energy when idle, and compute alike however many jobs they run",
                path,
                field="$.platform.nodes",
            )
