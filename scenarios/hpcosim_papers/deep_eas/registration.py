"""The schedulers of Deep-EAS in the catalogue: a trained agent, also with look-ahead."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.view import Policy
from hpcosim_schedulers.catalogue.trained import TrainedScheduler


def _agent(model: Path, *, sample: bool) -> Policy:
    from hpcosim_papers.deep_eas.agent.policy import deep_eas

    return deep_eas(model, sample=sample)


def _searching(model: Path, *, sample: bool) -> Policy:
    from hpcosim_papers.deep_eas.agent.policy import deep_eas

    return deep_eas(model, sample=sample, search=True)


DEEP_EAS = TrainedScheduler(
    "trained network that binds jobs to machines (hpcosim train deep-eas)",
    _agent,
    "the same, with actions sampled from its distribution",
)
DEEP_EAS_SEARCH = TrainedScheduler(
    "deep-eas:MODEL with simulated futures of its two likeliest actions", _searching
)
