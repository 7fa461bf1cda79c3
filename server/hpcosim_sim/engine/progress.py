"""How far a job is: its work over several runs, with checkpoints and suspensions.

Work is measured in seconds at full speed. The work of a run is the reading of a checkpoint, the
computing that is left, and the writing of checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hpcosim_protocol import Checkpointing
from hpcosim_sim.physics.execution import Place

LeftAt = Mapping[Place, tuple[float, float]]
"""Work that is left on each place of a job that shares processors, and the run time of the whole
job on the cores of the place, s."""

TOLERANCE = 1e-9  # relative: a checkpoint that ends now is complete


class Progress:
    """The progress of a job that was suspended or writes checkpoints.

    Args:
        checkpointing: checkpoints of the job; None: none.

    Attributes:
        interval_s: computing time between two checkpoints, s; infinity: no checkpoints.
        saved: fraction of the job's computing that the last complete checkpoint has, 0 to 1.
        total_s: work of the current run, s.
        left_s: work that was left at the begin of the current period, s.
        left_at: work that was left on each place at the last suspension; empty: the job did not
            share processors, or its run was not suspended.
    """

    __slots__ = (
        "_alone_s",
        "_begun_s",
        "_cost_s",
        "_restart_s",
        "_used_s",
        "interval_s",
        "left_at",
        "left_s",
        "saved",
        "total_s",
    )

    def __init__(self, checkpointing: Checkpointing | None) -> None:
        options = checkpointing or Checkpointing(0.0)
        self.interval_s = options.interval_s or math.inf
        self._cost_s = options.cost_s
        self._restart_s = options.restart_s
        self.saved = 0.0
        self._begun_s = self._used_s = self._alone_s = 0.0
        self.total_s = self.left_s = 0.0
        self.left_at: LeftAt = {}

    def begin(self, now_s: float, alone_s: float) -> None:
        """Begin a run.

        Args:
            now_s: simulation time, s.
            alone_s: run time of the whole job on the slowest of its cores, without overhead, s.
        """
        self._begun_s, self._used_s, self._alone_s = now_s, 0.0, alone_s
        self.total_s = self.left_s = self.work_s(alone_s)
        self.left_at = {}

    def suspend(self, now_s: float, left_at: LeftAt) -> None:
        """Note that the job is suspended.

        Args:
            now_s: simulation time, s.
            left_at: work that is left; empty: the job does not share processors.
        """
        self.left_s = self._left_s(now_s, left_at)
        self.left_at = left_at
        self._used_s += now_s - self._begun_s

    def resume(self, now_s: float, alone_s: float) -> None:
        """Begin the next period of the run, perhaps on other processors of the same nodes."""
        self._begun_s = now_s
        if alone_s != self._alone_s:
            left = self.left_s / self.total_s if self.total_s else 0.0
            self._alone_s, self.total_s = alone_s, self.work_s(alone_s)
            self.left_s = left * self.total_s

    def interrupt(self, now_s: float, left_at: LeftAt, is_suspended: bool) -> float:
        """End the run before the end of the job; keep what the last checkpoint has.

        Args:
            now_s: simulation time, s.
            left_at: as in `suspend`.
            is_suspended: whether the job is suspended.

        Returns:
            Run time that is lost, s: the part since the last complete checkpoint of the run.
        """
        if not is_suspended:
            self.suspend(now_s, left_at)
        executed_s = self.total_s - self.left_s
        count = self._complete(executed_s)
        kept_s = self._reading_s + count * (self.interval_s + self._cost_s) if count else 0.0
        if count:
            self.saved = min(self.saved + count * self.interval_s / self._alone_s, 1.0)
        return self._used_s * (1.0 - kept_s / executed_s) if executed_s > 0.0 else self._used_s

    def used_s(self, now_s: float, is_suspended: bool = False) -> float:
        """Return the run time of the current run without suspensions, s."""
        return self._used_s + (0.0 if is_suspended else now_s - self._begun_s)

    def work_s(self, alone_s: float) -> float:
        """Return the work of the current run on cores that need `alone_s` for the whole job, s."""
        left_s = alone_s * (1.0 - self.saved)
        writing_s = self._checkpoints * self._cost_s if self._cost_s else 0.0
        return self._reading_s + left_s + writing_s

    def left_on(self, place: Place, alone_s: float) -> float:
        """Return the work that is left on a place whose cores need `alone_s` for the job, s."""
        if place in self.left_at:
            return self.left_at[place][0]
        return self.work_s(alone_s) * (self.left_s / self.total_s if self.total_s else 0.0)

    @property
    def _reading_s(self) -> float:
        return self._restart_s if self.saved else 0.0

    @property
    def _checkpoints(self) -> int:
        """Number of checkpoints that the current run writes if it is not interrupted.

        The job writes none at its end.
        """
        intervals = self._alone_s * (1.0 - self.saved) / self.interval_s
        return max(math.ceil(intervals * (1.0 - TOLERANCE)) - 1, 0)

    def _complete(self, executed_s: float) -> int:
        """Return the number of checkpoints that are complete after a part of the work."""
        if self.interval_s == math.inf:
            return 0
        intervals = (executed_s - self._reading_s) / (self.interval_s + self._cost_s)
        return min(max(math.floor(intervals * (1.0 + TOLERANCE)), 0), self._checkpoints)

    def _left_s(self, now_s: float, left_at: LeftAt) -> float:
        if left_at:  # the slowest place decides
            works = [(left_s, self.work_s(alone_s)) for left_s, alone_s in left_at.values()]
            shares = [left_s / work_s for left_s, work_s in works if work_s]
            return self.total_s * max(shares, default=0.0)
        return max(self.left_s - (now_s - self._begun_s), 0.0)
