"""The scheduler section of a scenario. Only the client validates its names and settings."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from hpcosim_scenarios.model.bounds import Name

Path = Annotated[str, Meta(min_length=1, max_length=1000)]


class Scheduler(Struct, frozen=True, forbid_unknown_fields=True):
    """The job scheduler and the power manager of `hpcosim run`.

    A client that connects to `hpcosim serve` has its own settings, and the server does not read
    this section. `scheduler: easy` is short for `scheduler: {name: easy}`.

    Attributes:
        name: a job scheduler that `hpcosim schedulers` lists, or a policy of the user as
            `FILE.py:FUNCTION`.
        power: the power manager, which switches nodes: a mapping of its `name` and its settings, or
            the name alone. Paths are relative to the scenario's folder.
        power_awareness: treatment of nodes that are not on, by the job scheduler: `unaware` (as if
            they were on), `aware` (nodes that are on first; the time to boot counts), `planned`
            (nodes boot just in time for a reservation; only nodes that are on are allocated), or
            `ipm` (as `planned`, for the whole queue and with the least waste; `easy` and `snf`).
        explain: let the job scheduler say why jobs wait and when it expects to start them, for
            `explanations.csv`. It has no effect on the simulation. `--explain` is short for it.
        settings: settings of the job scheduler, for those that have some, such as accounts and
            priorities: a mapping.
        agents: names for trained schedulers with their models, such as
            `energy: pairing:models/energy.safetensors`, for `--scheduler energy`. Paths are
            relative to the scenario's folder.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)] = "fcfs"
    power: dict[str, Any] = field(default_factory=lambda: {"name": "always-on"})
    power_awareness: str = "unaware"
    explain: bool = False
    agents: dict[Name, Path] = {}
    settings: dict[str, Any] = {}
