"""Accounting of an invented cluster of four nodes, each of which runs one job at a time."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime

import numpy as np

from support.slurm_site import PENDING, record, sacct_text

CONF = """
ClusterName=small
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=c[01-04] CPUs=16 State=UNKNOWN
PartitionName=cpu Nodes=c[01-04] Default=YES MaxTime=1-0
"""
FIRST_S = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
MEAN_RUN_S = {"ada": 900.0, "bob": 3600.0, "eve": 5400.0}


def clock(unix_s: float) -> str:
    """Return a time as `sacct` prints it."""
    return datetime.fromtimestamp(round(unix_s), UTC).replace(tzinfo=None).isoformat()


def records(count: int, seed: int = 1, between_s: float = 800.0) -> list[dict[str, str]]:
    """Return jobs in the order of submission: first come, first served; some are cancelled.

    Args:
        between_s: mean time between two submissions, s; nodes are busy at 800 s.
    """
    draw = np.random.default_rng(seed)
    free = [(0.0, f"c0{number}") for number in range(1, 5)]
    submit_s, found = FIRST_S, []
    for number in range(1, count + 1):
        submit_s += round(float(draw.exponential(between_s)))
        user = ("ada", "bob", "eve")[int(draw.integers(3))]
        own = {
            "JobID": str(number),
            "User": user,
            "Submit": clock(submit_s),
            "Eligible": clock(submit_s),
            "ReqTRES": "billing=16,cpu=16,node=1",
            "AllocTRES": "billing=16,cpu=16,node=1",
            "ReqMem": "",
        }
        start_s = max(submit_s, free[0][0])
        gives_up_s = submit_s + float(draw.exponential(40_000.0))
        if gives_up_s < start_s:
            own |= {**PENDING, "State": "CANCELLED by 1000", "End": clock(gives_up_s)}
            found.append(record(**own))
            continue
        run_s = min(round(float(draw.exponential(MEAN_RUN_S[user]))) + 1, 7200)
        node = heapq.heappop(free)[1]
        heapq.heappush(free, (start_s + run_s, node))
        state = "TIMEOUT" if run_s == 7200 else "FAILED" if draw.random() < 0.1 else "COMPLETED"
        own |= {"Start": clock(start_s), "End": clock(start_s + run_s), "ElapsedRaw": str(run_s)}
        found.append(record(**own, State=state, NodeList=node))
    return found


def queue_text(count: int, seed: int = 1) -> str:
    """Return such jobs as `sacct -P` prints them."""
    return sacct_text(*records(count, seed))
