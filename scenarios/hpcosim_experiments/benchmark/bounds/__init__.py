"""Lower bounds and oracles of the score of an instance, by name.

Other packages register theirs by entry points of the group `hpcosim.bounds`, each a `Bound`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import NamedTuple

from hpcosim_experiments.benchmark.bounds import pairing, response, switching
from hpcosim_experiments.benchmark.errors import BenchmarkError
from hpcosim_experiments.benchmark.suite import BOUNDS, InstanceFile, Suite
from hpcosim_scenarios.running.library import LoadedScenario


class Bound(NamedTuple):
    """A bound of the score of an instance.

    Attributes:
        compute: function of the suite, an instance and the same loaded; its docstring is the
            definition.
        metrics: metrics of which one must be the score; empty: the bound fits every score.
    """

    compute: Callable[[Suite, InstanceFile, LoadedScenario], float]
    metrics: tuple[str, ...] = ()


def bounds() -> Mapping[str, Bound]:
    """Return all bounds by name."""
    return {
        "mean-response": Bound(response.least_mean_response, ("mean_response_s",)),
        "switching-oracle": Bound(switching.clairvoyant_score),
        "pairing-search": Bound(pairing.least_energy_or_edp, ("energy_j", "edp_js")),
        **{point.name: point.load() for point in entry_points(group=BOUNDS)},
    }


def bound_of(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return the bound of an instance.

    Raises:
        BenchmarkError: the bound is not one of the suite's score or of the instance.
        OracleError, OptimumError, PolicyError, RunError: it cannot be computed.
    """
    name = suite.file.bound
    compute, metrics = bounds()[name]
    if metrics and suite.file.score not in [{metric: 1.0} for metric in metrics]:
        raise BenchmarkError(
            f"{suite.file.name}: score: the bound {name} is one of {' and '.join(metrics)}; "
            "expected that metric with the coefficient 1"
        )
    return compute(suite, instance, loaded)
