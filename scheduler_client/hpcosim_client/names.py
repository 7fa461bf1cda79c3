"""Names of policies: lower case, words joined by hyphens."""

from __future__ import annotations

import warnings
from collections.abc import Collection


def spelled(name: str) -> str:
    """Return a name in lower case with hyphens, known or not."""
    return name.lower().replace("_", "-")


def canonical(name: str, known: Collection[str]) -> str:
    """Return the canonical spelling of a name; an unknown name is returned unchanged.

    Case does not matter. Underscores, as in `low_power`, are the spelling of release 0.1; they are
    accepted with a `FutureWarning`.

    Args:
        name: a name as a user wrote it.
        known: the canonical names.
    """
    current = spelled(name)
    if current not in known:
        return name
    if "_" in name:
        warnings.warn(
            f"the name {name!r} is now spelled {current!r}; the old spelling is accepted in "
            "release 0.2 only",
            FutureWarning,
            stacklevel=1,  # one place for all callers, so that each name is reported once
        )
    return current
