"""The entry of the batch agent in the catalogue of schedulers."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.view import Policy
from hpcosim_schedulers.catalogue.trained import TrainedScheduler


def _make(model: Path, *, sample: bool) -> Policy:
    from hpcosim_schedulers.agents.batch.policy import batch

    return batch(model, sample=sample)


BATCH = TrainedScheduler(
    "searched rule that chooses the head of easy (hpcosim train batch)",
    _make,
    "the same, with the scores of the rule as logits of the choice",
)
