"""Settings of the actions and observations of a pairing agent, which its model file records."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Sees = Literal["papers", "papers_no_energy", "foreseen"]
Objective = Literal["energy", "edp"]

Positive = Annotated[float, Meta(gt=0, le=1e12)]


class Pairing(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action is a pair of an eligible job and a node with enough free cores, or to wait.

    Attributes:
        sees: the features of a pair. `papers`: those of Lopez, Stafford, Bosque 2025, table 1;
            `papers_no_energy`: the same without the three features of energy; `foreseen`: the
            forecast features of `forecast_features`, with one pair for all equivalent pairs.
        window_jobs: number of eligible jobs, 1 to 1000: the first jobs of the queue, or with
            `foreseen` the first job of each of the first `window_jobs` kinds.
        placements_per_event: `one`: at most one job starts at an event, as in the program of the
            papers; `all`: rounds follow while a job fits.
        wait: whether the agent may wait although a job fits.
        wait_s: interval after which the agent decides again without an event, simulated seconds,
            > 0; None: it decides only at events.
        most_wait_s: upper bound of the time from the agent's first wait action to its next pair,
            simulated seconds, > 0.
        objective: minimised quantity: `energy`, or `edp`, the product of energy and makespan.
        time_s: scale of times, in seconds, > 0: a feature of a time t is t / (t + time_s).
        energy_j: scale of energies, in J, > 0: a feature of an energy e is e / (e + energy_j).
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
