"""A linear rule that scores waiting jobs, and its file. Writing a file needs the extra `rl`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays_file import ArraysFile, load_arrays, save_arrays
from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats
from hpcosim_schedulers.agents.batch.scene import CLUSTER_COLUMNS, JOB_COLUMNS, QueueScene
from hpcosim_schedulers.heuristics.chosen_head import MAX_WINDOW_JOBS, WINDOW_JOBS

FORMAT = "hpcosim batch 1"

STATE = ("free_cores", "queue")
"""Columns of the cluster on which the weights depend."""

SHAPE = (1 + len(STATE), len(JOB_COLUMNS))

DECIMALS = 6
"""Scores are compared after rounding, so that equal jobs are chosen in submission order."""

_FILE = ArraysFile("a batch agent", FORMAT, "hpcosim train batch", {"weights": SHAPE})
_STATE = [CLUSTER_COLUMNS.index(name) for name in STATE]


class BatchRule(NamedTuple):
    """A learned rule.

    Attributes:
        weights: float64[1 + STATE, JOB_COLUMNS]; (1, state) @ weights are the weights of the
            columns of a job in its score.
        window_jobs: number of visible jobs, 1 to 1000.
    """

    weights: Floats
    window_jobs: int = WINDOW_JOBS


def scores(weights: Floats, scene: QueueScene) -> Floats:
    """Return the score of each visible job, float64[jobs]; the highest one is chosen."""
    state = np.concatenate(([1.0], scene.cluster[_STATE]))
    found: Floats = (state @ weights) @ scene.columns
    return found


def best(weights: Floats, scene: QueueScene) -> int:
    """Return the index of the chosen job: the first of the highest scores."""
    return int(scores(weights, scene).round(DECIMALS).argmax())


def save_batch(path: Path, rule: BatchRule) -> None:
    """Write a rule as a safetensors file, the same bytes for the same rule."""
    save_arrays(_FILE, path, {"weights": rule.weights}, str(rule.window_jobs))


def load_batch(path: Path) -> BatchRule:
    """Return the rule in a file.

    Raises:
        PolicyError: the file has no rule, or one of other columns.
    """
    arrays, window = load_arrays(_FILE, path)
    if not window.isdecimal() or len(window) > 5 or not 1 <= int(window) <= MAX_WINDOW_JOBS:
        raise PolicyError(
            f"{path}: expected 1 to {MAX_WINDOW_JOBS} visible jobs in {FORMAT!r}, got "
            f"{window!r:.60}"
        )
    return BatchRule(arrays["weights"], int(window))
