"""The summary of the fault suite: what was done, and what failed.

Tests add figures with `record_property("fault", {"runs": 25})`, and with `record_property("replay",
"...")` the command that repeats what they do next: the last one is shown if they fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

FIGURES, REPLAY = "fault", "replay"
RUN = ".venv/bin/python -m pytest"


def summary(stats: Mapping[str, Sequence[Any]], wall_s: float) -> list[str]:
    """Return the lines of the summary.

    Args:
        stats: the reports of pytest by outcome.
        wall_s: time of all tests, s.
    """
    groups: dict[str, list[Any]] = {}
    failed = [*stats.get("failed", ()), *stats.get("error", ())]
    for report in [*stats.get("passed", ()), *failed]:
        groups.setdefault(_group(report.nodeid), []).append(report)
    lines = ["| test | passed | failed | time, s | what was done |", "|---|---|---|---|---|"]
    for name, reports in sorted(groups.items()):
        bad = sum(report in failed for report in reports)
        duration_s = sum(report.duration for report in reports)
        done = ", ".join(f"{count:,} {what}" for what, count in _figures(reports).items())
        lines.append(f"| {name} | {len(reports) - bad} | {bad} | {duration_s:.1f} | {done} |")
    return [*lines, f"{wall_s:.0f} s of wall time", *_failures(failed)]


def _group(nodeid: str) -> str:
    return nodeid.rpartition("::")[2].partition("[")[0].removeprefix("test_").replace("_", " ")


def _figures(reports: Sequence[Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for report in reports:
        for name, figures in report.user_properties:
            for what, count in figures.items() if name == FIGURES else ():
                total[what] = total.get(what, 0) + count
    return total


def _failures(failed: Sequence[Any]) -> Iterator[str]:
    for report in failed:
        replays = [value for name, value in report.user_properties if name == REPLAY]
        yield f"FAILED {report.nodeid}"
        yield replays[-1] if replays else f"replay: {RUN} '{report.nodeid}' --fault-long"
