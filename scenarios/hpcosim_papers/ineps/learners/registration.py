"""The trainers of pairing agents for recipes: networks, and corrections of a rule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcosim_gym.learning.trainers import Inputs, Report, Trainer


def _presets() -> Mapping[str, Any]:
    from hpcosim_papers.ineps.learners.settings import PRESETS

    return PRESETS


def _train(inputs: Inputs, out: Path, training: Any, *, resume: bool, report: Report) -> Path:
    from hpcosim_papers.ineps.learners.train import train_pairing

    return train_pairing(
        inputs.scenarios[0],
        out,
        training,
        validation=inputs.validation,
        resume=resume,
        overrides=inputs.overrides,
        on_iteration=lambda done: report(done.progress),
    )


PAIRING = Trainer(
    about="a network that pairs jobs with nodes, for the scheduler pairing",
    presets=_presets,
    algorithms=("ppo", "a2c"),
    environment=(
        *("objective", "window_jobs", "placements_per_event", "wait", "wait_s", "most_wait_s"),
        *("sees", "reward", "jobs", "kinds", "validation_windows"),
    ),
    budget=("iterations", "episodes", "validate_every", "patience", "checkpoint_every"),
    train=_train,
    use=lambda file: {"scheduler.name": f"pairing:{file}"},
    validates=True,
)


def _correction_presets() -> Mapping[str, Any]:
    from hpcosim_papers.ineps.learners.corrections import CorrectionTraining

    return {"evolution": CorrectionTraining()}


def _train_corrections(
    inputs: Inputs, out: Path, training: Any, *, resume: bool, report: Report
) -> Path:
    from hpcosim_papers.ineps.learners.corrections import train_corrections

    return train_corrections(
        inputs.scenarios[0],
        out,
        training,
        overrides=inputs.overrides,
        resume=resume,
        report=report,
    )


PAIRING_RULE = Trainer(
    about="a linear network that corrects a rule, for the scheduler pairing",
    presets=_correction_presets,
    algorithms=("evolution-strategy",),
    environment=(
        *("objective", "workloads", "least_load", "most_load"),
        *("start_workloads", "validation_workloads"),
    ),
    budget=("generations", "validate_every"),
    train=_train_corrections,
    use=lambda file: {"scheduler.name": f"pairing:{file}"},
)
