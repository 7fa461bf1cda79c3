"""The model that the specification defines: quantities that both sides compute the same way.

The server runs and admits jobs by these formulas; a scheduler may look ahead by them. Nothing
here keeps state.

| function | section of the specification |
|---|---|
| `bandwidth_mbps`, `task_speed` | 5.4, memory contention |
| `energy_estimate_j` | 5.6, the energy estimate of a job |
"""

from __future__ import annotations

from hpcosim_protocol.platform import Contention, Platform

DECIMALS = 9  # of a speed; the specification rounds, so that equal states have equal speeds


def bandwidth_mbps(volume_mb: float, alone_s: float) -> float:
    """Return the bandwidth a task asks for, in MB/s, fixed when it starts.

    Args:
        volume_mb: data it moves to and from memory in all, MB.
        alone_s: how long it takes when nothing slows it, s.
    """
    return volume_mb / alone_s


def task_speed(model: Contention, total_mbps: float, own_mbps: float, active_tasks: int) -> float:
    """Return the share of its full speed at which a task runs, above 0 and up to 1.

    The model of Lopez, Stafford, Bosque 2025, section 3.1; Lopez Rauhut 2023, section 2.3.

    Args:
        model: the constants of the processor.
        total_mbps: bandwidth asked for by all tasks on it, MB/s (X).
        own_mbps: bandwidth the task itself asks for, MB/s (y).
        active_tasks: tasks on the processor that have operations left, this one among them.
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
    """Return the energy that a job is expected to cost on a node, J.

    Equation 1 of Lopez, Stafford, Bosque 2025.

    Args:
        platform: the cluster.
        group: number of the node's group.
        cores: cores of the job.
        requested_s: requested time of the job, which holds on the slowest node, s.
        jobs: number of other jobs that run on the node now.
    """
    node = platform.nodes[group]
    run_s = requested_s * (platform.slowest_ops_per_s / node.ops_per_s)
    return run_s * (node.static_w / (jobs + 1) + cores * node.dynamic_w)


def _smooth_step_down(u: float) -> float:
    """Fall from 1 at 0 to 0 at 1."""
    if u < 0.0:
        return 1.0
    if u > 1.0:
        return 0.0
    return 1.0 - (6.0 * u**5 - 15.0 * u**4 + 10.0 * u**3)
