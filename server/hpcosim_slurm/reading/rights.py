"""What the user of the bridge may do.

slurmctld lets root and SlurmUser do everything. For other users it asks slurmdbd: an `Operator` may
change, signal, requeue, suspend, resume and cancel jobs of others, an `Administrator` may also
change nodes (`sacctmgr(1)`, AdminLevel; `scontrol(1)`).
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Literal

from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.reading.config import ClusterConfig
from hpcosim_slurm.tools import Tools

Mode = Literal["shadow", "hold", "place"]


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do.

    Attributes:
        user: the user.
        level: why: `root`, `SlurmUser`, `Administrator`, `Operator`, or empty: none of these.
        sees_all_jobs: whether the user sees the jobs of others.
        changes_jobs: whether the user may change the jobs of others, and end, requeue, suspend and
            resume them.
        changes_nodes: whether the user may switch nodes.
    """

    user: str
    level: str
    sees_all_jobs: bool
    changes_jobs: bool
    changes_nodes: bool


def read_rights(tools: Tools, config: ClusterConfig) -> Rights:
    """Return the rights of the user of this process.

    Args:
        tools: the commands of the cluster.
        config: its configuration.

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
    """Check that a user may do what a mode does.

    Args:
        rights: those of the user.
        mode: mode of the bridge.
        power: whether it switches nodes.

    Raises:
        SlurmError: a right is missing.
    """
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
