"""Qualities of service that accounts and partitions name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.statements import Statement

NORMAL = "normal"  # exists even if no file describes it
KEYS = ("qos", "allowqos", "denyqos")
"""Keys of partitions that name QOS."""


def name_all_qos(
    settings: dict[str, Any],
    statements: Sequence[Statement],
    dump: Path | None,
    described: Path | None,
    report: ImportReport,
) -> None:
    """Report the QOS that are named and not described; they have no limits.

    Those of accounts and users are added to the settings, which are invalid otherwise. Those of
    partitions are not: `hpcosim validate` warns of them, too.

    Args:
        settings: the settings of the scheduler.
        statements: those of slurm.conf.
        dump: file of the accounts.
        described: file of the QOS; None: there is none.
        report: lists the names.
    """
    known = {NORMAL, *settings.get("qos", {})}
    where = f"in {described.name}" if described else "(see --qos)"
    for name in _of_accounts(settings):
        if name not in known:
            place = dump.name if dump else ""
            report.add("guessed", f"QOS {name} is not described {where}: no limits", place)
            settings.setdefault("qos", {})[name] = {}
    for statement in (each for each in statements if each.key == "partitionname"):
        for name in _of_partition(statement):
            if name not in known:
                what = f"QOS {name} is not described {where}: no limits"
                report.add("guessed", what, statement.place)


def _of_accounts(settings: dict[str, Any]) -> list[str]:
    """Return the QOS that accounts and users name, each once."""
    found: dict[str, None] = {}
    for account in settings.get("accounts", {}).values():
        users = account.get("users", {}).values()
        parts = (part for user in users for part in user.get("partitions", {}).values())
        for each in (account, *users, *parts):
            default = [each["default_qos"]] if "default_qos" in each else []
            found |= dict.fromkeys([*each.get("qos", ()), *default])
    return list(found)


def _of_partition(statement: Statement) -> list[str]:
    """Return the QOS that a partition names, each once."""
    texts = (name for key in KEYS for name in statement.get(key).split(","))
    found = dict.fromkeys(text.strip() for text in texts)
    return [name for name in found if name and name.upper() not in ("ALL", "N/A")]
