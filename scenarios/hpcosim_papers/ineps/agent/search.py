"""The scheduler that follows plans of all waiting jobs, searched on the forecast."""

from __future__ import annotations

from hpcosim_client.view import Policy, View
from hpcosim_papers.ineps.agent.choices import Choices
from hpcosim_papers.ineps.agent.plan_search import USUAL, PlanSearch, Searching
from hpcosim_papers.ineps.agent.rounds import PairingRounds
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_schedulers.agents.rounds import by_rounds


def pairing_search(objective: Objective, settings: Searching = USUAL) -> Policy:
    """Return the policy of the search.

    Args:
        objective: minimised quantity.
        settings: settings of the search.
    """
    rounds: PairingRounds
    search: PlanSearch

    def new(view: View) -> PairingRounds:
        nonlocal rounds, search
        rounds = PairingRounds(Pairing(objective=objective), view)
        search = PlanSearch(objective, view, settings)
        return rounds

    def choose(view: View, choices: Choices) -> int:
        return search.choose(view, choices, rounds.forecast)

    return by_rounds(new, choose)
