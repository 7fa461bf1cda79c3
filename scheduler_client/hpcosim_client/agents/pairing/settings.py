"""What a pairing agent is asked, and what it is shown: all that its model must agree with."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Sees = Literal["papers", "papers_no_energy", "foreseen"]
Objective = Literal["energy", "edp"]

Positive = Annotated[float, Meta(gt=0, le=1e12)]


class Pairing(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The decision: one of the pairs of an eligible job and a node with room for it, or to wait.

    Attributes:
        sees: the features of a pair. `papers`: those of Lopez, Stafford, Bosque 2025, table 1, of
            every pair; `papers_no_energy`: without the three that tell of energy; `foreseen`:
            those of `foreseen`, of pairs that nothing tells apart only the first.
        window_jobs: how many jobs are eligible: the first in the queue, or under `foreseen` the
            first of each of the first so many kinds.
        placements_per_event: `one`: after a pair it waits for the next event, as the papers'
            program does; `all`: it goes on while anything fits.
        wait: it may choose to wait though something fits.
        wait_s: after so long it is asked again if nothing has happened; None: only an event
            wakes it.
        most_wait_s: so long after it first chose to wait it may not any more, until it has
            placed a job.
        objective: what is to be small, the energy or its product with the time it took.
        time_s, energy_j: the scales of features: a time t is shown as t / (t + time_s), an
            energy likewise.
    """

    sees: Sees = "foreseen"
    window_jobs: Annotated[int, Meta(ge=1, le=1000)] = 10
    placements_per_event: Literal["one", "all"] = "all"
    wait: bool = True
    wait_s: Positive | None = None
    most_wait_s: Positive = 600.0
    objective: Objective = "energy"
    time_s: Positive = 30.0
    energy_j: Positive = 1000.0
