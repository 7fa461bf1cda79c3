"""Times of sessions as `hpcosim status` shows them."""

from __future__ import annotations

import pytest

from hpcosim.cli.status import _time


@pytest.mark.parametrize(
    ("now_s", "shown"),
    [(90_061.0, "1-01:01:01"), (1_795_403_528.7, "2026-11-23 03:12:08 UTC")],
)
def test_the_time_of_a_live_cluster_is_a_date(now_s: float, shown: str) -> None:
    """A simulated time is a duration; a Unix time is shown as a date."""
    assert _time(now_s) == shown
