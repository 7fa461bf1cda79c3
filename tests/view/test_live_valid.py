"""Runs that a server sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpcosim_view.errors import FrameError
from hpcosim_view.live.client import check_run
from hpcosim_view.run.frame import Frame
from support.frames_by_hand import small_run


def test_a_run_is_valid() -> None:
    """A run as the simulation makes it passes."""
    check_run(small_run())


@pytest.mark.parametrize(
    ("about", "error"),
    [
        ({"scenario": 7}, "Expected `str`, got `int` - at `\\$.scenario`"),
        ({"users": [None]}, "Expected `str`, got `null`"),
        ({"now_s": float("nan")}, "the start before the end"),
        ({"nodes": [[10**9, 1, "x"]]}, "at most 10000000 nodes"),
        ({"nodes": [[1, 4, "x"]]}, "box.first: expected from 0 to 3"),
        ({"partitions": []}, "job.partition: expected from -1 to -1"),
    ],
)
def test_facts_of_another_form_are_an_error(about: dict[str, Any], error: str) -> None:
    """The error names the fact or the column."""
    with pytest.raises(FrameError, match=error):
        check_run(small_run(**about))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[("start.job", 6), ("end.job", -1), ("end.state", 99), ("power.node", 3)],
        *[("explain.reason", 2), ("box.last", 10), ("start.boxes", 2), ("box.first", 9)],
    ],
)
def test_indices_that_do_not_exist_are_an_error(column: str, value: int) -> None:
    """Each column of indices is checked."""
    run = small_run()
    damaged = np.array(run.columns[column])
    damaged[0] = value
    with pytest.raises(FrameError, match=r"the run is damaged: (start|end|power|explain|box)"):
        check_run(Frame(run.about, {**run.columns, column: damaged}))
