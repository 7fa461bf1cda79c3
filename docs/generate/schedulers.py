"""The catalogue of schedulers, from the client's own."""

from __future__ import annotations

from hpcosim_client import GROUPS, scheduler_names


def names() -> str:
    """Return the names of the schedulers that need no file and are no `<job>-<node>` pair."""
    pairs = {name for group in GROUPS.values() for name in group}
    single = [name for name in scheduler_names() if name not in pairs]
    return ", ".join(f"`{name}`" for name in single)


def groups() -> str:
    """Return the groups that `hpcosim compare` accepts, with their members."""
    rows = [f"| `{name}` | {len(members)} |" for name, members in GROUPS.items()]
    return "\n".join(["| Group | Schedulers |", "|---|---|", *rows])
