"""Whether compared runs have the same jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcosim_view.run.frame import Frame


def different_jobs(runs: Sequence[tuple[str, Frame]]) -> str:
    """Return a notice that runs have other jobs than the first one; empty: they have the same.

    Jobs are the same if id, time of submission, cores and requested time are; a requested time
    that is unknown in one of the runs does not count.

    Args:
        runs: name and whole run of each.
    """
    (name, first), *others = runs
    found = []
    for other, run in others:
        count, total = _differing(first, run)
        if count:
            found.append(f"{name} and {other} differ in {count:,} of {total:,} jobs")
    if not found:
        return ""
    return (
        "The runs do not have the same jobs: their results differ for this reason too. "
        f"By submission, cores and requested time, {'; '.join(found)}."
    )


def _differing(first: Frame, second: Frame) -> tuple[int, int]:
    """Return how many jobs differ between two runs or are in one of them only, and all jobs."""
    one, two = first.columns, second.columns
    common, at, other_at = np.intersect1d(one["job.id"], two["job.id"], return_indices=True)
    total = len(one["job.id"]) + len(two["job.id"]) - len(common)
    differs = np.zeros(len(common), bool)
    for name in ("job.submit_s", "job.cores"):
        differs |= one[name][at] != two[name][other_at]
    requested_s, other_s = one["job.requested_s"][at], two["job.requested_s"][other_at]
    known = ~np.isnan(requested_s) & ~np.isnan(other_s)
    differs |= known & (requested_s != other_s)
    return total - len(common) + int(differs.sum()), total
