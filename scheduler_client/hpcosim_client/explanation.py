"""Validation of the explanations of a policy."""

from __future__ import annotations

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_protocol import REASON

MAX_START_S = 1e15  # of the protocol


def check_explanation(job: Job, reason: str, expected_start_s: float | None) -> None:
    """Check an explanation, so that the server accepts it.

    Args:
        job: the job, for the error.
        reason: name of the reason.
        expected_start_s: expected start, simulated seconds; None: unknown.

    Raises:
        PolicyError: the reason is malformed, or the start is NaN or too large.
    """
    if not isinstance(reason, str) or REASON.fullmatch(reason) is None:
        raise PolicyError(
            f"job {job.job_id}: the reason {reason!r:.80} is malformed: expected a letter, then up "
            "to 63 letters, digits and _, such as Resources"
        )
    if expected_start_s is not None and not expected_start_s <= MAX_START_S:
        raise PolicyError(
            f"job {job.job_id}: the expected start is {expected_start_s} s: expected at most "
            f"{MAX_START_S:g} s, or None if it is unknown"
        )
