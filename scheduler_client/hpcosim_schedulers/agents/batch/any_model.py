"""The policy of a model of any library: an object with the method `predict`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.agents.batch.observation import Form, by_name, flat, mask_of
from hpcosim_schedulers.agents.batch.rounds import BatchRounds, QueueChoices
from hpcosim_schedulers.agents.rounds import by_rounds
from hpcosim_schedulers.heuristics.chosen_head import WINDOW_JOBS

MASKS = "action_masks"


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

    The policy schedules as the environment does. An action without a visible job chooses the first
    job, as in the environment.

    Args:
        model: the model, such as `stable_baselines3.PPO.load("model.zip")`.
        window_jobs: number of visible jobs, as in the training.
        observation: form of the observation, as in the training.
        sample: whether the model samples its actions.

    Raises:
        PolicyError: the model has no method `predict`, or the form is unknown. The policy raises it
            if an action is not an integer.

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
    """Return the index of the visible job that an action chooses; 0 if there is none.

    Raises:
        PolicyError: the action is not an integer.
    """
    number = np.asarray(action)
    if number.size != 1 or number.dtype.kind not in "iu":
        raise PolicyError(f"action of the model: expected an integer, got {action!r}")
    index = int(number.reshape(()))
    return index if 0 <= index < jobs else 0
