"""SNF-ICON and its planner beside the figures of its authors' program.

`python -m benchmarks.snf_icon [--seeds 42,1,2] [--platform AOBA] [--workloads FS1,FS2]
[--policies "NAME;..."]` prints a table: mean and spread of this program over seeds of the switching
times, beside the authors' figures with seed 42. It needs the authors' workloads, see
`snf_icon_cases.SHARED`. `run` measures decision times on generated jobs,
also of the power managers `predictive` and `learned`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from benchmarks.snf_icon_cases import (
    AOBA,
    CLAIRVOYANT,
    LOGS,
    PLATFORMS,
    POLICIES,
    SHARED,
    Outcome,
    Setting,
    clairvoyant,
    exponential,
    log,
)
from benchmarks.snf_icon_cases import (
    run as run_case,
)
from hpcosim_scenarios.shipped import shipped_folder
from hpcosim_schedulers.power.settings import Learned, Predictive

LEARNED = shipped_folder() / "papers" / "power" / "predictive" / "learned.safetensors"

AUTHORS: Mapping[tuple[str, str], tuple[float, float, float, int]] = {
    ("FS1", "EASY, always on"): (628, 1474, 178.25, 0),
    ("FS1", "SNF, always on"): (627, 1474, 178.25, 0),
    ("FS1", "EASY + IPM, 2 h"): (948, 2671, 36.29, 2935),
    ("FS1", "SNF + IPM, 2 h"): (929, 2595, 36.12, 2927),
    ("FS1", "SNF + IPM, 30 min"): (1058, 3520, 29.22, 4868),
    ("FS1", "SNF-ICON"): (927, 2605, 36.25, 2954),
    ("FS1", CLAIRVOYANT): (522, 19, 22.90, 3293),
    ("FS2", "EASY, always on"): (6873, 428, 174.65, 0),
    ("FS2", "SNF, always on"): (3683, 428, 174.65, 0),
    ("FS2", "EASY + IPM, 2 h"): (7150, 1396, 32.17, 2314),
    ("FS2", "SNF + IPM, 2 h"): (3951, 1474, 31.82, 2244),
    ("FS2", "SNF + IPM, 30 min"): (4120, 1646, 26.31, 3859),
    ("FS2", "SNF-ICON"): (3949, 1471, 31.90, 2254),
    ("FS2", CLAIRVOYANT): (3613, 270, 21.68, 2918),
    ("Markovian", "SNF, always on"): (0.8, 0, 56.73, 0),
    ("Markovian", "EASY + IPM, 2 h"): (234, 1266, 20.01, 1746),
    ("Markovian", "SNF + IPM, 2 h"): (185, 1246, 20.14, 1740),
    ("Markovian", "SNF + IPM, 30 min"): (393, 1892, 14.79, 3633),
    ("Markovian", "SNF-ICON"): (135, 1171, 21.38, 1945),
    ("Markovian", CLAIRVOYANT): (0.8, 0, 11.07, 3928),
}
"""Mean wait, s; 95 % wait, s; wasted energy, GJ; switch-ons: the authors' program on AOBA."""

TIMED: Mapping[str, Setting] = {
    **{name: POLICIES[name] for name in ("EASY + IPM, 2 h", "SNF + IPM, 2 h", "SNF-ICON")},
    "EASY + predictive": Setting("easy", Predictive(500.0), "planned"),
    "EASY + learned": Setting("easy", Learned(str(LEARNED), 500.0), "planned"),
}


def run(smoke: bool) -> dict[str, float]:
    """Return mean and largest CPU time of a decision on generated jobs, ms."""
    _import_policies()
    figures = {}
    for nodes in (64, 128):
        jobs = exponential(200 if smoke else 3000, nodes)
        for name, setting in TIMED.items():
            outcome = run_case(setting, jobs, replace(AOBA, count=nodes), 1)
            time_ms = 1e3 * np.array(outcome.decision_s)
            figures[f"{name}, {nodes} nodes, mean decision, ms"] = float(time_ms.mean())
            figures[f"{name}, {nodes} nodes, largest decision, ms"] = float(time_ms.max())
    return figures


def _import_policies() -> None:
    """Import what the first decisions import, so that it is not measured."""
    for setting in TIMED.values():
        run_case(setting, exponential(100, 8), AOBA, 1)


def row_of(folder: Path, workload: str, policy: str, platform: str, seeds: Sequence[int]) -> str:
    """Return a line of the table: each figure as mean and spread, beside the authors'."""
    group, jobs = PLATFORMS[platform], log(folder, workload)
    if policy == CLAIRVOYANT:
        outcomes = [clairvoyant(jobs, group)]
    else:
        outcomes = [run_case(POLICIES[policy], jobs, group, seed) for seed in seeds]
    authors = AUTHORS.get((workload, policy)) if platform == "AOBA" else None
    cells = [_cell(outcomes, at, None if authors is None else authors[at]) for at in range(4)]
    if decisions_s := [each for outcome in outcomes for each in outcome.decision_s]:
        cells.append(f"{1e3 * np.mean(decisions_s):.2f} / {1e3 * max(decisions_s):.0f}")
    else:
        cells.append("")
    return f"| {workload} | {policy} | {' | '.join(cells)} |"


def _cell(outcomes: Sequence[Outcome], at: int, authors: float | None) -> str:
    """Return a figure: mean, standard deviation over seeds, and the authors' in parentheses."""
    values = np.array([outcome[at] for outcome in outcomes], dtype=np.float64)
    digits = 2 if at == 2 else 1 if values.mean() < 10 and at == 0 else 0
    text = f"{values.mean():,.{digits}f}"
    if len(values) > 1:
        text += f" ± {values.std(ddof=1):,.{digits}f}"
    return text if authors is None else f"{text} ({authors:,.{digits}f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the workloads")
    parser.add_argument("--seeds", default="42,1,2,3,4")
    parser.add_argument("--platform", default="AOBA", choices=list(PLATFORMS))
    parser.add_argument("--workloads", default=",".join(LOGS))
    parser.add_argument("--policies", default=";".join([*POLICIES, CLAIRVOYANT]))
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"{options.data}: there is no such folder; expected the authors' workloads")
    _import_policies()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print(
        "| workload | policy | mean wait s | 95 % wait s | wasted GJ | switch-ons | decision ms |"
    )
    print("|---|---|---|---|---|---|---|")
    for workload in options.workloads.split(","):
        for policy in options.policies.split(";"):
            print(row_of(options.data, workload, policy, options.platform, seeds), flush=True)


if __name__ == "__main__":
    main()
