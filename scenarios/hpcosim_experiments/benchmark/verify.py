"""Verification of submissions: each journal runs again, and the metrics are computed from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hpcosim_experiments.benchmark.errors import BenchmarkError, VerificationError
from hpcosim_experiments.benchmark.instances import load_instance
from hpcosim_experiments.benchmark.journal import check
from hpcosim_experiments.benchmark.submission import About, Submission
from hpcosim_experiments.benchmark.suite import InstanceFile, Suite
from hpcosim_scenarios.running.library import LoadedScenario, open_loaded
from hpcosim_sim.record.metrics import Metrics
from hpcosim_sim.record.results import metrics_of


class Verified(NamedTuple):
    """A verified submission.

    Attributes:
        suite: its suite.
        about: what it states. The scheduler's name and decision times are not verified.
        metrics: the metrics of each instance, from its journal.
    """

    suite: Suite
    about: About
    metrics: Mapping[str, Metrics]

    @property
    def scores(self) -> dict[str, float]:
        """The score of each instance."""
        return {name: self.suite.file.score_of(each) for name, each in self.metrics.items()}


class Verifier:
    """Verifies submissions of one suite. Each instance is loaded once.

    Args:
        suite: the suite.
    """

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._loaded: dict[str, LoadedScenario] = {}

    def __call__(self, submission: Submission) -> Verified:
        """Verify a submission that was read.

        Raises:
            VerificationError: it is not valid; says what and where.
            BenchmarkError: this installation makes other instances.
        """
        path, about, suite = submission.path, submission.about, self._suite
        if about.suite != suite.file.name:
            raise VerificationError(
                path, f"it is of the suite {about.suite!r}; expected {suite.file.name!r}"
            )
        _check_instances(path, suite, about)
        metrics = {
            each.name: _metrics(submission, suite, each.name, self.load(each))
            for each in suite.file.instances
        }
        return Verified(suite, about, metrics)

    def load(self, instance: InstanceFile) -> LoadedScenario:
        """Return an instance of the suite.

        Raises:
            BenchmarkError, ScenarioError, WorkloadError: as `load_instance`.
        """
        if instance.name not in self._loaded:
            self._loaded[instance.name] = load_instance(self._suite, instance)
        return self._loaded[instance.name]


def _check_instances(path: Path, suite: Suite, about: About) -> None:
    for name, seal in suite.seals.items():
        if name not in about.instances:
            raise VerificationError(path, f"the instance {name} is missing")
        if about.instances[name].sha256 != seal.sha256:
            raise VerificationError(
                path,
                f"{name}: it is of another instance: expected the SHA-256 {seal.sha256}, got "
                f"{about.instances[name].sha256}",
            )
    if more := next((name for name in about.instances if name not in suite.seals), None):
        raise VerificationError(path, f"the suite has no instance {more}")


def _metrics(submission: Submission, suite: Suite, name: str, loaded: LoadedScenario) -> Metrics:
    """Return the metrics of an instance from its journal."""
    opened = open_loaded(loaded, submission.about.name)
    try:
        check(opened, submission.journals[name], suite.file.decisions)
    except BenchmarkError as error:
        raise VerificationError(submission.path, f"{name}: {error}") from None
    metrics = metrics_of(opened.simulation.record(), opened.run)
    if metrics["jobs_completed"] != metrics["jobs"]:
        raise VerificationError(
            submission.path,
            f"{name}: {metrics['jobs_completed']} of {metrics['jobs']} jobs are completed; "
            "expected all",
        )
    return metrics
