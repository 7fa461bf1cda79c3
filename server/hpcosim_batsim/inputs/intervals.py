"""Parser of Batsim's interval sets of hosts, such as `0-3 5`."""

from __future__ import annotations

import re

_INTERVAL = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def parse_intervals(text: str, hosts: int) -> list[int]:
    """Return the hosts of an interval set in ascending order.

    Args:
        text: intervals, separated by spaces or commas.
        hosts: number of hosts.

    Raises:
        ValueError: the text is not an interval set, is empty, has a host twice, or has a number
            that is not a host.
    """
    numbers: list[int] = []
    for part in text.replace(",", " ").split():
        found = _INTERVAL.fullmatch(part)
        if found is None:
            raise ValueError(
                f"expected a host number or an interval such as 0-3, got {part[:40]!r}"
            )
        first = int(found[1])
        last = first if found[2] is None else int(found[2])
        if last < first:
            raise ValueError(f"expected an ascending interval, got {part!r}")
        if last >= hosts:
            raise ValueError(f"there is no host {last}; expected 0 to {hosts - 1}")
        numbers.extend(range(first, last + 1))
        if len(numbers) > hosts:
            raise ValueError(f"{text[:40]!r} has a host twice")
    if not numbers:
        raise ValueError("expected at least one host, got an empty interval set")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{text[:40]!r} has a host twice")
    return sorted(numbers)
