"""The observations of `hpcosim/StepBinding-v1`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from hpcosim_papers.deep_eas.agent.settings import DeepEas
from hpcosim_papers.deep_eas.agent.step_runs import StepRuns

Observation = dict[str, NDArray[np.int16]]

MAX_STEPS = np.iinfo(np.int16).max
OBSERVED = ("used", "cores", "waited", "steps", "rows", "behind", "since_arrival")


def observation_of(runs: StepRuns) -> Observation:
    """Return the observations of runs, with the runs as first dimension."""
    parts = runs.scene._asdict()
    return {
        name: parts[name][:, None] if parts[name].ndim == 1 else parts[name] for name in OBSERVED
    }


def observation_space(settings: DeepEas) -> gymnasium.spaces.Dict:
    """Return the space of the observations of one run."""
    machines, queue, horizon = settings.machines, settings.queue, settings.horizon
    bounds = {
        "used": (0, MAX_STEPS, (machines, horizon)),
        "cores": (0, settings.cores, (queue,)),
        "waited": (0, MAX_STEPS, (queue,)),
        "steps": (0, MAX_STEPS, (machines, queue)),
        "rows": (-1, horizon - 1, (machines, queue)),
        "behind": (0, MAX_STEPS, (1,)),
        "since_arrival": (0, MAX_STEPS, (1,)),
    }
    boxes: dict[str, gymnasium.Space[Any]] = {
        name: Box(low, high, shape, np.int16) for name, (low, high, shape) in bounds.items()
    }
    return gymnasium.spaces.Dict(boxes)
