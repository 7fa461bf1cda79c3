"""The scheduler section of a scenario: a name and settings, which only the client validates."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from hpcosim_scenarios.model.bounds import Name

Path = Annotated[str, Meta(min_length=1, max_length=1000)]


class Scheduler(Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler of `hpcosim run`; one that connects to `hpcosim serve` has its own settings.

    The values are plain data: `running.chosen` has the client read them. A server reads none.

    Attributes:
        name: a job scheduler, as `hpcosim schedule` takes it.
        power: the power manager that switches nodes beside it: `name` and its settings, see
            `hpcosim_client.power.settings`; paths in it start at the scenario's folder.
        power_awareness: how the job scheduler treats nodes that are not on, see
            `hpcosim_client.heuristics.awareness`.
        agents: names that `--scheduler` accepts instead of a trained scheduler with its model, such
            as `pairing:models/energy.safetensors`; paths start at the scenario's folder.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)] = "fcfs"
    power: dict[str, Any] = field(default_factory=lambda: {"name": "always-on"})
    power_awareness: str = "unaware"
    agents: dict[Name, Path] = {}
