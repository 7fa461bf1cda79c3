"""The exact optimum of small scenarios: a lower bound for every scheduler."""

from hpcosim_scenarios.planning.optimum.search import Optimum, find_optimum

__all__ = ["Optimum", "find_optimum"]
