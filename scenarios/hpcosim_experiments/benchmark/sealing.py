"""Sealing of a suite: the hashes and bounds of its instances, and the scores of its reference."""

from __future__ import annotations

from collections.abc import Iterator

from hpcosim_experiments.benchmark.bounds import bound_of
from hpcosim_experiments.benchmark.instances import digest_of, load_instance, policy_of
from hpcosim_experiments.benchmark.suite import Seal, Suite
from hpcosim_scenarios.running.run import run_chosen


def seals_of(suite: Suite) -> Iterator[Seal]:
    """Yield the seal of each instance of a suite.

    Args:
        suite: the suite; its seals are ignored.

    Raises:
        BenchmarkError: an instance has a part that no suite may have, or its bound is unknown.
        ScenarioError, WorkloadError, PolicyError, OracleError, RunError: an instance is invalid,
            or its reference or its bound fails.
    """
    suite = Suite(suite.file, suite.folder, {})
    file, reference = suite.file, suite.file.reference
    for instance in file.instances:
        loaded = load_instance(suite, instance)
        chosen = policy_of(
            suite,
            instance,
            loaded,
            reference.scheduler,
            reference.power,
            reference.power_awareness,
        )
        yield Seal(
            instance=instance.name,
            sha256=digest_of(loaded),
            jobs=len(loaded.jobs),
            bound=bound_of(suite, instance, loaded),
            reference=file.score_of(run_chosen(chosen, loaded, None)),
        )
