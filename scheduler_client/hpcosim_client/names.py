"""Names of policies: lower case, words joined by hyphens."""

from __future__ import annotations

from collections.abc import Collection


def canonical(name: str, known: Collection[str]) -> str:
    """Return a known name in lower case; an unknown name is returned unchanged.

    Args:
        name: a name as a user wrote it; case does not matter.
        known: the canonical names.
    """
    return name.lower() if name.lower() in known else name
