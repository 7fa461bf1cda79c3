"""Lists of jobs, the rows of `Site.lists`."""

from __future__ import annotations

from hpcosim_compiled.compiler import compiled
from hpcosim_compiled.slurm.state import Site


@compiled
def drop(own: Site, which: int, count: int, row: int) -> None:
    """Remove a job from a list of `count` jobs, which has it. The others keep their order."""
    place = 0
    while own.lists[which, place] != row:
        place += 1
    for later in range(place, count - 1):
        own.lists[which, later] = own.lists[which, later + 1]
