"""The policies of a trained Deep-EAS agent."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hpcosim_client.view import Policy, View
from hpcosim_papers.deep_eas.agent.look_ahead import LookAhead, improved_actions
from hpcosim_papers.deep_eas.agent.network import LogitsOf, load_deep_eas, network_of
from hpcosim_papers.deep_eas.agent.rounds import DeepEasRounds
from hpcosim_papers.deep_eas.agent.scene import Scene
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines
from hpcosim_schedulers.agents.rounds import by_rounds, sampled
from hpcosim_schedulers.heuristics.node_keys import run_time_scale


def deep_eas(model: Path | str, *, sample: bool = False, search: bool = False) -> Policy:
    """Return the policy of a trained agent.

    Args:
        model: file of `hpcosim train deep-eas`.
        sample: whether actions are sampled, with the view's `rng`; otherwise they are greedy, the
            first of equal ones.
        search: whether actions are improved by `look_ahead`, with the view's `rng`.

    Raises:
        PolicyError: the file is invalid.
        ValueError: both `sample` and `search`.
    """
    if sample and search:
        raise ValueError("sample and search exclude each other")
    weights, about = load_deep_eas(Path(model))
    network = network_of(about.settings, weights)
    if search:
        return _searching(network, about.settings)

    def choose(view: View, scene: Scene) -> int:
        logits = network(scene)[0]
        return sampled(logits, view.rng) if sample else int(logits.argmax())

    return by_rounds(lambda view: DeepEasRounds(about.settings, view), choose)


def _searching(network: LogitsOf, settings: DeepEas) -> Policy:
    rounds: DeepEasRounds
    machines: Machines

    def new(view: View) -> DeepEasRounds:
        nonlocal rounds, machines
        rounds = DeepEasRounds(settings, view)
        own = msgspec.structs.replace(settings, machines=len(view.nodes.capacity))
        machines = Machines(own, view.nodes.dynamic_w, run_time_scale(view))
        return rounds

    def choose(view: View, scene: Scene) -> int:
        known = rounds.moment(view)
        return int(improved_actions(network, machines, known, scene, LookAhead(), view.rng)[0])

    return by_rounds(new, choose)
