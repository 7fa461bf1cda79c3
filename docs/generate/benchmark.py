"""The suites of the benchmark and the definitions of their bounds, from the package."""

from __future__ import annotations

from docs.generate.definitions import entry

from hpcosim_experiments.benchmark.bounds import bounds as bounds_by_name
from hpcosim_experiments.benchmark.leaderboard import reference_name, score_text
from hpcosim_experiments.benchmark.suite import find_suite, shipped_suites


def suites() -> str:
    """Return a row for each shipped suite."""
    lines = ["| Suite | Instances | Score | Bound | Reference |", "|---|---|---|---|---|"]
    for name in shipped_suites():
        suite = find_suite(name)
        jobs = sorted({seal.jobs for seal in suite.seals.values()})
        sizes = f"{jobs[0]} to {jobs[-1]}" if len(jobs) > 1 else f"{jobs[0]}"
        cells = (
            f"`{name}`: {suite.file.title}",
            f"{len(suite.seals)} of {sizes} jobs",
            score_text(suite),
            f"[`{suite.file.bound}`](#{suite.file.bound})",
            reference_name(suite),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def bounds() -> str:
    """Return the definition of each bound."""
    return "\n\n".join(entry(bound.compute, name) for name, bound in bounds_by_name().items())
