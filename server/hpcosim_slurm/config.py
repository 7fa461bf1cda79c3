"""The configuration of a cluster (`scontrol show config`), and the rights of the user."""

from __future__ import annotations

import os
import pwd
import re
from dataclasses import dataclass
from typing import Literal

from hpcosim_slurm.errors import ReadingError, SlurmError
from hpcosim_slurm.texts import text_of
from hpcosim_slurm.tools import Tools

CONFIG = ("scontrol", "show", "config")
OLDEST, NEWEST = (21, 8), (24, 11)
"""First and last versions whose output is understood. The tests run with 22.05."""

_LINE = re.compile(r"(?m)^([A-Za-z_][\w ]*?)\s*= (.*?)\s*$")

Mode = Literal["shadow", "hold", "place"]


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What matters of a configuration.

    Attributes:
        port: port of its controller, or a range of ports. Clusters of one name have different ones.
        has_accounts: whether slurmdbd keeps accounts and the levels of users.
        is_memory_counted: whether jobs have memory of their nodes to themselves.
        private: what users see only of themselves, such as `jobs`.
        scheduler: Slurm's own scheduler, such as `sched/backfill`.
    """

    name: str
    port: str
    version: str
    slurm_user: str
    has_accounts: bool
    is_memory_counted: bool
    private: frozenset[str]
    scheduler: str
    suspend_program: str
    resume_program: str
    start_program: str
    end_program: str
    remembered_s: float

    @property
    def has_hooks(self) -> bool:
        """Whether Slurm runs programs when jobs start or end, or when it switches nodes."""
        return any(
            (self.start_program, self.end_program, self.suspend_program, self.resume_program)
        )


def read_config(tools: Tools) -> ClusterConfig:
    """Return the configuration of a cluster.

    Raises:
        CommandError: the command has failed.
        SlurmError: this version is not supported.
        ReadingError: the output has another form than expected.
    """
    config = parse_config(tools.output(*CONFIG))
    check_version(config.version)
    return config


def parse_config(text: str) -> ClusterConfig:
    """Return the configuration of the command's output.

    Raises:
        ReadingError: a field is missing.
    """
    found = {name: text_of(value) for name, value in _LINE.findall(text)}
    try:
        ends = found["JobCompType"] == "jobcomp/script"
        return ClusterConfig(
            name=found["ClusterName"],
            port=found["SlurmctldPort"],
            version=found["SLURM_VERSION"],
            slurm_user=found["SlurmUser"].partition("(")[0],
            has_accounts=found["AccountingStorageType"].endswith("/slurmdbd"),
            is_memory_counted="MEMORY" in found["SelectTypeParameters"].upper(),
            private=frozenset(filter(None, found["PrivateData"].split(","))) - {"none"},
            scheduler=found["SchedulerType"],
            suspend_program=found["SuspendProgram"],
            resume_program=found["ResumeProgram"],
            start_program=found["PrologSlurmctld"],
            end_program=found["JobCompLoc"] if ends else "",
            remembered_s=float(found["MinJobAge"].split()[0]),
        )
    except (KeyError, ValueError, IndexError) as error:
        raise ReadingError(f"scontrol show config: the field {error} is missing") from None


def check_version(version: str) -> None:
    """Check that a version is supported."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or not OLDEST <= (int(numbers[1]), int(numbers[2])) <= NEWEST:
        first, last = (f"{major}.{minor:02}" for major, minor in (OLDEST, NEWEST))
        raise SlurmError(f"Slurm {version}: expected a version from {first} to {last}")


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do.

    Attributes:
        level: why: `root`, `SlurmUser`, `Administrator`, `Operator`, or empty: none of these.
        changes_jobs: whether the user may change the jobs of others, and end, requeue, suspend and
            resume them.
    """

    user: str
    level: str
    sees_all_jobs: bool
    changes_jobs: bool
    changes_nodes: bool


def read_rights(tools: Tools, config: ClusterConfig) -> Rights:
    """Return the rights of the user of this process.

    Raises:
        CommandError: `sacctmgr` has failed.
    """
    user = _user()
    level = _level(tools, config, user)
    operates = level != ""
    return Rights(
        user=user,
        level=level,
        sees_all_jobs=operates or "jobs" not in config.private,
        changes_jobs=operates,
        changes_nodes=level not in ("", "Operator"),
    )


def check_rights(rights: Rights, mode: Mode, *, power: bool = False) -> None:
    """Check that a user may do what a mode does."""
    if not rights.sees_all_jobs:
        raise SlurmError(
            f"user {rights.user} does not see the jobs of others (PrivateData=jobs): expected "
            f"SlurmUser, root or an operator; {_grant(rights.user, 'Operator')}"
        )
    if mode != "shadow" and not rights.changes_jobs:
        raise SlurmError(
            f"user {rights.user} may not change the jobs of others, which mode {mode} needs: "
            f"expected SlurmUser, root or an operator; {_grant(rights.user, 'Operator')}"
        )
    if mode != "shadow" and power and not rights.changes_nodes:
        raise SlurmError(
            f"user {rights.user} may not switch nodes: expected SlurmUser, root or an "
            f"administrator; {_grant(rights.user, 'Administrator')}, or do not switch nodes"
        )


def _grant(user: str, level: str) -> str:
    return f"with accounting: sacctmgr modify user {user} set AdminLevel={level}"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _level(tools: Tools, config: ClusterConfig, user: str) -> str:
    if os.geteuid() == 0:
        return "root"
    if user == config.slurm_user:
        return "SlurmUser"
    if not config.has_accounts:
        return ""
    shown = tools.output(
        "sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=AdminLevel"
    )
    found = shown.strip()
    return found if found in ("Operator", "Administrator") else ""
