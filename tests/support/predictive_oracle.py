"""The plan of the manager `predictive`, one sample, one node and one submission at a time."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_schedulers.predictive.futures import Futures
from hpcosim_schedulers.predictive.manager import Spares


class Submission(NamedTuple):
    """A submission of a sample with its need, and the one for which its nodes are switched on."""

    after_s: float
    nodes: int
    called_s: float


def submissions(future: Futures, most: int, slack: float = 0.0) -> list[list[Submission]]:
    """Return the submissions of each sample."""
    found = []
    for sample in range(future.samples):
        mine = np.flatnonzero(future.sample == sample)
        ends = [(future.ends_s[sample, job], held) for job, held in enumerate(future.held)]
        rows: list[Submission] = []
        changes = [(at_s, 0, -held) for at_s, held in ends]
        for row in mine:
            changes.append((future.after_s[row], 1, future.nodes[row]))
            changes.append((future.after_s[row] + future.run_s[row], 0, -future.nodes[row]))
        for row in mine:
            now_s = future.after_s[row]
            # Of other jobs at the same instant, ends count; each submission has its own instant.
            held = sum(change for at_s, _, change in changes if at_s <= now_s)
            nodes = min(max(math.ceil(held - slack), 0), most)
            called = next((each.after_s for each in rows if each.nodes >= nodes), now_s)
            rows.append(Submission(now_s, nodes, called))
        found.append(rows)
    return found


def costs_j(
    future: Futures, spares: Spares, price_w: float, holds_s: Floats, next_s: float
) -> list[float]:
    """Return the expected cost of each number of spare nodes; see `costs_j`."""
    count = len(spares.hold_w)
    runs = submissions(future, count)
    return [
        min(
            sum(_cost_j(run, spares, price_w, hold_s, next_s, kept) for run in runs) / len(runs)
            for hold_s in holds_s.tolist()
        )
        for kept in range(count + 1)
    ]


def _cost_j(
    run: list[Submission],
    spares: Spares,
    price_w: float,
    hold_s: float,
    next_s: float,
    kept: int,
) -> float:
    cost_j = 0.0
    warm = spares.idle + spares.booting
    for node in range(kept):
        first_s = next((each.after_s for each in run if each.nodes > node), math.inf)
        hold_w, cycle_j = float(spares.hold_w[node]), float(spares.cycle_j[node])
        used = first_s <= hold_s
        if node < spares.idle:
            cost_j += hold_w * min(first_s, hold_s) - cycle_j * used
        elif node >= warm:
            boot_s = float(spares.boot_s[warm:].mean())
            cost_j += hold_w * max(min(first_s, hold_s) - boot_s, 0.0) + cycle_j * (not used)
    for each in run:
        if not 0 < each.nodes <= kept or each.after_s > hold_s:
            continue
        boot_s = float(spares.boot_s[each.nodes - 1])
        wait_s = max(each.called_s + boot_s - each.after_s, 0.0)
        if each.nodes <= spares.idle:
            cost_j -= price_w * wait_s
        elif each.nodes > warm and each.after_s <= boot_s + next_s:
            cost_j -= price_w * max(wait_s - max(boot_s - each.after_s, 0.0), 0.0)
    return cost_j
