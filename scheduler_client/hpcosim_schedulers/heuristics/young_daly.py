"""Checkpoint intervals by the formulas of Young and Daly."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View

Formula = Literal["young", "daly"]


def young_daly(inner: Policy, formula: Formula = "daly") -> Policy:
    """Return a policy that sets the checkpoint interval of jobs that state a cost but no interval.

    The mean time between failures of a job follows from that of its nodes, see
    `NodeGroup.mtbf_s`: failures of nodes are independent, so the rates add up. The nodes are those
    that the job would have on an idle cluster, as the interval is set when the job is submitted. A
    job keeps its interval if the nodes state no such time.

    Args:
        formula: `young`, see `young_s`, or `daly`, see `daly_s`.
    """
    optimum_s = young_s if formula == "young" else daly_s
    seen: set[int] = set()

    def decide(view: View) -> None:
        for job in (*view.arrived, *view.pending.values()):
            if job.job_id not in seen:
                seen.add(job.job_id)
                checkpointing = None if job.request is None else job.request.checkpointing
                if checkpointing is not None and checkpointing.interval_s is None:
                    mtbf_s = _mtbf_s(view, job)
                    if checkpointing.cost_s > 0.0 and mtbf_s < math.inf:
                        view.set_checkpoint(job, optimum_s(checkpointing.cost_s, mtbf_s))
        inner(view)

    return decide


def young_s(cost_s: float, mtbf_s: float) -> float:
    """Return the computing time between checkpoints by Young (1974), s: sqrt(2 C M).

    Args:
        cost_s: time to write a checkpoint, C, s; above 0.
        mtbf_s: mean time between failures of the job, M, s.
    """
    return math.sqrt(2.0 * cost_s * mtbf_s)


def daly_s(cost_s: float, mtbf_s: float) -> float:
    """Return the computing time between checkpoints by Daly (2006), equation 37, s.

    sqrt(2 C M) (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C if C < 2M, else M.
    """
    if cost_s >= 2.0 * mtbf_s:
        return mtbf_s
    ratio = cost_s / (2.0 * mtbf_s)
    return young_s(cost_s, mtbf_s) * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - cost_s


def _mtbf_s(view: View, job: Job) -> float:
    """Return the mean time between failures of a job, s; infinity: unknown."""
    allocation = view.nodes.alone(job, np.arange(len(view.nodes.free)))
    if allocation is None:
        return math.inf
    groups = view.platform.nodes
    mtbf_s = [groups[group].mtbf_s for group in view.nodes.group[allocation.nodes].tolist()]
    rate = sum(1.0 / each_s for each_s in mtbf_s if each_s is not None)
    return 1.0 / rate if rate else math.inf
