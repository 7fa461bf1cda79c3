"""Schedulers that register themselves by entry points, and trained ones with their model files.

A name that is not that of a trained scheduler, or has no valid file, is a `PolicyError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcosim_client.errors import PolicyError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from hpcosim_client.view import Policy


SAMPLED = "-sampled"
"""Suffix of the name of a trained scheduler that samples its actions."""


SCHEDULERS = "hpcosim.schedulers"
TRAINED = "hpcosim.trained_schedulers"
POWER_MANAGERS = "hpcosim.power_managers"


def trained_names() -> list[str]:
    """Return the names of all trained schedulers, without a file, also those with `SAMPLED`."""
    names = list(registered(TRAINED))
    return [*names, *(name + SAMPLED for name in names)]


def is_trained(name: str) -> bool:
    """Return whether a name is the name of a trained scheduler, with or without a file."""
    return name.partition(":")[0] in trained_names()


def with_model(name: str, model: Path | None, *, sample: bool = False) -> str:
    """Return the name of a scheduler with the values of the options `--model` and `--sample`."""
    if model is None and not sample:
        return name
    if name not in registered(TRAINED):
        known = ", ".join(registered(TRAINED))
        raise PolicyError(f"{name}: --model and --sample apply only to trained schedulers: {known}")
    return f"{name}{SAMPLED if sample else ''}" + (f":{model}" if model else "")


def check_trained(name: str) -> None:
    """Check that a name is that of a trained scheduler with a file, which is not opened."""
    if not is_trained(name) or not name.partition(":")[2]:
        kind = name if is_trained(name) else "pairing"
        raise PolicyError(
            f"expected a trained scheduler with its model, {kind}:MODEL.safetensors or the option "
            f"--model, got {name!r}"
        )


def make_trained(name: str) -> Policy:
    """Return a new policy of a trained scheduler, by its name with a file."""
    check_trained(name)
    kind, _, model = name.partition(":")
    scheduler: TrainedScheduler = load(TRAINED, kind.removesuffix(SAMPLED))
    sample = kind.endswith(SAMPLED)
    if sample and not scheduler.sampled:
        raise PolicyError(f"{name}: this scheduler does not sample actions")
    return scheduler.make(Path(model), sample=sample)


class Scheduler(NamedTuple):
    """A scheduler of the catalogue."""

    about: str
    make: Callable[[], Policy]


class TrainedScheduler(NamedTuple):
    """A scheduler with a trained model.

    Attributes:
        make: returns a new policy for a model file, and whether actions are sampled.
        sampled: description of the scheduler with sampled actions, `NAME-sampled:MODEL`; empty: it
            does not sample.
    """

    about: str
    make: Callable[..., Policy]
    sampled: str = ""


@cache
def registered(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, in alphabetical order."""
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=group)}
    return {name: points[name] for name in sorted(points)}


def load(group: str, name: str) -> Any:
    """Import what a name of a group stands for."""
    points = registered(group)
    if name not in points:
        raise PolicyError(f"no installed package registers {name!r} in the group {group}")
    return points[name].load()
