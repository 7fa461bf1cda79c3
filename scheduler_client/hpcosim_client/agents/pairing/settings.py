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
        window_jobs: number of eligible jobs: the first in the queue, or under `foreseen` the
            first job of each of the first `window_jobs` kinds.
        placements_per_event: `one`: after a pair it waits for the next event, as the papers'
            program does; `all`: it goes on while anything fits.
        wait: it may choose to wait though something fits.
        wait_s: simulated seconds after which it decides again if nothing has happened; None: it
            decides only at events.
        most_wait_s: simulated seconds after its first choice to wait from which on it may not
            wait, until it has placed a job.
        objective: what is to be small, the energy or its product with the time it took.
        time_s, energy_j: the scales of features: a time t is shown as t / (t + time_s), an
            energy e as e / (e + energy_j).
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
