"""The policy of a trained Deep-EAS agent. It needs torch, the extra `rl`."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.agents.deep_eas.network import load_deep_eas, logits_of
from hpcosim_client.agents.deep_eas.rounds import DeepEasRounds
from hpcosim_client.agents.deep_eas.scene import Scene
from hpcosim_client.agents.rounds import by_rounds
from hpcosim_client.agents.sampling import sampled
from hpcosim_client.agents.threads import use_one_thread
from hpcosim_client.view import Policy, View


def deep_eas(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy of a trained agent. It limits torch to one thread, see `use_one_thread`.

    Args:
        model: file of `hpcosim train deep-eas`.
        sample: whether actions are sampled, with the view's `rng`; otherwise they are greedy, the
            first of equal ones.

    Raises:
        PolicyError: the file is invalid.
    """
    use_one_thread()
    network, about = load_deep_eas(Path(model))

    def choose(view: View, scene: Scene) -> int:
        logits = logits_of(network, scene)[0]
        return sampled(logits, view.rng) if sample else int(logits.argmax())

    return by_rounds(lambda view: DeepEasRounds(about.settings, view), choose)
