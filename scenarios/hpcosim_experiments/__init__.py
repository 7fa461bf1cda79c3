"""Experiments: many runs of a scenario along axes, with statistics and a report.

Carry out an experiment:

    from pathlib import Path

    from hpcosim_experiments import run_experiment

    print(run_experiment(Path("study.yaml")).files)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_experiments.carry_out import run_experiment as run_experiment

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "carry_out": "run_experiment",
    },
)
