"""What Deep-EAS sees: a binary picture, a row a step (paper, section II-B, figure 2).

From left to right

- for each machine its occupancy: in the row of a step, as many columns are 1 as cores are taken;
- for each of the `queue` slots and each machine the job there: as many rows as it is expected to
  take steps, as many columns as it takes cores; zeros for a slot without a job;
- how many jobs wait behind those of the slots, and how many steps ago the last job came, each a
  row of ones as long as that, cut into columns of `horizon`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.heuristics.step_plan import StepPlan
from hpcosim_client.job import Job

Picture = NDArray[np.bool_]


def picture(
    settings: DeepEas, plan: StepPlan, jobs: Sequence[Job], behind: int, since_arrival: int
) -> Picture:
    """Return the picture, bool[horizon, width].

    Args:
        settings: its measures.
        plan: for what is taken.
        jobs: those of the slots, `queue` at most.
        behind: how many wait behind them.
        since_arrival: steps since the last job came.
    """
    drawn = np.zeros((settings.horizon, settings.width), dtype=np.bool_)
    columns = np.arange(settings.cores)
    for machine in range(settings.machines):
        taken = np.array(plan.used[machine][: settings.horizon])
        drawn[:, machine * settings.cores : (machine + 1) * settings.cores] = (
            columns < taken[:, None]
        )
    first = settings.machines * settings.cores
    for job in jobs:
        for machine in range(settings.machines):
            drawn[: plan.steps(job, machine), first : first + job.cores] = True
            first += settings.cores
    first = settings.machines * settings.cores * (1 + settings.queue)
    for most, count in ((settings.backlog, behind), (settings.since_arrival, since_arrival)):
        chunks = most // settings.horizon
        line = np.arange(most) < count
        drawn[:, first : first + chunks] = line.reshape(chunks, settings.horizon).T
        first += chunks
    return drawn
