"""Sets of hosts as Batsim writes them: `0-3 5`."""

from __future__ import annotations

import re

_INTERVAL = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def parse_intervals(text: str, hosts: int) -> list[int]:
    """Return the hosts of a set, in ascending order.

    Args:
        text: intervals with spaces or commas between them.
        hosts: how many there are.

    Raises:
        ValueError: it is no such set, is empty, or names a host twice or one that is not there.
    """
    numbers: list[int] = []
    for part in text.replace(",", " ").split():
        found = _INTERVAL.fullmatch(part)
        if found is None:
            raise ValueError(f"{part[:40]!r} is no host, nor an interval of hosts such as 0-3")
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if last < first:
            raise ValueError(f"{part!r} is no interval: it must go up")
        if last >= hosts:
            raise ValueError(f"there is no host {last}; they go from 0 to {hosts - 1}")
        numbers.extend(range(first, last + 1))
        if len(numbers) > hosts:
            raise ValueError(f"{text[:40]!r} names a host twice")
    if not numbers:
        raise ValueError("it names no host")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{text[:40]!r} names a host twice")
    return sorted(numbers)
