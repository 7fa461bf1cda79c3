"""Schedulers that register themselves by entry points, also those of other packages.

An entry point of the group `hpcosim.schedulers` has the name of a scheduler and loads a
`Scheduler`; one of `hpcosim.trained_schedulers` loads a `TrainedScheduler`, whose name in the
catalogue is `NAME:MODEL`. One of `hpcosim.power_managers` has the name of a power manager and loads
the function that makes it from its settings. Nothing is imported until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcosim_client.errors import PolicyError

if TYPE_CHECKING:  # names are checked without NumPy
    from importlib.metadata import EntryPoint

    from hpcosim_client.view import Policy

SCHEDULERS = "hpcosim.schedulers"
TRAINED = "hpcosim.trained_schedulers"
POWER_MANAGERS = "hpcosim.power_managers"


class Scheduler(NamedTuple):
    """A scheduler of the catalogue.

    Attributes:
        about: description in one line.
        make: returns a new policy.
    """

    about: str
    make: Callable[[], Policy]


class TrainedScheduler(NamedTuple):
    """A scheduler with a trained model.

    Attributes:
        about: description in one line.
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
    """Import what a name of a group stands for.

    Raises:
        PolicyError: the group has no such name.
    """
    points = registered(group)
    if name not in points:
        raise PolicyError(f"no installed package registers {name!r} in the group {group}")
    return points[name].load()
