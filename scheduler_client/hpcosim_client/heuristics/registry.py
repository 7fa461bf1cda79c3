"""Every policy by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics import orders
from hpcosim_client.heuristics.conservative import conservative
from hpcosim_client.heuristics.easy import easy
from hpcosim_client.heuristics.list_scheduling import (
    by_changing_key,
    by_fixed_key,
    first_come_first_served,
)
from hpcosim_client.view import Policy

POLICIES: Mapping[str, Callable[[], Policy]] = {
    "fcfs": lambda: first_come_first_served,
    **{name: lambda key=key: by_fixed_key(key) for name, key in orders.FIXED.items()},  # type: ignore[misc]
    **{name: lambda key=key: by_changing_key(key) for name, key in orders.CHANGING.items()},  # type: ignore[misc]
    "easy": lambda: easy,
    "conservative": conservative,
}
"""Makes a policy, new for every simulation, since it may remember."""


def make_policy(name: str) -> Policy:
    """Return a new policy of that name.

    Raises:
        PolicyError: there is none; the nearest names are given.
    """
    if name not in POLICIES:
        near = difflib.get_close_matches(name, POLICIES, n=3) or list(POLICIES)
        raise PolicyError(f"there is no scheduler {name!r}; did you mean {', '.join(near)}?")
    return POLICIES[name]()
