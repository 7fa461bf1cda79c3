"""Lists of jobs, the rows of `Site.lists`."""

from __future__ import annotations

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.slurm.state import Site


@compiled
def drop(own: Site, which: int, count: int, row: int) -> int:
    """Remove a job from a list of `count` jobs, which has it. The others keep their order.

    Returns:
        Its place.
    """
    place = 0
    while own.lists[which, place] != row:
        place += 1
    close(own, which, count, place)
    return place


@compiled
def close(own: Site, which: int, count: int, place: int) -> None:
    """Remove the entry at a place of a list of `count` entries."""
    for later in range(place, count - 1):
        own.lists[which, later] = own.lists[which, later + 1]
