"""What Deep-EAS is shown and asked: all that its model must agree with."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Sees = Literal["picture", "pairs"]
Few = Annotated[int, Meta(ge=1, le=1000)]
Rows = Annotated[int, Meta(ge=3, le=1000)]  # as many as a filter of the network has


class DeepEas(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The decision: a waiting job and a machine, or to hold; the defaults are the paper's.

    Attributes:
        machines: how many nodes there are.
        cores: of each.
        horizon: H, how many steps ahead are seen, and planned.
        queue: Q, how many waiting jobs are seen, the first ones.
        backlog: B, how many waiting jobs behind these are counted; a multiple of `horizon`.
        since_arrival: L, how many steps since the last submission are counted; a multiple of
            `horizon`.
        step_s: the length of a step.
        masked: impossible actions are never chosen; the paper's agent may choose one, which ends
            the step.
        sees: the paper's picture of the cluster; or what each pair of a machine and a job would
            mean, which goes for any number of machines.
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
                raise ValueError(f"{name} is {value}, no multiple of the horizon, {self.horizon}")

    @property
    def width(self) -> int:
        """Columns of the picture."""
        counts = (self.backlog + self.since_arrival) // self.horizon
        return self.machines * self.cores * (1 + self.queue) + counts

    @property
    def actions(self) -> int:
        """How many there are: machine x queue + slot, and the last, to hold."""
        return self.machines * self.queue + 1
