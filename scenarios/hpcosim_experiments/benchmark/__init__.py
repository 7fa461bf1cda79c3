"""A public benchmark: suites of fixed instances, submissions that are verified, leaderboards."""

from hpcosim_experiments.benchmark.suite import BenchmarkError, SuiteError, VerificationError

__all__ = ["BenchmarkError", "SuiteError", "VerificationError"]
