"""The tree of accounts and users, and the association of a job.

See "Association" of https://slurm.schedmd.com/accounting.html: an association is an account, a user
and optionally a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from hpcosim_client.job import Job
from hpcosim_schedulers.slurm.accounts import NORMAL, ROOT, Account, Association, Tres, User

Value = TypeVar("Value")

NOBODY = ""
"""User of the associations of accounts, and of jobs whose user is unknown."""


@dataclass(slots=True)
class Node:
    """An association in the tree.

    Attributes:
        account, user, partition: names; `user` is None for the association of an account itself.
        rules: shares and limits as set.
        parent: number of the association of the account above; -1: none, the account `root`.
        children: numbers of the associations below.
    """

    account: str
    user: str | None
    partition: str
    rules: Association
    parent: int
    children: list[int] = field(default_factory=list)


class Associations:
    """All associations of a site, numbered; number 0 is the account `root`.

    Args:
        accounts: the accounts by name.
        adds_unknown: whether an unknown user or account of a job is added with one share. If not,
            the job has no association.

    Attributes:
        nodes: the associations by number.
    """

    def __init__(self, accounts: Mapping[str, Account], *, adds_unknown: bool = True) -> None:
        self.nodes: list[Node] = []
        self._adds_unknown = adds_unknown
        self._numbers: dict[tuple[str, str | None, str], int] = {}
        self._default_account: dict[str, str] = {}
        self._effective: dict[int, Association] = {}
        root = accounts.get(ROOT, Account())
        self._add(-1, ROOT, None, "", root)
        self._add_users(ROOT, {ROOT: User(), **root.users})
        for name in _parents_first(accounts):
            account = accounts[name]
            self._add(self._numbers[account.parent, None, ""], name, None, "", account)
            self._add_users(name, account.users)
        self._set_default_accounts(accounts)

    def of(self, job: Job, partition: str = "") -> int | None:
        """Return the number of a job's association.

        A job without an account is of the default account of its user.

        Args:
            job: the job.
            partition: partition of the job; an association of the user for it takes precedence.

        Returns:
            The number; None: the user and the account have no association.
        """
        account = job.account or self._default_account.get(job.user, ROOT)
        for own in (partition, ""):
            number = self._numbers.get((account, job.user, own))
            if number is not None:
                return number
        if not self._adds_unknown:
            return None
        above = self._numbers.get((account, None, ""))
        if above is None:
            above = self._add(0, account, None, "", Account())
        return self._add(above, account, job.user, "", User())

    def ancestors(self, number: int) -> Iterable[int]:
        """Yield the number of an association and of all above it, `root` last."""
        while number >= 0:
            yield number
            number = self.nodes[number].parent

    def effective(self, number: int) -> Association:
        """Return the rules of an association with what it inherits from the accounts above.

        The limits for all jobs of an association together (`grp_...`) are not inherited. See
        https://slurm.schedmd.com/resource_limits.html, "Limits in both Associations and QOS".
        """
        if number not in self._effective:
            chain = [self.nodes[each].rules for each in self.ancestors(number)]
            own = chain[0]
            inherited = {name: _first(chain, name) for name in _SINGLE}
            inherited |= {name: _merged(chain, name) for name in _TRES}
            self._effective[number] = replace(own, **inherited)
        return self._effective[number]

    def qos_of(self, job: Job, number: int) -> str:
        """Return the QOS of a job: its own, or the default of its association, or `normal`."""
        return job.qos or self.effective(number).default_qos or NORMAL

    def _add_users(self, account: str, users: Mapping[str, User]) -> None:
        above = self._numbers[account, None, ""]
        for name, user in users.items():
            self._add(above, account, name, "", user)
            for partition, own in user.partitions.items():
                self._add(above, account, name, partition, own)

    def _add(
        self, parent: int, account: str, user: str | None, partition: str, rules: Association
    ) -> int:
        number = len(self.nodes)
        self.nodes.append(Node(account, user, partition, rules, parent))
        self._numbers[account, user, partition] = number
        if parent >= 0:
            self.nodes[parent].children.append(number)
        return number

    def _set_default_accounts(self, accounts: Mapping[str, Account]) -> None:
        for name, account in accounts.items():
            for user, own in account.users.items():
                if own.default:
                    self._default_account[user] = name
                else:
                    self._default_account.setdefault(user, name)


_SINGLE = ("priority", "qos", "default_qos", "max_jobs", "max_submit_jobs", "max_wall_s")
_TRES = ("max_tres_per_job", "max_tres_per_node", "max_tres_mins_per_job")


def _first(chain: Iterable[Association], name: str) -> object:
    """Return the first value that is set."""
    values = [getattr(rules, name) for rules in chain]
    return next((value for value in values if value not in (None, "")), values[0])


def _merged(chain: Iterable[Association], name: str) -> Tres:
    """Return the first limit of each TRES that is set."""
    merged: Tres = {}
    for rules in chain:
        merged = {**getattr(rules, name), **merged}
    return merged


def _parents_first(accounts: Mapping[str, Account]) -> list[str]:
    """Return the names of all accounts but `root`, each after its parent."""
    ordered: dict[str, None] = {ROOT: None}
    for name in accounts:
        chain = [name]
        while chain[-1] not in ordered and accounts[chain[-1]].parent not in ordered:
            chain.append(accounts[chain[-1]].parent)
        ordered.update(dict.fromkeys(reversed(chain)))
    return [name for name in ordered if name != ROOT]
