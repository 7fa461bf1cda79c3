"""Train Deep-EAS on a scenario: the function behind `hpcosim train deep-eas`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

from hpcosim_experiments.executors import ParallelMap, parallel_map
from hpcosim_gym.learning.session import OnIteration, TrainingSession
from hpcosim_gym.learning.settings import flat_settings
from hpcosim_gym.learning.threads import use_one_thread
from hpcosim_gym.learning.weights import arrays_of
from hpcosim_papers.deep_eas.agent.network import DeepEasMetadata, save_deep_eas
from hpcosim_papers.deep_eas.agent.step_costs import normalised_edps
from hpcosim_papers.deep_eas.environments.step_machines import machines_of, model_of
from hpcosim_papers.deep_eas.learners.learner import DeepEasLearner
from hpcosim_papers.deep_eas.learners.settings import DeepEasTraining
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy

NETWORK = "deep-eas.safetensors"
CHECKED_SEQUENCES = 10  # validation sequences that are also run in the simulator
TOLERANCE = 1e-9  # relative difference of their results


def train_deep_eas(
    path: Path,
    out: Path,
    training: DeepEasTraining,
    *,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    on_iteration: OnIteration = lambda _: None,
) -> Path:
    """Train Deep-EAS on sequences drawn from a scenario's workload model, with another seed.

    The folder gets `deep-eas.safetensors`, `curve.csv`, `tensorboard/` and
    `checkpoint.safetensors`. The same arguments give the same bytes of weights. Torch uses one
    thread, so that several trainings can run side by side.

    For the arguments see `train_pairing`; the scenario sets the number of machines and their cores.

    Returns:
        Path of the network.

    Raises:
        ScenarioError: the workload model is not `bernoulli`, nodes differ in cores, a job fits on
            no node, or a time is not a whole number of steps.
        WorkloadError: the model draws sequences without jobs.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    scenario = Library([path], overrides).first
    use_one_thread()
    with parallel_map(training.executor) as parallel:
        learner = _learner(scenario, training, path, parallel)
        _check_against_simulator(scenario, learner, path)
        session = TrainingSession(learner, out, resume=resume)
        session.run(on_iteration)
    settings = learner.settings.settings
    about = DeepEasMetadata(
        settings=settings, training=flat_settings(training, {"settings"}) | session.about()
    )
    save_deep_eas(out / NETWORK, arrays_of(session.weights()), about)
    return out / NETWORK


def _learner(
    scenario: Scenario, training: DeepEasTraining, path: Path, parallel: ParallelMap
) -> DeepEasLearner:
    model = model_of(scenario, path)
    machines = machines_of(scenario, training.settings, path)
    training = dataclasses.replace(training, settings=machines.settings)
    try:
        return DeepEasLearner(machines, model, training, parallel)
    except ScenariosError as error:
        raise ScenarioError(
            f"Deep-EAS cannot be trained on this workload: {error}", path, field="$.workload"
        ) from None


def _check_against_simulator(scenario: Scenario, learner: DeepEasLearner, path: Path) -> None:
    """Check that ESJF has the same costs in the step-based environment as in the simulator.

    Raises:
        ScenarioError: the costs differ.
    """
    found = normalised_edps(learner.esjf_runs).sum(axis=1)
    for table, total in zip(learner.tables[:CHECKED_SEQUENCES], found.tolist(), strict=False):
        opened = open_scenario(scenario, table, "esjf")
        judged = run_in_process(opened, make_policy("esjf"))["mean_normalised_edp"]
        if not math.isclose(judged, total / len(table), rel_tol=TOLERANCE):
            raise ScenarioError(
                "Deep-EAS cannot be trained on this platform: the mean normalised EDP of ESJF on "
                f"a sequence is {judged:.6g} in the simulator and {total / len(table):.6g} in the "
                "step-based environment; remove power_states, static_w and contention from the "
                "nodes",
                path,
                field="$.platform.nodes",
            )
