"""Check of a run that a server sent, so that views of it need not check anything."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.periods import FIRST_FINAL
from hpcosim_sim.record.recording import POWER_STATES, STATES
from hpcosim_view.errors import FrameError
from hpcosim_view.run.frame import NAMES, Frame
from hpcosim_workloads.table import PLACEMENTS

MAX_NODES = 10_000_000


class _About(msgspec.Struct):
    """The facts that views need."""

    scenario: str
    scheduler: str
    seed: int
    start_s: float
    now_s: float
    nodes: list[tuple[int, int, str]]
    users: list[str]
    groups: list[str]
    partitions: list[str]
    reasons: list[str]


def check_run(frame: Frame) -> None:
    """Check that a frame is a whole run so far: facts, and indices that exist.

    Args:
        frame: all frames of the run, as one.

    Raises:
        FrameError: it is not.
    """
    try:
        about = msgspec.convert(frame.about, _About)
    except msgspec.ValidationError as error:
        raise FrameError(f"the run is damaged: {error}") from None
    if not (math.isfinite(about.now_s) and 0 <= about.start_s <= about.now_s):
        raise FrameError("the run is damaged: expected times from 0, the start before the end")
    nodes = sum(count for count, _, _ in about.nodes)
    if nodes > MAX_NODES or any(count < 0 or cores < 0 for count, cores, _ in about.nodes):
        raise FrameError(f"the run is damaged: expected at most {MAX_NODES} nodes")
    columns = frame.columns
    for name, (least, below) in _ranges(frame, about, nodes).items():
        column = columns[name]
        if len(column) and not (least <= column.min() and column.max() < below):
            raise FrameError(f"the run is damaged: {name}: expected from {least} to {below - 1}")
    if columns["start.boxes"].sum(dtype=np.int64) != len(columns["box.first"]):
        raise FrameError("the run is damaged: start.boxes: expected the number of boxes")
    if (columns["box.first"] > columns["box.last"]).any():
        raise FrameError("the run is damaged: box.first: expected at most box.last")


def _ranges(frame: Frame, about: _About, nodes: int) -> Mapping[str, tuple[int, int]]:
    """Return the least value, and the one above the greatest, of columns with indices."""
    jobs = len(frame.columns["job.id"])
    names = {key: len(getattr(about, key)) for key in NAMES}
    cores = sum(count * cores for count, cores, _ in about.nodes)
    return {
        **{f"{of}.job": (0, jobs) for of in ("start", "end", "explain")},
        **{f"job.{key[:-1]}": (-1, names[key]) for key in ("users", "groups", "partitions")},
        "job.placement": (0, len(PLACEMENTS)),
        "box.first": (0, cores),
        "box.last": (0, cores),
        "end.state": (0, len(STATES)),
        "pause.start": (0, len(frame.columns["start.job"])),
        "pause.why": (1, FIRST_FINAL),
        "power.node": (0, nodes),
        "drain.node": (0, nodes),
        "drain.drained": (0, 2),
        "power.state": (0, len(POWER_STATES)),
        "watts.state": (0, len(NODE_STATES)),
        "explain.reason": (0, names["reasons"]),
    }
