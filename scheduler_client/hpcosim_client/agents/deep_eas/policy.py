"""Schedule as a trained Deep-EAS agent would. Needs torch: install the extra `rl`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hpcosim_client.agents.chance import drawn
from hpcosim_client.agents.deep_eas.model import load_deep_eas
from hpcosim_client.agents.deep_eas.network import DeepEasNetwork
from hpcosim_client.agents.deep_eas.picture import Picture
from hpcosim_client.agents.deep_eas.rounds import Rounds
from hpcosim_client.view import Policy, View


def deep_eas(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy that binds jobs to machines as a trained agent says.

    Torch is held to one thread from here on: with several, they wait for each other far longer
    than a network this small takes.

    Args:
        model: a file that `save_deep_eas` wrote.
        sample: draw each choice by its probability, from the view's chance; else the best.

    Raises:
        PolicyError: the file holds no such agent.
    """
    torch.set_num_threads(1)
    network, about = load_deep_eas(Path(model))
    rounds: Rounds | None = None

    def decide(view: View) -> None:
        nonlocal rounds
        if rounds is None:
            rounds = Rounds(about.settings, view)
        rounds.begin(view)
        while (seen := rounds.look(view)) is not None:
            mask = rounds.possible() if about.settings.masked else None
            rounds.take(view, choose(network, seen, mask, view.rng if sample else None))

    return decide


def choose(
    network: DeepEasNetwork,
    seen: Picture,
    mask: NDArray[np.bool_] | None = None,
    rng: np.random.Generator | None = None,
) -> int:
    """Return the action that most speaks for, the first of equals, or one drawn.

    Args:
        network: who says.
        seen: the picture.
        mask: which actions there are; None: all.
        rng: what draws; None: nothing is drawn.
    """
    with torch.inference_mode():
        logits = network(torch.from_numpy(seen)[None].to(torch.float32))[0].numpy()
    if mask is not None:
        logits = np.where(mask, logits, -np.inf)
    return int(logits.argmax()) if rng is None else drawn(logits, rng)
