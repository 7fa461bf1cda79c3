"""A simulated run as text: what happened, and how to see it again."""

from __future__ import annotations

from collections.abc import Sequence

from support.fault.summary import RUN
from support.fault.world import World


def explained(kind: str, world: World, wrong: Sequence[str]) -> str:
    """Return what is wrong, what happened, and how to see it again.

    Args:
        kind: word in the names of the tests of such runs.
        world: the run.
        wrong: what is wrong.
    """
    seed = f"seed {world.seed}: {world.plan}"
    return "\n".join([*world.simulator.trace, *wrong, seed, replay(kind, world.seed)])


def replay(kind: str, seed: int) -> str:
    """Return how a seed is run again."""
    return f"replay: {RUN} tests/fault -k {kind} --fault-seed={seed} -s"
