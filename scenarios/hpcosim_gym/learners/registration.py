"""The trainers of this package for recipes: a batch agent, and the forecasts of `learned`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcosim_gym.learning.trainers import Inputs, Report, Trainer


def _batch_presets() -> Mapping[str, Any]:
    from hpcosim_gym.learners.batch_search import BatchSearch

    return {"search": BatchSearch()}


def _train_batch(inputs: Inputs, out: Path, search: Any, *, resume: bool, report: Report) -> Path:
    from hpcosim_gym.learners.batch_search import train_batch

    first, *also = inputs.scenarios
    changes = inputs.overrides
    return train_batch(
        first, out, search, also=also, overrides=changes, resume=resume, report=report
    )


BATCH = Trainer(
    about="a rule that chooses the next job, for the scheduler batch",
    presets=_batch_presets,
    algorithms=("cross-entropy",),
    environment=(
        *("objective", "window_jobs", "episode_jobs", "least_load", "most_load"),
        "longest_wait_weight",
    ),
    budget=("generations", "episodes"),
    train=_train_batch,
    use=lambda file: {"scheduler.name": f"batch:{file}"},
    several=True,
)


def _forecast_presets() -> Mapping[str, Any]:
    from hpcosim_gym.learners.power_forecasts import SpareNodesTraining

    return {"supervised": SpareNodesTraining()}


def _train_forecasts(
    inputs: Inputs, out: Path, training: Any, *, resume: bool, report: Report
) -> Path:
    from hpcosim_gym.learners.power_forecasts import train_spare_nodes

    first, *also = inputs.scenarios
    changes = inputs.overrides
    return train_spare_nodes(
        first, out, training, also=also, overrides=changes, resume=resume, report=report
    )


SPARE_NODES = Trainer(
    about="a network that corrects the forecasts of the power manager learned",
    presets=_forecast_presets,
    algorithms=("supervised",),
    environment=("jobs", "samples"),
    budget=("instances", "epochs"),
    train=_train_forecasts,
    use=lambda file: {"scheduler.power": {"name": "learned", "model": str(file)}},
    several=True,
)
