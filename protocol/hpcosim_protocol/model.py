"""Formulas of the specification that server and scheduler share.

The server uses them to run and to admit jobs. A scheduler can use them to predict run times and
energy.

| function | section of the specification |
|---|---|
| `bandwidth_mbps`, `task_speed` | 5.4, memory contention |
| `energy_estimate_j` | 5.6, the energy estimate of a job |
"""

from __future__ import annotations

from hpcosim_protocol.platform import Contention, Platform

DECIMALS = 9  # the specification rounds speeds, so that equal states have equal speeds


def bandwidth_mbps(volume_mb: float, alone_s: float) -> float:
    """Return the bandwidth demand of a task, MB/s. It is constant while the task runs.

    Args:
        volume_mb: total data that the task moves to and from memory, MB.
        alone_s: run time of the task without contention, s; above 0.
    """
    return volume_mb / alone_s


def task_speed(model: Contention, total_mbps: float, own_mbps: float, active_tasks: int) -> float:
    """Return the speed of a task as a fraction of its full speed, above 0 and at most 1.

    Model of Lopez, Stafford, Bosque 2025, section 3.1; Lopez Rauhut 2023, section 2.3.

    Args:
        model: contention constants of the processor.
        total_mbps: bandwidth demand of all tasks on the processor, MB/s (`X`).
        own_mbps: bandwidth demand of the task, MB/s (`y`).
        active_tasks: number of tasks on the processor with operations left, this one included.
    """
    if total_mbps < model.c_mbps:
        return 1.0
    others = active_tasks - 1
    width_mbps = model.dc_mbps - others * model.dd_mbps
    u = (own_mbps - (model.da - others) * model.db_mbps) / width_mbps
    fair_share = 1.0 / (1.0 + 0.6 * others)
    floor = _smooth_step_down(u) * 0.6 * others * fair_share + fair_share
    if total_mbps > model.c_mbps + (floor - 1.0) / model.b_per_mbps:
        return round(floor, DECIMALS)
    return round(1.0 + model.b_per_mbps * (total_mbps - model.c_mbps), DECIMALS)


def energy_estimate_j(
    platform: Platform, group: int, cores: int, requested_s: float, jobs: int
) -> float:
    """Return the estimated energy of a job on a node, J.

    Equation 1 of Lopez, Stafford, Bosque 2025.

    Args:
        platform: the cluster.
        group: index of the node's group in the platform.
        cores: requested cores of the job.
        requested_s: requested run time of the job, on the slowest node, s.
        jobs: number of other jobs on the node now.
    """
    node = platform.nodes[group]
    run_s = requested_s * (platform.slowest_ops_per_s / node.ops_per_s)
    return run_s * (node.static_w / (jobs + 1) + cores * node.dynamic_w)


def _smooth_step_down(u: float) -> float:
    """Return the smooth step that falls from 1 at `u` = 0 to 0 at `u` = 1."""
    if u < 0.0:
        return 1.0
    if u > 1.0:
        return 0.0
    return 1.0 - (6.0 * u**5 - 15.0 * u**4 + 10.0 * u**3)
