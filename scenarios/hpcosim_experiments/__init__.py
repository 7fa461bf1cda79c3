"""Experiments: many runs of a scenario along axes, with statistics and a report.

Carry out an experiment:

    from pathlib import Path

    from hpcosim_experiments import run_experiment

    print(run_experiment(Path("study.yaml")).files)

The name is imported on first use, so that workers load no report.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcosim_experiments.carry_out import run_experiment

__all__ = ["run_experiment"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(f"{__name__}.carry_out"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
