"""The trainer of Deep-EAS for recipes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcosim_gym.learning.trainers import Inputs, Report, Trainer


def _presets() -> Mapping[str, Any]:
    from hpcosim_papers.deep_eas.learners.settings import FORMS

    return FORMS


def _train(inputs: Inputs, out: Path, training: Any, *, resume: bool, report: Report) -> Path:
    from hpcosim_papers.deep_eas.learners.train import train_deep_eas

    return train_deep_eas(
        inputs.scenarios[0],
        out,
        training,
        resume=resume,
        overrides=inputs.overrides,
        on_iteration=lambda done: report(done.progress),
    )


DEEP_EAS = Trainer(
    about="a network that binds jobs to machines, for the scheduler deep-eas",
    presets=_presets,
    algorithms=("ppo", "reinforce"),
    environment=(
        *("sees", "queue", "horizon", "backlog", "since_arrival", "step_s", "masked"),
        *("lengths", "arrivals", "validation_sequences", "start"),
    ),
    budget=(
        *("iterations", "pool", "sequences", "trajectories"),
        *("validate_every", "patience", "checkpoint_every"),
    ),
    train=_train,
    use=lambda file: {"scheduler.name": f"deep-eas:{file}"},
    files=("start",),
)
