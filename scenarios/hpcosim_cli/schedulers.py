"""The command `hpcosim schedulers`."""

from __future__ import annotations

import typer


def schedulers() -> None:
    """List the schedulers by name; the last are the groups of them that `compare` takes."""
    from hpcosim_client import GROUPS, scheduler_names
    from hpcosim_client.catalogue.trained import TRAINED

    trained = [f"{name}:MODEL" for name in TRAINED]
    typer.echo("\n".join((*scheduler_names(), "scripted:FILE", *trained, *GROUPS)))
