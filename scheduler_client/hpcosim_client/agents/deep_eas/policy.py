"""Schedule as a trained Deep-EAS agent would. Needs torch: install the extra `rl`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from hpcosim_client.agents.chance import drawn
from hpcosim_client.agents.deep_eas.model import load_deep_eas
from hpcosim_client.agents.deep_eas.network import logits_of
from hpcosim_client.agents.deep_eas.rounds import Rounds
from hpcosim_client.agents.deep_eas.scene import Scene
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.view import Policy, View

Choose = Callable[[View, Scene], int]
"""Returns the action in the one moment of a scene."""


def deep_eas(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy that binds jobs to machines as a trained agent says.

    Torch is held to one thread from here on: with several, they wait for each other far longer
    than a network this small takes.

    Args:
        model: a file that `save_deep_eas` wrote.
        sample: draw each choice by its probability, from the view's chance; else the best, the
            first of equals.

    Raises:
        PolicyError: the file holds no such agent.
    """
    torch.set_num_threads(1)
    network, about = load_deep_eas(Path(model))

    def choose(view: View, scene: Scene) -> int:
        logits = logits_of(network, scene)[0]
        return drawn(logits, view.rng) if sample else int(logits.argmax())

    return deciding(about.settings, choose)


def deciding(settings: DeepEas, choose: Choose) -> Policy:
    """Return the policy that binds jobs to machines by whoever chooses, wherever there is a choice.

    Args:
        settings: what is decided.
        choose: the choice.
    """
    rounds: Rounds | None = None

    def decide(view: View) -> None:
        nonlocal rounds
        if rounds is None:
            rounds = Rounds(settings, view)
        rounds.begin(view)
        while (scene := rounds.look(view)) is not None:
            rounds.take(view, choose(view, scene))

    return decide
