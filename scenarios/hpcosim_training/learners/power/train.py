"""Training a power manager on a scenario: what `hpcosim train power` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcosim_client.agents.node_power.network import save_actor
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library
from hpcosim_training.environments.power_task import check_power_states, task_of
from hpcosim_training.learners.power.curriculum import origin_s, workloads
from hpcosim_training.learners.power.learner import PowerLearner
from hpcosim_training.learners.power.settings import PowerTraining
from hpcosim_training.learning.curve import Iteration
from hpcosim_training.learning.session import Told, TrainingSession

ACTOR = "actor.safetensors"


def train_power(
    path: Path,
    out: Path,
    training: PowerTraining,
    *,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    told: Told = lambda _: None,
) -> Path:
    """Train a power manager for a scenario's platform and scheduler on its workload.

    The same arguments give the same bytes of weights. Torch is held to one thread, which is no
    slower for these networks, so that trainings can run side by side.

    Arguments are those of `train_pairing`; for what is written see `train`. The scenario's own
    power manager is ignored.

    Returns:
        The actor's file, for a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: there is no checkpoint to resume from, or it is of another training.
        OSError: the folder can't be written to.
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
    return train(learner, out, resume=resume, told=told)


def train(
    learner: PowerLearner, out: Path, *, resume: bool = False, told: Told = lambda _: None
) -> Path:
    """Train a power manager to the end, and return the actor's file.

    The folder gets `actor.safetensors`, the actor after each iteration, as
    `iteration-003-real.safetensors`, `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.

    Raises:
        CheckpointError: there is no checkpoint, or it is of another training.
        OSError: the folder can't be written to.
    """

    def tell(done: Iteration) -> None:
        name = f"iteration-{done.iteration:03}-{done.phase}.safetensors"
        save_actor(out / name, learner.agent.actor, learner.about())
        told(done)

    TrainingSession(learner, out, resume=resume).run(tell)
    save_actor(out / ACTOR, learner.agent.actor, learner.about())
    return out / ACTOR
