"""The result of a run."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from msgspec import Raw, Struct

Status = Literal["ok", "failed"]


class RunResult(Struct, frozen=True, kw_only=True):
    """The stored result of a run.

    Attributes:
        key: the key of the run.
        status: `ok` or `failed`.
        error: one line: why the run failed. Empty: it did not.
        metrics: metrics by name. Empty: the run failed.
        breakdowns: metrics by class of jobs, as of `Measured`.
        warnings: sentences about a run that is probably not what the user wanted.
        hpcosim: version of hpcosim that simulated the run.
        python: version of Python that simulated the run.
        git_commit: commit of the checkout that hpcosim ran from, with `-dirty` if files were
            changed. Null: hpcosim was installed from a package.
        policy_name: name of the policy, as in `run.json`.
        workload_sha256: SHA-256 of the file of the workload. Null: there is none.
        wall_s: time that the run took, s; it is in no table.
        jobs_sha256: SHA-256 of the table of jobs. Empty: there is none.
        inputs: JSON of which the key is the checksum.
    """

    key: str
    status: Status
    error: str = ""
    metrics: dict[str, int | float | None] = {}
    breakdowns: list[dict[str, Any]] = []
    warnings: list[str] = []
    hpcosim: str
    python: str = ""
    git_commit: str | None = None
    policy_name: str
    workload_sha256: str | None = None
    wall_s: float = 0.0
    jobs_sha256: str = ""
    inputs: Raw = Raw(b"{}")


class Simulated(NamedTuple):
    """What a task returns.

    Attributes:
        result: the result.
        jobs: the table of jobs as a Parquet file. Empty: the run failed, or no table is wanted.
    """

    result: RunResult
    jobs: bytes = b""
