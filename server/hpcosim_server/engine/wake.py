"""Which events wake a scheduler, as bits: one test of two numbers at each instant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from hpcosim_protocol import ALWAYS_WAKE_ON, DEFAULT_WAKE_ON, EventKind

BIT: dict[EventKind, int] = {kind: 1 << i for i, kind in enumerate(get_args(EventKind))}


def mask_of(kinds: Iterable[EventKind]) -> int:
    """Return the bits of these kinds and of those that always wake."""
    mask = 0
    for kind in (*kinds, *ALWAYS_WAKE_ON):
        mask |= BIT[kind]
    return mask


DEFAULT_MASK = mask_of(DEFAULT_WAKE_ON)
