"""The schedulers of InEPS in the catalogue: a trained agent, its rule, and its search."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from hpcosim_client.view import Policy
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_schedulers.catalogue.trained import Scheduler, TrainedScheduler


def _agent(model: Path, *, sample: bool) -> Policy:
    from hpcosim_papers.ineps.agent.policy import pairing

    return pairing(model, sample=sample)


def _rule(objective: Objective) -> Policy:
    from hpcosim_papers.ineps.agent.policy import pairing_rule

    return pairing_rule(objective)


def _search(objective: Objective) -> Policy:
    from hpcosim_papers.ineps.agent.plan_search import pairing_search

    return pairing_search(objective)


PAIRING = TrainedScheduler(
    "trained network that pairs jobs with nodes (hpcosim train pairing)",
    _agent,
    "the same, with actions sampled from its distribution",
)
RULE_ENERGY = Scheduler(
    "pairs of job and node with little forecast energy, by the forecast that pairing:MODEL "
    "observes, without a network",
    partial(_rule, "energy"),
)
RULE_EDP = Scheduler("the same for the energy-delay product", partial(_rule, "edp"))
SEARCH_ENERGY = Scheduler(
    "plans of all waiting jobs with little forecast energy, searched at every event by annealing",
    partial(_search, "energy"),
)
SEARCH_EDP = Scheduler("the same for the energy-delay product", partial(_search, "edp"))
