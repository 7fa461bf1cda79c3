"""Fair-share factors from shares and usage: the fair tree and the classic algorithm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hpcosim_client.job import Bools, Floats, Ints
from hpcosim_schedulers.slurm.associations import Associations

DEPTH_WEIGHT = 5.0
"""Constant of the depth-oblivious rule: how much an unbalanced parent level damps a lower one."""


class ShareTree:
    """The shares of all associations as arrays, in the order of their numbers.

    An association whose shares are `parent` does not compete: an account's children compete at the
    level above it; a user has the factor of the account in the classic algorithm, and ranks first
    in the account with fair tree.

    Args:
        associations: the associations. Those added later need a new `ShareTree`.

    Attributes:
        parent: int64[n], number of the association at whose level each one competes; -1: `root`.
        above: int64[n], number of the account above; -1: none.
        shares: float64[n]; 0 where they are `parent`.
        competes: bool[n], whether the association has shares of its own.
        is_user: bool[n].
    """

    def __init__(self, associations: Associations) -> None:
        nodes = associations.nodes
        self.competes: Bools = np.array([node.rules.shares != "parent" for node in nodes])
        self.competes[0] = True
        self.is_user: Bools = np.array([node.user is not None for node in nodes])
        self.shares: Floats = np.array(
            [0.0 if node.rules.shares == "parent" else float(node.rules.shares) for node in nodes]
        )
        self.above: Ints = np.array([node.parent for node in nodes], dtype=np.int64)
        self.parent = self.above.copy()
        for number in range(1, len(nodes)):  # parents have lower numbers than their children
            above = int(self.parent[number])
            if not self.competes[above]:
                self.parent[number] = self.parent[above]
        level_shares = np.bincount(self.parent[1:], self.shares[1:], len(nodes))
        self._share_of_level = np.zeros(len(nodes))
        level = level_shares[self.parent[1:]]
        np.divide(self.shares[1:], level, out=self._share_of_level[1:], where=level > 0)
        self._user: list[bool] = self.is_user.tolist()
        self._children: list[list[int]] = [[] for _ in nodes]
        for number, parent in enumerate(self.parent.tolist()):
            if number and (self.competes[number] or self.is_user[number]):
                self._children[parent].append(number)

    def level_fair_share(self, totals: Floats) -> Floats:
        """Return the level fair-share of each association, float64[n].

        LF = S / U with S the share and U the share of the usage among the siblings; infinity
        without usage, 0 without shares (https://slurm.schedmd.com/fair_tree.html, "Level Fairshare
        Calculation").

        Args:
            totals: float64[n], usage of each association with all below it.
        """
        above = totals[np.maximum(self.parent, 0)]
        usage = np.zeros(len(totals))
        np.divide(totals, above, out=usage, where=above > 0)
        level = np.full(len(totals), math.inf)
        np.divide(self._share_of_level, usage, out=level, where=usage > 0)
        level[self._share_of_level == 0] = 0.0
        level[~self.competes] = math.inf
        return level

    def fair_tree(self, totals: Floats) -> Floats:
        """Return the fair-share factor of each user, float64[n], 0 to 1; 0 for accounts.

        Users are ranked by a walk of the tree in descending order of the level fair-share. The
        factor is the rank divided by the number of users. Siblings that tie have the same rank;
        accounts that tie are merged; a user that ties with an account ranks with its best user
        (https://slurm.schedmd.com/fair_tree.html, "Algorithm" and "Ties").

        Args:
            totals: float64[n], usage of each association with all below it.
        """
        level = self.level_fair_share(totals).tolist()
        users = int(self.is_user.sum())
        factors = [0.0] * len(level)
        left = rank = users  # `left`: the rank that the next user has without a tie

        # Siblings still to visit, the next ones last, and whether the first ties with the user
        # before it.
        todo: list[tuple[bool, list[int]]] = [(False, self._competitors([0]))]
        while todo:
            tied, group = todo.pop()
            ties: dict[float, list[int]] = {}
            for number in group:
                ties.setdefault(level[number], []).append(number)
            visits: list[tuple[bool, list[int]]] = []
            for value in sorted(ties, reverse=True):
                visits.append((tied, ties[value]))
                tied = False
            if len(visits) > 1 and any(not self._user[number] for number in group):
                todo += [(False, each) for _, each in reversed(visits[1:])]
                visits = visits[:1]
            for tied, members in visits:
                of_users = [number for number in members if self._user[number]]
                accounts = [number for number in members if not self._user[number]]
                if of_users:
                    rank = rank if tied else left
                    left -= len(of_users)
                for number in of_users:
                    factors[number] = rank / users
                if accounts:
                    todo.append((tied or bool(of_users), self._competitors(accounts)))
        return np.array(factors)

    def classic(
        self, totals: Floats, dampening: int = 1, *, depth_oblivious: bool = False
    ) -> Floats:
        """Return the classic fair-share factor of each association, float64[n], 0 to 1.

        F = 2**(-U_E / S / d) with the effective usage U_E
        (https://slurm.schedmd.com/classic_fair_share.html). Slurm uses it with the priority flag
        `no_fair_tree`.

        Args:
            totals: float64[n], usage of each association with all below it.
            dampening: d, FairShareDampeningFactor.
            depth_oblivious: priority flag `depth_oblivious`.
        """
        n = len(totals)
        used = totals / totals[0] if totals[0] > 0 else np.zeros(n)
        shares, effective = np.ones(n), np.ones(n)
        level_used = np.bincount(self.parent[1:], (used * self.competes)[1:], n)
        for number in range(1, n):
            above = int(self.parent[number])
            if not self.competes[number]:
                shares[number], effective[number] = shares[above], effective[above]
                continue
            of_level = self._share_of_level[number]
            shares[number] = of_level * shares[above]
            own = used[number]
            if above == 0:
                effective[number] = own
            elif depth_oblivious:
                ratio = _ratio(own, level_used[above], of_level, effective[above], shares[above])
                effective[number] = ratio * shares[number] if ratio else own
            else:
                effective[number] = own + (effective[above] - own) * of_level
        exponent = np.full(n, math.inf)
        np.divide(effective, shares * dampening, out=exponent, where=shares > 0)
        factors: Floats = np.exp2(-exponent)
        return factors

    def _competitors(self, accounts: Sequence[int]) -> list[int]:
        """Return the users and accounts that compete below the given accounts."""
        return [number for each in accounts for number in self._children[each]]


def _ratio(
    used: float, level_used: float, of_level: float, effective: float, shares: float
) -> float:
    """Return usage divided by shares of an association without regard to its depth; 0: none.

    R = R_p * r**k: R_p is the ratio of the parent and r that of the association among its siblings.
    k tends to 0 if both differ from 1 in opposite directions, so that a level far from balance
    counts more than those below it (slurm.conf(5), PriorityFlags, DEPTH_OBLIVIOUS).

    Args:
        used: share of the cluster's usage.
        level_used: share of the cluster's usage of all siblings.
        of_level: share among the siblings.
        effective: effective usage of the parent.
        shares: normalised shares of the parent.
    """
    if not (used and level_used and of_level and effective and shares):
        return 0.0
    parent, own = effective / shares, (used / of_level) / level_used
    opposite = math.log(parent) * math.log(own)
    exponent = 1.0 if opposite >= 0 else 1.0 / (1.0 + (DEPTH_WEIGHT * math.log(parent)) ** 2)
    return float(parent * own**exponent)
