"""How long a job runs on the nodes it was given."""

from __future__ import annotations


def run_time_s(run_s: float, clock_ghz: float, reference_ghz: float | None) -> float:
    """Return the run time of a job, in seconds.

    Args:
        run_s: its run time at the reference clock.
        clock_ghz: the clock of the slowest core it has; it ends when its last task does.
        reference_ghz: the clock at which `run_s` holds; None: it holds on every node.
    """
    if reference_ghz is None:
        return run_s
    return run_s * (reference_ghz / clock_ghz)
