"""Why jobs wait, by Slurm's names of the reasons, and when they are planned to start."""

from __future__ import annotations

from collections.abc import Iterable

from hpcosim_client.view import View
from hpcosim_schedulers.slurm.backfill import Planned
from hpcosim_schedulers.slurm.candidate import Candidate
from hpcosim_schedulers.slurm.clock import SiteClock
from hpcosim_schedulers.slurm.limits import Limits


def explain_reasons(
    view: View, queue: Iterable[Candidate], limits: Limits, blocked: Iterable[Candidate]
) -> None:
    """Explain why jobs wait after a pass of the main scheduler.

    Args:
        view: the view.
        queue: the candidates of the pass.
        limits: the limits, whose reasons come first.
        blocked: the jobs at which the pass stopped.
    """
    lacking = {candidate.job.job_id for candidate in blocked}
    for candidate in queue:
        job = candidate.job
        if job.job_id in view.queue:
            reason = limits.held(job, view.now_s, candidate.partition)
            expected_s = None if job.explanation is None else job.explanation[1]
            view.explain(
                job,
                reason or ("Resources" if job.job_id in lacking else "Priority"),
                expected_s if expected_s is None or expected_s > view.now_s else None,
            )


def explain_plan(view: View, plan: Iterable[Planned], clock: SiteClock) -> None:
    """Add the planned starts of a pass of the backfill scheduler to the explanations."""
    for planned in plan:
        job = view.queue.get(planned.job_id)
        if job is not None:
            reason = "Priority" if job.explanation is None else job.explanation[0]
            view.explain(job, reason, clock.simulated(planned.start))
