"""Switch nodes as a trained network would. Needs torch: install the extra `rl`."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.agents.node_power.network import best_actions, load_actor
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_client.power.features import action_mask, features
from hpcosim_client.power.manager import Manager
from hpcosim_client.power.periodic import Periodic
from hpcosim_client.view import View


def learned(
    model: Path | str, interval_s: float | None = None, origin_s: float | None = None
) -> Manager:
    """Return the manager that asks a trained network every `interval_s` for every node at once.

    Of what may be asked of a node it takes the more probable; no chance is involved. The first
    decision falls on the first instant at which it is called. To stand beside a job scheduler in
    `managed`.

    Torch is held to one thread, see `use_one_thread`.

    Args:
        model: a file that `save_actor` wrote.
        interval_s: seconds between two decisions; None: as in training.
        origin_s: the second of the week at which simulated time is 0; None: as in training. A
            network without calendar features ignores it.

    Raises:
        PolicyError: the file holds no such network.
    """
    use_one_thread()
    actor, about = load_actor(Path(model))
    if about.origin_s is None or origin_s is None:
        origin_s = about.origin_s
    rounds = Periodic(about.interval_s if interval_s is None else interval_s)

    def manage(view: View) -> float | None:
        if not rounds.due(view):
            return None
        seen = features(view, rounds.account, origin_s)
        mask = action_mask(view, rounds.account)
        return rounds.decide(view, best_actions(actor, seen, mask))

    return manage
