"""Figures of one run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

import msgspec
import numpy as np

from hpcosim_sim.record.run_record import RunRecord
from hpcosim_slurm.report.rows import OneRun, SessionRows
from hpcosim_slurm.report.scripted import ScriptedRun
from hpcosim_workloads.table import JobSpec

J_PER_KWH = 3.6e6


class Spread(msgspec.Struct, frozen=True):
    """A distribution of times, s; NaN values are left out, and no values give null.

    Attributes:
        mean, median, p10, p90: mean, median, and the limits of the middle 80 %.
    """

    mean: float | None = None
    median: float | None = None
    p10: float | None = None
    p90: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the distribution of values."""
        if not values:
            return cls()
        p10, p90 = np.quantile(values, [0.1, 0.9])
        return cls(fmean(values), median(values), float(p10), float(p90))


class SideFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run.

    Attributes:
        started: number of jobs that have started since the begin of the session.
        wait_s: waits of jobs, s; in a comparison, of those that both sides have started.
        utilization: part of the core-seconds of the cluster that jobs had, 0 to 1.
        energy_kwh: energy of the nodes, kWh: a model, see `power`.
        energy_kwh_per_day: the same for each day of 24 h since the begin; the last may be shorter.
        not_shown: number of starts for which the copy of the cluster has no room.
    """

    started: int
    wait_s: Spread
    utilization: float
    energy_kwh: float
    energy_kwh_per_day: list[float]
    not_shown: int


def wait_s(spec: JobSpec, run: OneRun) -> float:
    """Return the wait of a job that has started, s; Slurm's times have whole seconds."""
    return max(run.start_s - spec.submit_s, 0.0)


def side_of(started: int, waits_s: Sequence[float], run: ScriptedRun) -> SideFigures:
    """Return the figures of a run.

    Args:
        started: number of jobs that have started in it.
        waits_s: waits of jobs, s.
        run: the run.
    """
    return SideFigures(
        started=started,
        wait_s=Spread.of(waits_s),
        utilization=_utilization(run.record),
        energy_kwh=run.record.energy_j / J_PER_KWH,
        energy_kwh_per_day=[energy_j / J_PER_KWH for energy_j in run.days_j],
        not_shown=run.left_out,
    )


def part(count: int, whole: int) -> float | None:
    """Return a part of a whole, 0 to 1; None: the whole is nothing."""
    return count / whole if whole else None


def _utilization(record: RunRecord) -> float:
    """Return the part of the core-seconds that jobs had."""
    recording, used = record.recording, 0.0
    for row in range(len(recording)):
        start_s, end_s = recording.start_s[row], recording.end_s[row]
        if not math.isnan(start_s):
            over_s = record.end_s if math.isnan(end_s) else end_s
            used += (over_s - start_s) * recording.cores[row]
    whole = record.duration_s * record.platform.core_count
    return used / whole if whole else 0.0


def power_of(session: SessionRows) -> str:
    """Return how energy is calculated, for people."""
    group = session.platform.nodes[0]
    busy_w = group.idle_w + group.cores * group.dynamic_w
    assert group.power_states is not None
    return (
        f"a model, not measured: each node draws {group.idle_w:g} W idle, {busy_w:g} W with all "
        f"CPUs in use, and {group.power_states.sleep_w:g} W off or down"
    )
