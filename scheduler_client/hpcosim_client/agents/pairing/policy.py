"""Schedule as a trained pairing agent would. Needs torch: install the extra `rl`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from hpcosim_client.agents.chance import drawn
from hpcosim_client.agents.pairing.choices import Choices
from hpcosim_client.agents.pairing.model import load_pairing
from hpcosim_client.agents.pairing.networks import Actor, best
from hpcosim_client.agents.pairing.rounds import Rounds
from hpcosim_client.view import Policy, View


def pairing(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy that starts the jobs where a trained agent says.

    Torch is held to one thread from here on: with several, they wait for each other far longer
    than networks this small take.

    Args:
        model: a file that `save_pairing` wrote.
        sample: draw each choice by its probability, from the view's chance; else the best.

    Raises:
        PolicyError: the file holds no such agent.
    """
    torch.set_num_threads(1)
    actor, about = load_pairing(Path(model))
    rounds: Rounds | None = None

    def decide(view: View) -> None:
        nonlocal rounds
        if rounds is None:
            rounds = Rounds(about.pairing, view)
        rounds.begin(view)
        while (choices := rounds.look(view)) is not None:
            rounds.take(view, choices, choose(actor, choices, view.rng if sample else None))

    return decide


def choose(actor: Actor, choices: Choices, rng: np.random.Generator | None = None) -> int:
    """Return the choice that most speaks for, the first of equals, or one drawn.

    Args:
        actor: who says.
        choices: what there is to choose from.
        rng: what draws; None: nothing is drawn.
    """
    if len(choices.rows) == 1:
        return 0
    rows = torch.from_numpy(choices.rows)[None]
    with torch.inference_mode():
        logits = actor(rows, torch.ones(rows.shape[:2], dtype=torch.bool))[0].numpy()
    return best(logits) if rng is None else drawn(logits, rng)
