"""The power manager of a trained network."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.view import View
from hpcosim_papers.power.agent.network import best_actions, load_actor, logits_of
from hpcosim_schedulers.power.features import action_mask, features
from hpcosim_schedulers.power.manager import Manager
from hpcosim_schedulers.power.periodic import Periodic


def learned(
    model: Path | str, interval_s: float | None = None, origin_s: float | None = None
) -> Manager:
    """Return the manager that takes the greedy action of a trained network for every node.

    The first decision takes place at the first call, the next one `interval_s` after each.

    Args:
        model: file of `hpcosim train power`.
        interval_s: interval between two decisions, simulated seconds; None: as in training.
        origin_s: second of the week, from Monday midnight, at which the simulation starts; None: as
            in training. Networks without calendar features ignore it.

    Raises:
        PolicyError: the file is invalid.
    """
    weights, about = load_actor(Path(model))
    if about.origin_s is None or origin_s is None:
        origin_s = about.origin_s
    decisions = Periodic(about.interval_s if interval_s is None else interval_s)

    def manage(view: View) -> float | None:
        if not decisions.due(view):
            return None
        seen = features(view, decisions.account, origin_s)
        mask = action_mask(view, decisions.account)
        return decisions.decide(view, best_actions(logits_of(about.shape, weights, seen), mask))

    return manage
