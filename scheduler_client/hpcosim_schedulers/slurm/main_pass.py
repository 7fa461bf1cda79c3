"""A pass of the main scheduler: jobs start strictly by priority.

Sources: slurm.conf(5), `SchedulerParameters`; https://slurm.schedmd.com/sched_config.html. A
partition whose first waiting job lacks resources starts no further job in the same pass: observed
with Slurm 22.05, see docs/explanation/slurm-policy.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hpcosim_schedulers.slurm.candidate import Candidate
from hpcosim_schedulers.slurm.future import Future
from hpcosim_schedulers.slurm.node_sets import set_of_mask
from hpcosim_schedulers.slurm.passes import PassContext


@dataclass(frozen=True, slots=True)
class MainLimits:
    """Limits of a pass.

    Attributes:
        jobs: maximum number of jobs considered; 0: no limit.
        jobs_of_partition: the same for each partition.
        starts: maximum number of jobs started; 0: no limit.
        ends_at_first: whether the cluster has no partitions: the first job that does not fit ends
            the pass.
    """

    jobs: int = 0
    jobs_of_partition: int = 0
    starts: int = 0
    ends_at_first: bool = False


def main_pass(
    queue: Iterable[Candidate], context: PassContext, empty: Future, limits: MainLimits
) -> list[Candidate]:
    """Start jobs by priority until each partition has a job that does not fit.

    Args:
        queue: waiting jobs by priority. A job in several partitions comes several times.
        context: the cluster and the rules of the site.
        empty: the resources if no job ran. A job that does not fit there either, because nodes are
            down or reserved, does not block its partition.
        limits: limits of the pass.

    Returns:
        The jobs at which the pass stopped, one of each partition.
    """
    free, available = context.future(), context.available
    started: set[int] = set()
    blocked: dict[str, Candidate] = {}
    tested: Counter[str] = Counter()
    for number, candidate in enumerate(queue):
        partition = candidate.partition
        if candidate.job.job_id in started or partition in blocked:
            continue
        if 0 < limits.jobs <= number or 0 < limits.starts <= len(started):
            break
        if context.held(candidate):
            blocks = context.stops(candidate)
        else:
            tested[partition] += 1
            if 0 < limits.jobs_of_partition < tested[partition]:
                continue
            permitted = context.permitted_now(candidate)
            found = free.find(candidate, permitted & available)
            if found is not None and context.start(candidate, found):
                started.add(candidate.job.job_id)
                free = context.future()
            blocks = found is None and empty.fits(candidate, permitted & context.available)
            if blocks:
                context.preempt(candidate, permitted & available)
                blocks = context.reserves(candidate)
        if blocks:
            blocked[partition] = candidate
            if limits.ends_at_first:
                break
            # Jobs of other partitions must not take the nodes that this one waits for.
            for choice in candidate.choices:
                available &= ~set_of_mask(choice.nodes)
    return list(blocked.values())
