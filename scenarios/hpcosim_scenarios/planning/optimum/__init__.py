"""The true optimum of small scenarios: what any scheduler could reach at best."""

from hpcosim_scenarios.planning.optimum.search import Optimum, least

__all__ = ["Optimum", "least"]
