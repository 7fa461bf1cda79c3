"""What commands of Slurm say of run times, usage and expected starts."""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct.records import Record
from hpcosim_slurm.files.sacct.selection import started_records
from hpcosim_slurm.reading.arrays import task_id
from hpcosim_slurm.reading.values import number_of, text_of, time_of
from hpcosim_slurm.starts.errors import ForecastError
from hpcosim_slurm.starts.run_times import UNLIMITED_S, EndedJob
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.tools import Tools

HISTORY_DAYS = 30
SACCT_TIMEOUT_S = 120.0
SACCT = (
    *("sacct", "--allusers", "--allocations", "--parsable2", "--duplicates"),
    f"--starttime=now-{HISTORY_DAYS}days",
    "--format=JobIDRaw,User,Submit,Start,End,ElapsedRaw,State,TimelimitRaw,ReqTRES,AllocTRES,"
    "NodeList",
)
SSHARE = ("sshare", "--all", "--parsable2", "--noheader", "--format=Account,User,RawUsage")
ENDED = frozenset(("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "DEADLINE"))
"""States of jobs whose end does not come from the cluster, such as from the failure of a node."""
STARTS = ("squeue", "--noheader", "--all", "--array", "--states=PENDING")
"""Slurm plans the starts of jobs that wait; with `--start` it would sort them."""
_START_FIELDS = ("JobID", "ArrayJobID", "ArrayTaskID", "StartTime")


def accounted_history(tools: Tools) -> list[EndedJob]:
    """Return the jobs that the accounting has of the last `HISTORY_DAYS` days.

    Raises:
        SlurmError: the accounting does not answer.
        InputError: its answer has another form than expected.
    """
    local = {**tools.environment, "SLURM_TIME_FORMAT": "standard"}
    text = replace(tools, environment=local, timeout_s=SACCT_TIMEOUT_S).output(*SACCT)
    if text.count("\n") < 2:
        return []  # the header only
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.psv"
        path.write_text(text, encoding="utf-8")
        return history_of(path)


def history_of(path: Path) -> list[EndedJob]:
    """Return the ended jobs of a file with the output of `sacct -P`.

    Raises:
        InputError: the file cannot be read or lacks columns.
    """
    records = started_records(path, ZoneInfo("UTC"), {}, ImportReport())
    return [job for record in records if (job := _ended(record)) is not None]


def _ended(record: Record) -> EndedJob | None:
    if record.state not in ENDED or record.run_s is None:
        return None
    if record.limit_s is None and not record.unlimited:
        return None
    requested_s = UNLIMITED_S if record.limit_s is None else record.limit_s
    return EndedJob(record.user, requested_s, _run_s(record.state, record.run_s))


def remembered_history(state: ClusterState) -> list[EndedJob]:
    """Return the ended jobs that the controller still remembers."""
    found = []
    for job in state.jobs.values():
        word = job.slurm_state.split("+")[0].split(" ")[0]
        if job.state != "over" or word not in ENDED:
            continue
        if job.started_s is None or job.ended_s is None:
            continue
        requested_s = UNLIMITED_S if job.time_limit_s is None else job.time_limit_s
        found.append(EndedJob(job.user, requested_s, _run_s(word, job.ended_s - job.started_s)))
    return found


def _run_s(state: str, run_s: float) -> float | None:
    return None if state == "TIMEOUT" else max(run_s, 0.0)


def usage_of(text: str) -> dict[str, dict[str, float]]:
    """Return the raw usage by account and user of the output of `SSHARE`.

    Raises:
        ForecastError: the text has another form.
    """
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        try:
            account, user, usage = fields
            used_s = float(usage or 0.0)
        except ValueError:
            raise ForecastError(
                f"sshare: expected Account|User|RawUsage, got {line[:80]!r}"
            ) from None
        if user:
            users = found.setdefault(account, {})
            users[user] = users.get(user, 0.0) + used_s
    return found


def starts_command(separator: str) -> list[str]:
    """Return the command that prints when Slurm expects to start the jobs that wait."""
    return [*STARTS, "--Format=" + ",".join(f"{name}:{separator}" for name in _START_FIELDS)]


def expected_starts(tools: Tools) -> dict[int, float]:
    """Return when Slurm expects to start waiting jobs, by number, Unix time, s.

    Raises:
        SlurmError: the controller does not answer, or in another form than expected.
    """
    separator = f"X{secrets.token_hex(12)}"
    return starts_of_text(tools.output(*starts_command(separator)), separator)


def starts_of_text(text: str, separator: str) -> dict[int, float]:
    """Return the expected starts of the output of `starts_command`.

    Raises:
        ReadingError: the text has another form.
    """
    words = [word.strip() for word in text.split(separator)][:-1]
    rows: Iterable[tuple[str, ...]] = zip(*[iter(words)] * len(_START_FIELDS), strict=False)
    found = {}
    for number, array, task, start in rows:
        start_s = time_of(start)
        if start_s is not None:
            index = text_of(task)
            plain = re.fullmatch(r"\d{1,10}", index)
            job = task_id(number_of(array), int(index)) if plain else number_of(number)
            found[job] = start_s
    return found
