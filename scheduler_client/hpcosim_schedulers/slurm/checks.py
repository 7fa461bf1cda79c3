"""Checks of the settings of a site that concern more than one field."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from hpcosim_schedulers.slurm.accounts import NORMAL, ROOT, Account, Association, Qos


def wrong_accounts(accounts: Mapping[str, Account]) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each account whose parents do not lead to `root`."""
    for name, account in accounts.items():
        field = f"accounts.{name}.parent"
        if name == ROOT:
            if account.parent != ROOT:
                yield field, f"the account {ROOT!r} has no parent; remove the field"
            continue
        if account.parent != ROOT and account.parent not in accounts:
            yield field, _unknown("account", account.parent, (ROOT, *accounts))
            continue
        above = {name: account.parent}
        while (last := next(reversed(above.values()))) in accounts and last not in above:
            above[last] = accounts[last].parent if last != ROOT else ROOT
        if ROOT not in above and last in above:
            chain = " -> ".join([*above, last])
            yield field, f"the accounts have no end: {chain}; expected one with parent {ROOT!r}"


def wrong_qos(accounts: Mapping[str, Account], qos: Mapping[str, Qos]) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each QOS that does not exist."""
    known = (NORMAL, *qos)
    for name, one in qos.items():
        for other in one.preempt:
            if other not in known:
                yield f"qos.{name}.preempt", _unknown("QOS", other, known)
    for field, association in associations(accounts):
        for other in association.qos or ():
            if other not in known:
                yield f"{field}.qos", _unknown("QOS", other, known)
        if association.default_qos and association.default_qos not in known:
            yield f"{field}.default_qos", _unknown("QOS", association.default_qos, known)


def associations(accounts: Mapping[str, Account]) -> Iterator[tuple[str, Association]]:
    """Yield the path of each association below `settings`, and the association."""
    for name, account in accounts.items():
        yield f"accounts.{name}", account
        for user, own in account.users.items():
            yield f"accounts.{name}.users.{user}", own
            for partition, part in own.partitions.items():
                yield f"accounts.{name}.users.{user}.partitions.{partition}", part


def wrong_start_time(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of a start time that is not empty and not a local time."""
    try:
        valid = not text or datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        valid = False
    if not valid:
        example = "2026-11-22T08:00:00, without time zone"
        yield "priority.start_time", f"expected a date and time such as {example}, got {text!r}"


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the message for an unknown name, with the nearest name."""
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]!r}? " if near else ""
    return f"there is no {kind} {name!r}; {advice}expected one of {', '.join(known)}"
