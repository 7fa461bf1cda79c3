"""Settings of the actions and observations of Deep-EAS, which its model file records."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Sees = Literal["picture", "pairs", "queue"]
Few = Annotated[int, Meta(ge=1, le=1000)]
Rows = Annotated[int, Meta(ge=3, le=1000)]  # as many as a filter of the network has


class DeepEas(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action is a pair of a waiting job and a machine, or to hold. The defaults are the paper's.

    Attributes:
        machines: number of nodes, 1 to 1000.
        cores: cores of each node, 1 to 1000.
        horizon: H, number of steps that are observed and planned, 3 to 1000.
        queue: Q, number of slots for waiting jobs, 1 to 1000.
        backlog: B, upper bound of the observed number of waiting jobs behind the slots; a multiple
            of `horizon`.
        since_arrival: L, upper bound of the observed steps since the last submission; a multiple of
            `horizon`.
        step_s: duration of a step, simulated seconds, > 0.
        masked: whether invalid actions are excluded. The paper's agent may take one, which ends the
            step.
        sees: `picture`: the binary picture of the paper; `pairs`: features of each pair of a
            machine and a job, for any number of machines; `queue`: the same with figures of the
            whole queue. Slots hold the first waiting jobs; with `queue`, two thirds of them hold
            the jobs with the shortest expected run time, the others the last submitted of the rest.
    """

    machines: Few = 2
    cores: Few = 10
    horizon: Rows = 30
    queue: Few = 10
    backlog: Few = 90
    since_arrival: Few = 30
    step_s: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    masked: bool = False
    sees: Sees = "picture"

    def __post_init__(self) -> None:
        for name, value in (("backlog", self.backlog), ("since_arrival", self.since_arrival)):
            if value % self.horizon:
                raise ValueError(
                    f"{name}: expected a multiple of the horizon, {self.horizon}, got {value}"
                )

    @property
    def newest(self) -> int:
        """Number of slots for the last submitted jobs."""
        return self.queue // 3 if self.sees == "queue" else 0

    @property
    def width(self) -> int:
        """Number of columns of the picture."""
        counts = (self.backlog + self.since_arrival) // self.horizon
        return self.machines * self.cores * (1 + self.queue) + counts

    @property
    def actions(self) -> int:
        """Number of actions: machine x queue + slot; the last one is to hold."""
        return self.machines * self.queue + 1
