"""The cost of a plan of the known jobs, also while more jobs may be submitted."""

from __future__ import annotations

from hpcosim_client.view import View
from hpcosim_papers.ineps.agent.forecast import Forecast
from hpcosim_papers.ineps.agent.plans import Cost, Plan
from hpcosim_papers.ineps.agent.settings import Objective

WEIGHT = 0.05
"""Price of the next second until the last known job ends, relative to that price once no more jobs
will be submitted."""

BACKLOG = 12.0
"""Mean run times that the known jobs have left when the mean price of a second has doubled. The
longer the backlog, the more likely it determines the end of the run."""


def cost_of(
    objective: Objective,
    view: View,
    forecast: Forecast,
    plan: Plan,
    began_s: float,
    mean_run_s: float,
) -> tuple[Cost, float]:
    """Return the cost of plans, and the energy of the running jobs from now on.

    Args:
        objective: minimised quantity.
        view: the view.
        forecast: the forecast.
        plan: a plan, for its problem.
        began_s: start of the simulation, simulated seconds.
        mean_run_s: mean run time of the jobs so far on the fastest node, in seconds.
    """
    now_s, idle_w, nodes = view.now_s, forecast.idle_w, plan.problem.nodes
    running_j = sum(plan.problem.run(node, ()).extra_j for node in range(len(nodes)))
    spent_j = forecast.committed_j - running_j

    def energy(extra_j: float, end_s: float) -> float:
        return spent_j + extra_j + idle_w * (max(end_s, now_s) - began_s)

    def edp(extra_j: float, end_s: float) -> float:
        span_s = max(end_s, now_s) - began_s
        return (spent_j + extra_j + idle_w * span_s) * span_s

    if view.no_more_jobs:
        return (energy if objective == "energy" else edp), running_j
    price_w = idle_w
    if objective == "edp":  # d(E T) / T = dE + (E / T) dT
        span_s = max(forecast.horizon_s(now_s) - began_s, 1e-9)
        price_w += idle_w + forecast.committed_j / span_s
    scale_s = max(BACKLOG * mean_run_s, 1e-9)

    def so_far(extra_j: float, end_s: float) -> float:
        left_s = max(end_s - now_s, 0.0)
        return spent_j + extra_j + WEIGHT * price_w * left_s * (1.0 + left_s / scale_s)

    return so_far, running_j
