"""Policies that choose the next job: a trained linear rule, or a model of any library.

An invalid file, model or action is a `PolicyError`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats
from hpcosim_client.safetensors_file import ArraysFile, load_arrays, save_arrays
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.agents.batch.scene import (
    CLUSTER_COLUMNS,
    JOB_COLUMNS,
    BatchRounds,
    Form,
    QueueChoices,
    QueueScene,
    by_name,
    flat,
    mask_of,
)
from hpcosim_schedulers.agents.rounds import by_rounds, sampled
from hpcosim_schedulers.heuristics.easy import MAX_WINDOW_JOBS, WINDOW_JOBS

FORMAT = "hpcosim batch 1"

STATE = ("free_cores", "queue")
"""Columns of the cluster on which the weights depend."""

SHAPE = (1 + len(STATE), len(JOB_COLUMNS))

DECIMALS = 6
"""Scores are compared after rounding, so that equal jobs are chosen in submission order."""

_FILE = ArraysFile("a batch agent", FORMAT, "hpcosim train batch", {"weights": SHAPE})
_STATE = [CLUSTER_COLUMNS.index(name) for name in STATE]


MASKS = "action_masks"


def batch(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy of a trained agent.

    Args:
        model: file of `hpcosim train batch`.
        sample: whether jobs are sampled, with the view's `rng` and the scores as logits; otherwise
            the job with the highest score is chosen.
    """
    rule = load_batch(Path(model))

    def choose(view: View, choices: QueueChoices) -> int:
        if sample:
            return sampled(scores(rule.weights, choices.scene), view.rng)
        return best(rule.weights, choices.scene)

    return by_rounds(lambda view: BatchRounds(view, rule.window_jobs), choose)


class BatchRule(NamedTuple):
    """A learned rule.

    Attributes:
        weights: float64[1 + STATE, JOB_COLUMNS]; (1, state) @ weights are the weights of the
            columns of a job in its score.
        window_jobs: number of visible jobs, 1 to 1000.
    """

    weights: Floats
    window_jobs: int = WINDOW_JOBS


def scores(weights: Floats, scene: QueueScene) -> Floats:
    """Return the score of each visible job, float64[jobs]; the highest one is chosen.

    The arrays may have more axes before, for several rules or observations. Products of matrices
    are not used, because the order of their additions depends on the number of jobs.
    """
    state = np.concatenate(
        (np.ones((*scene.cluster.shape[:-1], 1)), scene.cluster[..., _STATE]), -1
    )
    of_column = (state[..., None] * weights).cumsum(axis=-2)[..., -1, :]
    found: Floats = (of_column[..., None] * scene.columns).cumsum(axis=-2)[..., -1, :]
    return found


def best(weights: Floats, scene: QueueScene) -> int:
    """Return the index of the chosen job: the first of the highest scores."""
    return int(scores(weights, scene).round(DECIMALS).argmax())


def save_batch(path: Path, rule: BatchRule) -> None:
    """Write a rule as a safetensors file, the same bytes for the same rule."""
    save_arrays(_FILE, path, {"weights": rule.weights}, str(rule.window_jobs))


def load_batch(path: Path) -> BatchRule:
    """Return the rule in a file."""
    arrays, window = load_arrays(_FILE, path)
    if not window.isdecimal() or len(window) > 5 or not 1 <= int(window) <= MAX_WINDOW_JOBS:
        raise PolicyError(
            f"{path}: expected 1 to {MAX_WINDOW_JOBS} visible jobs in {FORMAT!r}, got "
            f"{window!r:.60}"
        )
    return BatchRule(arrays["weights"], int(window))


class Predicts(Protocol):
    """A model as of Stable-Baselines3."""

    @property
    def predict(self) -> Callable[..., tuple[Any, Any]]:
        """The method: takes an observation and `deterministic`, returns an action and a state.

        The state is ignored. A method with the parameter `action_masks` gets the mask,
        int8[window_jobs].
        """


def scheduled_by(
    model: Predicts,
    *,
    window_jobs: int = WINDOW_JOBS,
    observation: Form = "dict",
    sample: bool = False,
) -> Policy:
    """Return the policy of a model that was trained in `hpcosim/BatchScheduling-v1`.

    The policy schedules as the environment does; `window_jobs` and `observation` are those of the
    training. An action without a visible job chooses the first job, as in the environment.

    Args:
        model: the model, such as `stable_baselines3.PPO.load("model.zip")`.

    Example:
        >>> policy = scheduled_by(model, observation="flat")  # in a policy file
    """
    if not callable(getattr(model, "predict", None)):
        raise PolicyError(f"{type(model).__name__} has no method predict")
    forms: dict[str, Any] = {"dict": by_name, "flat": flat}
    if observation not in forms:
        raise PolicyError(f"observation: expected one of {', '.join(forms)}, got {observation!r}")
    form, takes_mask = forms[observation], MASKS in inspect.signature(model.predict).parameters

    def choose(_: View, choices: QueueChoices) -> int:
        count = len(choices.jobs)
        mask = {MASKS: mask_of(count, window_jobs)} if takes_mask else {}
        seen = form(choices.scene, window_jobs)
        action, _state = model.predict(seen, deterministic=not sample, **mask)
        return index_of(action, count)

    return by_rounds(lambda view: BatchRounds(view, window_jobs), choose)


def index_of(action: object, jobs: int) -> int:
    """Return the index of the visible job that an action chooses; 0 if there is none."""
    number = np.asarray(action)
    if number.size != 1 or number.dtype.kind not in "iu":
        raise PolicyError(f"action of the model: expected an integer, got {action!r}")
    index = int(number.reshape(()))
    return index if 0 <= index < jobs else 0
