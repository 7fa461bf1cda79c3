"""Real servers that are killed and restored."""

from __future__ import annotations

import random

import pytest
from benchmarks.killed_servers import survive


@pytest.mark.slow
def test_killed_servers_lose_nothing() -> None:
    """Sessions whose server is killed at random instants have the results of undisturbed runs."""
    outcome = survive(kills=3, clients=2, chance=random.Random(3))
    assert (outcome.different, outcome.lost) == ([], 0)
    assert outcome.sessions >= 2
