"""The policy of a trained pairing agent. It needs torch, the extra `rl`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from hpcosim_client.agents.pairing.choices import Choices
from hpcosim_client.agents.pairing.model import load_pairing
from hpcosim_client.agents.pairing.networks import PairingActor, best
from hpcosim_client.agents.pairing.rounds import PairingRounds
from hpcosim_client.agents.rounds import by_rounds
from hpcosim_client.agents.sampling import sampled
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_client.view import Policy


def pairing(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy of a trained agent. It limits torch to one thread, see `use_one_thread`.

    Args:
        model: file of `hpcosim train pairing`.
        sample: whether actions are sampled, with the view's `rng`; otherwise they are greedy.

    Raises:
        PolicyError: the file is invalid.
    """
    use_one_thread()
    actor, about = load_pairing(Path(model))
    return by_rounds(
        lambda view: PairingRounds(about.pairing, view),
        lambda view, choices: choose(actor, choices, view.rng if sample else None),
    )


def choose(actor: PairingActor, choices: Choices, rng: np.random.Generator | None = None) -> int:
    """Return the index of the greedy choice, or of a sampled one.

    Args:
        actor: the network that scores the choices.
        choices: the valid actions.
        rng: source of random numbers; None: the choice is greedy, the first of equal ones.
    """
    if len(choices.rows) == 1:
        return 0
    rows = torch.from_numpy(choices.rows)[None]
    with torch.inference_mode():
        logits = actor(rows, torch.ones(rows.shape[:2], dtype=torch.bool))[0].numpy()
    return best(logits) if rng is None else sampled(logits, rng)
