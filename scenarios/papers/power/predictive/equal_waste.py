"""Added waits of power managers relative to those of baselines that waste as much energy.

    hpcosim experiment scenarios/papers/power/predictive/unseen.yaml --format csv --out unseen
    python -m papers.power.predictive.equal_waste unseen/results.csv

prints a table. The results need the run `always on`: the added wait is the mean wait beyond that of
this run. A baseline has the added wait at any waste between its runs by linear interpolation; runs
that waste more and wait longer than another run of the baseline are left out.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import numpy as np

from hpcosim_experiments.statistics.rows import Rows, groups, read_rows

JOULES_PER_KWH = 3.6e6
BASELINES = ("timeout", "ipm", "snf-icon")
ALWAYS_ON = "always on"
JOBS = ("log", "window")
"""Axes that say which jobs were simulated; without them, all runs have the same jobs."""

Points = list[tuple[float, float]]
"""Wasted energy, kWh, and mean wait, min."""


def lines_of(rows: Rows) -> dict[str, Points]:
    """Return the points of each family; the name of a manager is the family's and a number."""
    lines: dict[str, Points] = {}
    for row in rows:
        family = re.split(r" \d", str(row["manager"]))[0]
        point = row["wasted_energy_j"] / JOULES_PER_KWH, row["mean_wait_s"] / 60.0
        lines.setdefault(family, []).append(point)
    return lines


def efficient(points: Points) -> Points:
    """Return the points with a smaller wait than all that waste less, by waste."""
    found: Points = []
    for waste, wait in sorted(points):
        if not found or wait < found[-1][1]:
            found.append((waste, wait))
    return found


def wait_at(baseline: Points, waste: float) -> float:
    """Return the wait of a baseline that wastes as much; NaN: outside of its runs.

    Args:
        baseline: its waste and wait, in one unit each.
        waste: the waste, in the same unit.
    """
    wastes, waits = zip(*efficient(baseline), strict=True)
    return float(np.interp(waste, wastes, waits, left=math.nan, right=math.nan))


def change(point: tuple[float, float], baseline: Points, least_wait: float) -> float:
    """Return the added wait of a run / that of a baseline at equal waste - 1.

    NaN: the baseline has no runs around this waste, or no added wait there.

    Args:
        baseline: waste and wait of the runs of the baseline.
        least_wait: the wait that is no added wait.
    """
    waste, wait = point
    added = wait_at(baseline, waste) - least_wait
    return (wait - least_wait) / added - 1.0 if added > 0.0 else math.nan


def cells(points: Points, lines: dict[str, Points]) -> list[str]:
    """Return waste and added wait of the runs of a manager, and the change from each baseline."""
    least = lines[ALWAYS_ON][0][1]
    found = ["; ".join(f"{waste:,.0f}: {wait - least:.1f}" for waste, wait in points)]
    for name in BASELINES:
        changes = [change(point, lines[name], least) for point in points if name in lines]
        found.append(
            ", ".join("-" if math.isnan(each) else f"{100 * each:+.0f}" for each in changes)
        )
    return found


def main() -> None:
    """Print the table."""
    heads = ["jobs", "manager", "wasted energy, kWh: added wait, min"]
    heads += [f"to {name}, %" for name in BASELINES]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for path in sys.argv[1:]:
        rows = read_rows(Path(path))
        for jobs, runs in groups(rows, *(axis for axis in JOBS if axis in rows[0])).items():
            lines = lines_of(runs)
            if ALWAYS_ON not in lines:
                sys.exit(f"{path}: no run has the manager '{ALWAYS_ON}'; add it to the experiment")
            for family, points in lines.items():
                if family not in (*BASELINES, ALWAYS_ON):
                    found = [*(jobs or (Path(path).parent.name,)), family, *cells(points, lines)]
                    print("| " + " | ".join(found) + " |")


if __name__ == "__main__":
    main()
