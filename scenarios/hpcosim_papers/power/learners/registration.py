"""The trainers of power managers for recipes: a network, adaptive timeouts, and rises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcosim_gym.learning.trainers import Inputs, Report, Trainer


def _power_presets() -> Mapping[str, Any]:
    from hpcosim_papers.power.learners.train import ALGORITHMS

    return ALGORITHMS


def _train_power(inputs: Inputs, out: Path, training: Any, *, resume: bool, report: Report) -> Path:
    from hpcosim_papers.power.learners.train import train_power

    return train_power(
        inputs.scenarios[0],
        out,
        training,
        resume=resume,
        overrides=inputs.overrides,
        on_iteration=lambda done: report(done.progress),
    )


POWER = Trainer(
    about="a network that switches every node at fixed intervals, for the power manager rl",
    presets=_power_presets,
    algorithms=("a2c", "ppo"),
    environment=(
        *("curriculum", "synthetic_days", "interval_s", "calendar", "kind", "alpha", "beta"),
        "runs",
    ),
    budget=("iterations", "checkpoint_every"),
    train=_train_power,
    use=lambda file: {"scheduler.power": {"name": "rl", "model": str(file)}},
)


def _adaptive_presets() -> Mapping[str, Any]:
    from hpcosim_papers.power.learners.cross_entropy import AdaptiveSearch

    return {"search": AdaptiveSearch()}


def _train_adaptive(
    inputs: Inputs, out: Path, settings: Any, *, resume: bool, report: Report
) -> Path:
    from hpcosim_papers.power.learners.cross_entropy import train_adaptive

    return train_adaptive(
        inputs.scenarios[0],
        out,
        settings,
        overrides=inputs.overrides,
        resume=resume,
        report=report,
    )


ADAPTIVE = Trainer(
    about="timeouts by the time of the week and the load, for the power manager adaptive",
    presets=_adaptive_presets,
    algorithms=("cross-entropy",),
    environment=("wait_w", "origin_s"),
    budget=("generations",),
    train=_train_adaptive,
    use=lambda file: {"scheduler.power": {"name": "adaptive", "model": str(file)}},
)


def _rises_presets() -> Mapping[str, Any]:
    from hpcosim_papers.power.learners.rises_search import RisesSearch

    return {"search": RisesSearch()}


def _train_rises(inputs: Inputs, out: Path, settings: Any, *, resume: bool, report: Report) -> Path:
    from hpcosim_papers.power.learners.rises_search import train_rises

    first, *also = inputs.scenarios
    changes = inputs.overrides
    return train_rises(
        first, out, settings, also=also, overrides=changes, resume=resume, report=report
    )


RISES = Trainer(
    about="weights of past rises of the demand, for the power manager empirical",
    presets=_rises_presets,
    algorithms=("cross-entropy",),
    environment=("windows", "sample", "jobs"),
    budget=("generations",),
    train=_train_rises,
    use=lambda file: {"scheduler.power": {"name": "empirical", "model": str(file)}},
    several=True,
)
