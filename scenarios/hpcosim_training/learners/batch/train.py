"""Train a batch agent on a scenario: the function behind `hpcosim train batch`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcosim_client.agents.batch.model import BatchMetadata, actor_of, save_batch
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_executors import parallel_map
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library
from hpcosim_training.learners.batch.learner import BatchLearner
from hpcosim_training.learners.batch.settings import BatchTraining
from hpcosim_training.learning.session import OnIteration, TrainingSession
from hpcosim_training.learning.settings import flat_settings

ACTOR = "actor.safetensors"


def train_batch(
    path: Path,
    out: Path,
    training: BatchTraining,
    *,
    validation: Path | None = None,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    on_iteration: OnIteration = lambda _: None,
) -> Path:
    """Train a batch agent on windows of the workload of a scenario.

    For the arguments and the output files see `train_pairing`. The agent takes any cluster. The
    same arguments give the same bytes of weights for any number of workers.

    Returns:
        Path of the actor.

    Raises:
        ScenarioError, WorkloadError: the scenario is invalid.
        PolicyError: the workload has no decisions.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        ValueError: the workload has too few jobs for an episode.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    jobs = library.first_jobs
    validation_jobs = jobs if validation is None else Library([validation]).first_jobs
    use_one_thread()
    with parallel_map(training.executor) as parallel:
        learner = BatchLearner(library.first, jobs, validation_jobs, training, parallel)
        session = TrainingSession(learner, out, resume=resume)
        session.run(on_iteration)
    about = BatchMetadata(
        window_jobs=training.window_jobs,
        width=training.width,
        training=flat_settings(training) | session.about(),
    )
    actor = actor_of(about)
    actor.load_state_dict(session.weights())
    save_batch(out / ACTOR, actor, about)
    return out / ACTOR
