"""Numbers of examples of property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

ALL = 100
"""Default number of examples of a property in the full test suite."""
FEW = 5
"""Default number of examples in the fast test suite."""
FEWEST = 3


def register_profiles() -> None:
    """Register the Hypothesis profiles `all` (loaded) and `fast`."""
    # No deadline: machines differ in speed.
    settings.register_profile("all", deadline=None, max_examples=ALL)
    settings.register_profile("fast", deadline=None, max_examples=FEW)
    settings.load_profile("all")


def examples(count: int, **options: Any) -> settings:
    """Return Hypothesis settings; the profile `fast` uses a twentieth of the examples.

    Args:
        count: number of examples in the full test suite.
        options: further arguments of `hypothesis.settings`.
    """
    share = settings().max_examples / ALL
    return settings(max_examples=max(FEWEST, round(count * share)), **options)
