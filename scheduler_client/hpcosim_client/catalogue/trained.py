"""Trained job schedulers by name and model file: `pairing:model.safetensors`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_client.errors import PolicyError

if TYPE_CHECKING:  # names are checked without NumPy
    from hpcosim_client.view import Policy

SAMPLED = "-sampled"
"""Suffix of the name of a trained scheduler that samples its actions."""


SEARCH = "deep-eas-search"
"""The scheduler `deep-eas` with look-ahead. It does not sample actions."""

TRAINED = ("pairing", "deep-eas", SEARCH, "batch")


def is_trained(name: str) -> bool:
    """Return whether a name is the name of a trained scheduler, with or without a file."""
    kind = name.partition(":")[0]
    return kind == SEARCH or (kind.removesuffix(SAMPLED) in TRAINED and not kind.startswith(SEARCH))


def with_model(name: str, model: Path | None, *, sample: bool = False) -> str:
    """Return the name of a scheduler with the values of the options `--model` and `--sample`.

    Args:
        name: name of a scheduler.
        model: model file of a trained scheduler; None: no file.
        sample: whether a trained scheduler samples its actions; otherwise it is greedy.

    Raises:
        PolicyError: a model or sampling is given, but the scheduler is not trained.
    """
    if model is None and not sample:
        return name
    if not is_trained(name) or ":" in name or (sample and name == SEARCH):
        known = ", ".join(TRAINED)
        raise PolicyError(f"{name}: --model and --sample apply only to trained schedulers: {known}")
    return f"{name}{SAMPLED if sample else ''}" + (f":{model}" if model else "")


def check_trained(name: str) -> None:
    """Check that a name is that of a trained scheduler with a file, which is not opened.

    Raises:
        PolicyError: the scheduler is not trained, or the file is missing from the name.
    """
    if not is_trained(name) or not name.partition(":")[2]:
        kind = name if is_trained(name) else "pairing"
        raise PolicyError(
            f"expected a trained scheduler with its model, {kind}:MODEL.safetensors or the option "
            f"--model, got {name!r}"
        )


def make_trained(name: str) -> Policy:
    """Return a new policy of a trained scheduler, by its name with a file.

    Raises:
        PolicyError: see `check_trained`, or the file has no such model.
    """
    check_trained(name)
    kind, _, model = name.partition(":")
    path, sample = Path(model), kind.endswith(SAMPLED)
    if kind.removesuffix(SAMPLED) == "pairing":
        from hpcosim_client.agents.pairing.policy import pairing

        return pairing(path, sample=sample)
    if kind.removesuffix(SAMPLED) == "batch":
        from hpcosim_client.agents.batch.policy import batch

        return batch(path, sample=sample)
    from hpcosim_client.agents.deep_eas.policy import deep_eas

    return deep_eas(path, sample=sample, search=kind == SEARCH)
