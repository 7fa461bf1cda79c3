"""Train a power manager on a scenario: the function behind `hpcosim train power`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcosim_gym.learning.agent import weights_of
from hpcosim_gym.learning.curve import Iteration
from hpcosim_gym.learning.session import OnIteration, TrainingSession
from hpcosim_gym.learning.threads import use_one_thread
from hpcosim_gym.learning.weights import arrays_of
from hpcosim_papers.power.agent.network import save_actor
from hpcosim_papers.power.environments.power_task import check_power_states, task_of
from hpcosim_papers.power.learners.curriculum import origin_s, workloads
from hpcosim_papers.power.learners.learner import PowerLearner
from hpcosim_papers.power.learners.settings import PowerTraining
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library

ACTOR = "actor.safetensors"


def train_power(
    path: Path,
    out: Path,
    training: PowerTraining,
    *,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    on_iteration: OnIteration = lambda _: None,
) -> Path:
    """Train a power manager for a scenario's platform and scheduler on its workload.

    The same arguments give the same bytes of weights. Torch uses one thread, which is as fast for
    these small networks, so that several trainings can run side by side.

    For the arguments see `train_pairing`, for the output files `train`. The scenario's power
    manager is ignored.

    Returns:
        Path of the actor, for a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    check_power_states(scenario.platform, path)
    origin = origin_s(scenario, path.parent)
    names, days = training.curriculum, training.synthetic_days
    curriculum = workloads(jobs, names, training.seed, origin, days)
    changes = {
        "interval_s": training.interval_s,
        "reward": training.reward,
        "origin_s": origin if training.calendar else None,
    }
    use_one_thread()
    learner = PowerLearner(task_of(changes, scenario), curriculum, training)
    return train(learner, out, resume=resume, on_iteration=on_iteration)


def train(
    learner: PowerLearner,
    out: Path,
    *,
    resume: bool = False,
    on_iteration: OnIteration = lambda _: None,
) -> Path:
    """Train a power manager to the end, and return the path of the actor.

    The folder gets `actor.safetensors`, the actor after each iteration (such as
    `iteration-003-real.safetensors`), `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.

    Raises:
        CheckpointError: the checkpoint is missing or belongs to a different training.
        OSError: the folder cannot be written.
    """

    def save_and_report(done: Iteration) -> None:
        name = f"iteration-{done.iteration:03}-{done.phase}.safetensors"
        save_actor(out / name, arrays_of(weights_of(learner.agent.actor)), learner.about())
        on_iteration(done)

    TrainingSession(learner, out, resume=resume).run(save_and_report)
    save_actor(out / ACTOR, arrays_of(weights_of(learner.agent.actor)), learner.about())
    return out / ACTOR
