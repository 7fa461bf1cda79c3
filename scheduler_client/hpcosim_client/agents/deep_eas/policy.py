"""Schedule as a trained Deep-EAS agent would. Needs torch: install the extra `rl`."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.agents.chance import drawn
from hpcosim_client.agents.deep_eas.network import load_deep_eas, logits_of
from hpcosim_client.agents.deep_eas.rounds import Rounds
from hpcosim_client.agents.deep_eas.scene import Scene
from hpcosim_client.agents.rounds import by_rounds
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_client.view import Policy, View


def deep_eas(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy that binds jobs to machines as a trained agent says.

    Torch is held to one thread, see `use_one_thread`.

    Args:
        model: a file that `save_deep_eas` wrote.
        sample: draw each choice by its probability, with the view's `rng`; False: take the best,
            the first of equal ones.

    Raises:
        PolicyError: the file holds no such agent.
    """
    use_one_thread()
    network, about = load_deep_eas(Path(model))

    def choose(view: View, scene: Scene) -> int:
        logits = logits_of(network, scene)[0]
        return drawn(logits, view.rng) if sample else int(logits.argmax())

    return by_rounds(lambda view: Rounds(about.settings, view), choose)
