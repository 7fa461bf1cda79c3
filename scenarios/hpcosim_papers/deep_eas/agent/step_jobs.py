"""Machines and job sequences as arrays, with times in whole steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_papers.deep_eas.agent.scene import Counts
from hpcosim_papers.deep_eas.agent.settings import DeepEas

AFTER_ALL = np.iinfo(np.int32).max


class Machines(NamedTuple):
    """The machines, without the workload.

    Attributes:
        settings: settings of Deep-EAS.
        watts: float64[machines], dynamic power of a busy core, W.
        scale: float64[machines], factor of requested and run times on each machine.
    """

    settings: DeepEas
    watts: Floats
    scale: Floats


class StepJobs(NamedTuple):
    """The jobs of several runs, in submission order within each run.

    Attributes:
        valid: bool[runs, jobs]; False: padding after the last job of a run.
        submit: int64[runs, jobs], step of submission.
        cores: int16[runs, jobs], requested cores.
        expected: int16[runs, machines, jobs], expected run time, steps.
        actual: int16[runs, machines, jobs], actual run time, steps.
    """

    valid: NDArray[np.bool_]
    submit: Ints
    cores: Counts
    expected: Counts
    actual: Counts

    def take(self, which: Sequence[int] | Ints) -> StepJobs:
        """Return the selected runs; an index may occur several times."""
        return StepJobs(*(part[np.asarray(which)] for part in self))
