"""Lower bounds and oracles of the score of an instance, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hpcosim_benchmark.bounds import normalised_edp, pairing, response, switching
from hpcosim_benchmark.errors import BenchmarkError
from hpcosim_benchmark.suite import BoundName, InstanceFile, Suite
from hpcosim_scenarios.running.library import LoadedScenario

Bound = Callable[[Suite, InstanceFile, LoadedScenario], float]

BOUNDS: Mapping[BoundName, Bound] = {
    "mean-response": response.least_mean_response,
    "switching-oracle": switching.clairvoyant_score,
    "pairing-search": pairing.least_energy_or_edp,
    "normalised-edp": normalised_edp.least_normalised_edp,
}
"""Functions of the suite, an instance and the same loaded; their docstrings are the definitions."""

METRICS: Mapping[BoundName, tuple[str, ...]] = {
    "mean-response": ("mean_response_s",),
    "pairing-search": ("energy_j", "edp_js"),
    "normalised-edp": ("mean_normalised_edp",),
}
"""The metrics of which one must be the score; the others fit every score."""


def bound_of(suite: Suite, instance: InstanceFile, loaded: LoadedScenario) -> float:
    """Return the bound of an instance.

    Raises:
        BenchmarkError: the bound is not one of the suite's score or of the instance.
        OracleError, OptimumError, PolicyError, RunError: it cannot be computed.
    """
    name = suite.file.bound
    if name in METRICS and suite.file.score not in [{metric: 1.0} for metric in METRICS[name]]:
        raise BenchmarkError(
            f"{suite.file.name}: score: the bound {name} is one of {' and '.join(METRICS[name])}; "
            "expected that metric with the coefficient 1"
        )
    return BOUNDS[name](suite, instance, loaded)
