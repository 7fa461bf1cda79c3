"""What the compiled engine can do, and why it cannot do the rest. This needs no Numba."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from hpcosim_compiled.state import CORES, WHOLE_NODES, Ints
from hpcosim_protocol import Platform
from hpcosim_schedulers.heuristics.easy import AGED_S, WINDOW_JOBS
from hpcosim_schedulers.heuristics.easy import RULES as HEAD_RULES
from hpcosim_schedulers.heuristics.list_scheduling import CHANGING, FIXED
from hpcosim_workloads.table import JobTable

KINDS = ("fcfs", "by-rank", "by-key-now", "easy", "easy-by-rule", "conservative")
BACKFILLING = ("easy", "easy-by-rule", "conservative")
"""Kinds that count free cores or nodes in future."""

KEYS = ("", *CHANGING)
"""Orders by a key that changes with time; the first is the order by rank."""

BY_RULE = "easy-"
AGED = "-aged"


class PolicyCode(NamedTuple):
    """A compiled policy.

    Attributes:
        kind: index into `KINDS`.
        key: index into `KEYS`.
        aged_s: jobs that have waited longer are the head first, in submission order, s.
        window_jobs: number of jobs from which the head is chosen.
    """

    kind: int
    key: int = 0
    aged_s: float = np.inf
    window_jobs: int = WINDOW_JOBS


def policy_code(scheduler: str) -> PolicyCode | None:
    """Return the compiled policy of a scheduler; None: there is none."""
    if scheduler in ("fcfs", "easy", "conservative"):
        return PolicyCode(KINDS.index(scheduler))
    order = scheduler.removeprefix(BY_RULE)
    if scheduler == order and order not in FIXED and order not in CHANGING:
        return None
    if scheduler != order and order not in HEAD_RULES:
        return None
    aged_s = AGED_S if order.endswith(AGED) else np.inf
    key = KEYS.index(order) if order in KEYS else 0
    kind = "easy-by-rule" if scheduler != order else "by-key-now" if key else "by-rank"
    return PolicyCode(KINDS.index(kind), key, aged_s)


def ranks(scheduler: str, jobs: JobTable) -> Ints:
    """Return the place of each job in the order of a scheduler that does not change with time."""
    order = scheduler.removeprefix(BY_RULE).removesuffix(AGED)
    rows = np.arange(len(jobs))
    if order not in FIXED:
        return rows
    key = FIXED[order]
    keys = [key(job) for job in jobs.rows()]  # type: ignore[arg-type]  # it has what keys read
    place = np.empty_like(rows)
    place[sorted(rows.tolist(), key=keys.__getitem__)] = rows
    return place


def missing_package() -> str:
    """Return why the compiled engine cannot work here; empty: it can."""
    if find_spec("numba") is None:
        return "the package numba is not installed: pip install 'hpcosim[fast]'"
    return ""


def unsupported(platform: Platform, jobs: JobTable, scheduler: str) -> str:
    """Return what of a simulation the compiled engine does not support; empty: nothing.

    Args:
        platform: the cluster.
        jobs: the workload.
        scheduler: canonical name of the scheduler, which runs without settings and with all nodes
            on.
    """
    policy = policy_code(scheduler)
    if policy is None:
        return f"the scheduler {scheduler}"
    if platform.partitions or platform.reservations or platform.consumable != ("cores",):
        return "partitions, reservations and resources other than cores"
    if any(len(group.processors) > 1 for group in platform.nodes):
        return "nodes with several processors"
    if any(group.processors[0].contention is not None for group in platform.nodes):
        return "contention for memory bandwidth"
    if len(jobs) == 0 or (jobs.request >= 0).any():
        return "jobs that require more than cores"
    if (jobs.max_energy_j < np.inf).any() or not np.isfinite(jobs.run_s).all():
        return "jobs with a limit of energy, or without an end"
    if KINDS[policy.kind] in BACKFILLING:
        placements, cores = np.unique(jobs.placement), np.unique(platform.cores_by_node())
        counts_nodes = placements.tolist() == [WHOLE_NODES] and len(cores) == 1
        if placements.tolist() != [CORES] and not counts_nodes:
            return "backfilling of jobs with different placements, or on different nodes"
    return ""
