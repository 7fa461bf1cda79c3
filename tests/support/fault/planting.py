"""Which bugs a run of the tests plants, and how soon the simulated runs find them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

FOUND_WITHIN = 60
"""Number of seeds within which a planted bug must be found."""
SHORT = {
    "a repeated hello drops the session",
    "a record is not synchronised",
    "the end of a session is not synchronised",
    "a connection moves without what is unread",
}
"""The planted bugs of `make test`: of a session, of a journal, of its end, of a connection."""


def planted(mutations: Iterable[str]) -> list[Any]:
    """Return the names of planted bugs as parameters; only `make fault` plants most of them."""
    return [
        pytest.param(what, marks=() if what in SHORT else pytest.mark.fault) for what in mutations
    ]


def found_within(violated: Callable[[int], object]) -> int | None:
    """Return the number of seeds after which a planted bug is found; None: it is not.

    What the bug left open is closed at the end, not in another test, which would fail.

    Args:
        violated: whether the run of a seed violates an invariant; an error shows the bug, too.
    """
    try:
        for seed in range(FOUND_WITHIN):
            try:
                if violated(seed):
                    return seed + 1
            except Exception:
                return seed + 1
        return None
    finally:
        gc.collect()
