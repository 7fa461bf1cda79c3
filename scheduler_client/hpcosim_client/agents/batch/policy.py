"""The policy of a trained batch agent. It needs torch, the extra `rl`."""

from __future__ import annotations

from pathlib import Path

import torch

from hpcosim_client.agents.batch.model import load_batch
from hpcosim_client.agents.batch.rounds import BatchRounds, QueueChoices
from hpcosim_client.agents.rounds import by_rounds
from hpcosim_client.agents.row_networks import best
from hpcosim_client.agents.sampling import sampled
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_client.view import Policy, View


def batch(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy of a trained agent. It limits torch to one thread, see `use_one_thread`.

    Args:
        model: file of `hpcosim train batch`.
        sample: whether actions are sampled, with the view's `rng`; otherwise they are greedy.

    Raises:
        PolicyError: the file is invalid.
    """
    use_one_thread()
    actor, about = load_batch(Path(model))

    def choose(view: View, choices: QueueChoices) -> int:
        rows = torch.from_numpy(choices.rows)[None]
        with torch.inference_mode():
            logits = actor(rows, torch.ones(rows.shape[:2], dtype=torch.bool))[0].numpy()
        return sampled(logits, view.rng) if sample else best(logits)

    return by_rounds(lambda view: BatchRounds(view, about.window_jobs), choose)
