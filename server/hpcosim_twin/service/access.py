"""Who asks a twin, and what an account sees."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from hpcosim_protocol.files import read_regular
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_view.live.address import check_token, new_token

OPERATOR = "*"
"""The user of a token that sees the jobs of everybody."""
TOKENS = "tokens"
"""The file of tokens in the folder of a twin."""
MAX_TOKENS_BYTES = 1 << 20
Visible = Literal["own", "account", "all"]
"""What a user sees: the own jobs, those of the own accounts, or all."""


def read_tokens(path: Path) -> dict[str, str]:
    """Return the users of the tokens in a file, by token.

    Each line is a token and the name of its user; `*` is an operator, who sees all jobs. A file
    that does not exist is created with a random token of an operator, readable by its owner only.

    Raises:
        OSError: it cannot be read or written.
        ForecastError: a line has another form, or others can read the file.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"# token, user; {OPERATOR}: an operator\n{new_token()} {OPERATOR}\n")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ForecastError(f"{path}: others can read the tokens; `chmod 600` it")
    found: dict[str, str] = {}
    text = read_regular(path, MAX_TOKENS_BYTES).decode(errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise ForecastError(f"{path}:{number}: expected a token and the name of its user")
        found[check_token(words[0])] = words[1]
    if not found:
        raise ForecastError(f"{path}: expected at least one line with a token and its user")
    return found


class Viewer(NamedTuple):
    """Who asks.

    Attributes:
        user: the name; `OPERATOR`: sees everything.
    """

    user: str = OPERATOR
    visible: Visible = "all"

    @property
    def sees_all(self) -> bool:
        """Whether the jobs of all users are shown."""
        return self.user == OPERATOR or self.visible == "all"

    def view(self, state: ClusterState) -> View:
        """Return what is seen of a cluster."""
        if self.sees_all:
            return View(None, None, None)
        own = [job for job in state.jobs.values() if job.user == self.user]
        accounts = {job.account for job in own if job.account}
        jobs = (job for job in state.jobs.values() if self._sees(job, accounts))
        users = {self.user}
        if self.visible == "account":
            users |= {job.user for job in state.jobs.values() if job.account in accounts}
        return View(frozenset(job.id for job in jobs), frozenset(users), frozenset(accounts))

    def _sees(self, job: LiveJob, accounts: set[str]) -> bool:
        return job.user == self.user or (self.visible == "account" and job.account in accounts)


class View(NamedTuple):
    """What somebody sees of a cluster; None: everything.

    Attributes:
        jobs: numbers of jobs.
        users, accounts: names.
    """

    jobs: frozenset[int] | None
    users: frozenset[str] | None
    accounts: frozenset[str] | None

    def check(self, question: msgspec.Struct, state: ClusterState) -> None:
        """Check a question for what is not seen.

        The job of somebody else gives the same error as one that does not exist.

        Raises:
            ForecastError: the question names a job that does not wait, or is not seen, or a user
                who is not seen.
        """
        number = getattr(question, "job_id", None)
        if number is not None:
            job = state.jobs.get(number)
            is_seen = self.jobs is None or number in self.jobs
            if job is None or job.state != "pending" or not is_seen:
                raise ForecastError(f"job {number} does not wait")
        user = getattr(question, "user", "")
        if user and self.users is not None and user not in self.users:
            raise ForecastError("user: expected your own name, or none")

    def of(self, answer: Any) -> Any:
        """Return an answer without the rows of jobs, users and accounts that are not seen."""
        if self.jobs is None:
            return answer
        if isinstance(answer, list | tuple):
            return [self.of(each) for each in answer if self._shows(each)]
        if isinstance(answer, Mapping):
            return {key: self.of(value) for key, value in answer.items() if self._shows(value)}
        return answer

    def _shows(self, row: Any) -> bool:
        if not isinstance(row, Mapping) or self.jobs is None:
            return True
        if "job_id" in row:
            return row["job_id"] in self.jobs
        user, account = row.get("user"), row.get("account")
        if user and self.users is not None and user not in self.users:
            return False
        known = self.accounts is None or account in ("all", *self.accounts)
        return not account or known
