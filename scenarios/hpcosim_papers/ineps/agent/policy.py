"""The policy of a trained pairing agent."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.view import Policy, View
from hpcosim_papers.ineps.agent.choices import Choices
from hpcosim_papers.ineps.agent.model import best, load_pairing, logits_of
from hpcosim_papers.ineps.agent.rounds import PairingRounds
from hpcosim_schedulers.agents.rounds import by_rounds, sampled


def pairing(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy of a trained agent.

    Args:
        model: file of `hpcosim train pairing`.
        sample: whether actions are sampled, with the view's `rng`; otherwise they are greedy.

    Raises:
        PolicyError: the file is invalid.
    """
    weights, about = load_pairing(Path(model))

    def choose(view: View, choices: Choices) -> int:
        if len(choices.rows) == 1:
            return 0
        logits = logits_of(about.pairing, weights, choices.rows)
        return sampled(logits, view.rng) if sample else best(logits)

    return by_rounds(lambda view: PairingRounds(about.pairing, view), choose)
