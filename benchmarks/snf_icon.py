"""CPU times of the decisions of SNF-ICON, its planner, and the power managers that forecast."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from hpcosim_scenarios.shipped import shipped_folder
from hpcosim_schedulers.power.settings import Learned, Predictive
from papers.power.snf_icon.comparison import AOBA, POLICIES, Setting, exponential
from papers.power.snf_icon.comparison import run as run_of

LEARNED = shipped_folder() / "papers" / "power" / "predictive" / "learned.safetensors"

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
            outcome = run_of(setting, jobs, replace(AOBA, count=nodes), 1)
            time_ms = 1e3 * np.array(outcome.decision_s)
            figures[f"{name}, {nodes} nodes, mean decision, ms"] = float(time_ms.mean())
            figures[f"{name}, {nodes} nodes, largest decision, ms"] = float(time_ms.max())
    return figures


def _import_policies() -> None:
    """Import what the first decisions import, so that it is not measured."""
    for setting in TIMED.values():
        run_of(setting, exponential(100, 8), AOBA, 1)
