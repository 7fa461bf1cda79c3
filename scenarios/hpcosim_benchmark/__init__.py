"""A public benchmark: suites of fixed instances, submissions that are verified, leaderboards."""

from hpcosim_benchmark.errors import BenchmarkError, SuiteError, VerificationError

__all__ = ["BenchmarkError", "SuiteError", "VerificationError"]
