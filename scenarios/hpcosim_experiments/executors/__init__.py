"""Execution of independent tasks: in local processes, on a Ray cluster, or as Slurm jobs.

`open_executor` opens the executor that the settings describe. Every executor gives the same results
for the same tasks, runs the tasks of a lost worker again, and holds each worker to one thread.
"""

from __future__ import annotations

from hpcosim_experiments.executors.interface import (
    Done,
    Executor,
    ExecutorError,
    InputFiles,
    LostTaskError,
)
from hpcosim_experiments.executors.opening import open_executor
from hpcosim_experiments.executors.ordered import ParallelMap, parallel_map, results_of
from hpcosim_experiments.executors.settings import (
    IN_THIS_PROCESS,
    ExecutorSettings,
    Local,
    Ray,
    Slurm,
    cores,
)

__all__ = [
    "IN_THIS_PROCESS",
    "Done",
    "Executor",
    "ExecutorError",
    "ExecutorSettings",
    "InputFiles",
    "Local",
    "LostTaskError",
    "ParallelMap",
    "Ray",
    "Slurm",
    "cores",
    "open_executor",
    "parallel_map",
    "results_of",
]
