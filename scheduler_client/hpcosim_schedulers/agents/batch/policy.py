"""The policy of a trained batch agent."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.view import Policy, View
from hpcosim_schedulers.agents.batch.model import best, load_batch, scores
from hpcosim_schedulers.agents.batch.rounds import BatchRounds, QueueChoices
from hpcosim_schedulers.agents.rounds import by_rounds, sampled


def batch(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy of a trained agent.

    Args:
        model: file of `hpcosim train batch`.
        sample: whether jobs are sampled, with the view's `rng` and the scores as logits; otherwise
            the job with the highest score is chosen.

    Raises:
        PolicyError: the file is invalid.
    """
    rule = load_batch(Path(model))

    def choose(view: View, choices: QueueChoices) -> int:
        if sample:
            return sampled(scores(rule.weights, choices.scene), view.rng)
        return best(rule.weights, choices.scene)

    return by_rounds(lambda view: BatchRounds(view, rule.window_jobs), choose)
