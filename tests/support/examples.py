"""How many examples a property is tried with."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

ALL = 100
"""Examples of a property that names no number, where all tests are run."""
FEW = 5
"""The same in the fast tier."""
FEWEST = 3


def register_profiles() -> None:
    """Offer Hypothesis the profiles `all`, which is loaded, and `fast`."""
    # Machines differ in speed; a property is no less true on a slow one.
    settings.register_profile("all", deadline=None, max_examples=ALL)
    settings.register_profile("fast", deadline=None, max_examples=FEW)
    settings.load_profile("all")


def examples(count: int, **options: Any) -> settings:
    """Return settings for a number of examples, and for a twentieth of it in the profile `fast`.

    Args:
        count: examples where all tests are run.
        options: of `hypothesis.settings`.
    """
    share = settings().max_examples / ALL
    return settings(max_examples=max(FEWEST, round(count * share)), **options)
