"""The columns of a frame that `nodes.csv` has: power states and power of the nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_view.run import csv_columns as read
from hpcosim_view.run.errors import ReadResultsError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ON = POWER_STATES.index("on")
IS_ON = np.array([state in ("computing", "idle") for state in NODE_STATES])
POWER_STATE = np.array(
    [ON if on else POWER_STATES.index(state) for state, on in zip(NODE_STATES, IS_ON, strict=True)]
)
"""Index into `POWER_STATES` of each node state."""

MAX_POWER_W = 1e12
HIGH_BITS, LOW_BITS = 20, 33  # of fixed-point numbers: units of 2^-20 W, and of 2^-53 W


class Spans(NamedTuple):
    """Periods in which nodes keep state and power, one row each.

    Attributes:
        start_s, end_s: begin and end, s.
        state: index into `NODE_STATES`.
        power_w: power of each of the nodes, W.
        nodes: number of nodes.
        power: the changes of power states, columns of a frame.
    """

    start_s: Floats
    end_s: Floats
    state: Ints
    power_w: Floats
    nodes: Ints
    power: dict[str, Any]

    @property
    def energy_j(self) -> float:
        """Energy of all nodes, J."""
        return float((self.nodes * self.power_w) @ (self.end_s - self.start_s))


def read_spans(path: Path, nodes: int) -> Spans:
    """Return the content of `nodes.csv`.

    Args:
        path: the file.
        nodes: number of nodes of the platform.

    Raises:
        ReadResultsError: the file is missing or damaged.
    """
    columns: dict[str, read.Convert] = {
        "start_s": read.times_s,
        "end_s": read.times_s,
        "nodes": read.intervals,
        "state": read.one_of(NODE_STATES),
        "power_w": read.amounts,
    }
    spans: list[tuple[Any, ...]] = []
    off: list[tuple[Any, ...]] = []
    row = 0
    for block in read.read_columns(path, columns):
        start_s, end_s, (parts, first, last), state, power_w = (block[name] for name in columns)
        row_of = np.repeat(np.arange(len(parts)), parts)
        count = np.bincount(row_of, last - first + 1, len(parts)).astype(np.int64)
        wrong = (start_s >= end_s) | (count * power_w > MAX_POWER_W)
        wrong[row_of[(first < 0) | (last >= nodes)]] = True
        if wrong.any():
            what = f"expected start_s < end_s, nodes from 0 to {nodes - 1}, and their power in W"
            raise read.located(path, row + int(np.flatnonzero(wrong)[0]), what)
        spans.append((start_s, end_s, state, power_w, count))
        of = ~IS_ON[state[row_of]]
        off.append(_each_node(first[of], last[of], row_of[of], start_s, end_s, state))
        row += len(parts)
    if not spans:
        none = np.zeros(0)
        return Spans(none, none, none.astype(int), none, none.astype(int), {})
    start_s, end_s, state, power_w, count = map(np.concatenate, zip(*spans, strict=True))
    node, begin_s, until_s, power = map(np.concatenate, zip(*off, strict=True))
    changes = _power_changes(node, begin_s, until_s, power, float(end_s.max()))
    return Spans(start_s, end_s, state, power_w, count, changes)


def _each_node(
    first: Ints, last: Ints, row: Ints, start_s: Floats, end_s: Floats, state: Ints
) -> tuple[Ints, Floats, Floats, Ints]:
    """Return node, begin, end and power state of each node of intervals of nodes."""
    size = last - first + 1
    before = np.cumsum(size) - size
    node = np.repeat(first - before, size) + np.arange(size.sum())
    row = np.repeat(row, size)
    return node, start_s[row], end_s[row], POWER_STATE[state[row]]


def _power_changes(
    node: Ints, start_s: Floats, end_s: Floats, state: Ints, now_s: float
) -> dict[str, Any]:
    """Return the changes of power states, from the periods in which nodes are not on."""
    order = np.lexsort((start_s, node))
    node, start_s, end_s, state = node[order], start_s[order], end_s[order], state[order]
    followed = np.zeros(len(node), bool)
    followed[:-1] = (node[1:] == node[:-1]) & (start_s[1:] == end_s[:-1])
    wakes = ~followed & (end_s < now_s)
    time_s = np.concatenate([start_s, end_s[wakes]])
    nodes = np.concatenate([node, node[wakes]])
    states = np.concatenate([state, np.full(wakes.sum(), ON)])
    order = np.lexsort((nodes, time_s))
    return {
        "power.time_s": time_s[order],
        "power.node": nodes[order],
        "power.state": states[order],
    }


def watts_of(spans: Spans) -> dict[str, Any]:
    """Return the columns of `watts`: the power of all nodes by state.

    Sums of floating-point numbers over many changes gather rounding errors, so the power is added
    as fixed-point numbers of two integers. Multiples of 2^-53 W are exact.
    """
    scaled = spans.power_w * 2.0**HIGH_BITS
    high = np.floor(scaled)
    low = np.rint((scaled - high) * 2.0**LOW_BITS)
    now_s = spans.end_s.max(initial=-np.inf)
    rows = []
    for state in range(len(NODE_STATES)):
        of = spans.state == state
        times_s = np.concatenate([spans.start_s[of], spans.end_s[of]])
        order = np.argsort(times_s, kind="stable")
        at_s, first = np.unique(times_s[order], return_index=True)
        power_w = np.zeros(len(at_s))
        for part, bits in ((high, HIGH_BITS), (low, HIGH_BITS + LOW_BITS)):
            change = part[of].astype(np.int64) * spans.nodes[of]
            changes = np.concatenate([change, -change])[order]
            if len(first):
                power_w += np.cumsum(np.add.reduceat(changes, first)) * 2.0**-bits
        changed = (np.diff(power_w, prepend=0.0) != 0.0) & (at_s < now_s)
        rows.append((at_s[changed], np.full(changed.sum(), state), power_w[changed]))
    times, states, powers = map(np.concatenate, zip(*rows, strict=True))
    order = np.lexsort((states, times))
    return {
        "watts.time_s": times[order],
        "watts.state": states[order],
        "watts.power_w": powers[order],
    }


def check_energy(path: Path, spans: Spans, energy_j: float) -> None:
    """Check that `nodes.csv` and `metrics.json` have the same energy.

    Raises:
        ReadResultsError: they differ by more than rounding errors.
    """
    if not np.isclose(spans.energy_j, energy_j, rtol=1e-6, atol=1e-6):
        raise ReadResultsError(
            f"{path}: the energy of all rows is {spans.energy_j:g} J, but metrics.json has "
            f"{energy_j:g} J; the files are of different runs, or one is cut off"
        )
