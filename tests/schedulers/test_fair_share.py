"""Fair tree and classic fair-share against the examples of Slurm's documentation."""

from typing import Any

import numpy as np
import pytest

from hpcosim_schedulers.slurm.accounts import Associations
from hpcosim_schedulers.slurm.charges import ShareTree
from hpcosim_schedulers.slurm.settings import parse_site


def factors(accounts: dict[str, Any], usage: dict[str, float], rule: str, **options: Any) -> Any:
    """Return the factor of each user and account by name, for the usage of users."""
    associations = Associations(parse_site({"accounts": accounts}).accounts)
    names = [node.user or node.account for node in associations.nodes]
    totals = np.zeros(len(names))
    for name, amount in usage.items():
        for number in associations.ancestors(names.index(name)):
            totals[number] += amount
    found = getattr(ShareTree(associations), rule)(totals, **options)
    return dict(zip(names, found.tolist(), strict=True))


DOCUMENTED = {
    "root": {"users": {"root": {"shares": 0}}},
    "A": {"shares": 40},
    "D": {"shares": 60},
    "B": {"parent": "A", "shares": 30, "users": {"user1": {}}},
    "C": {"parent": "A", "shares": 10, "users": {"user2": {}, "user3": {}}},
    "E": {"parent": "D", "shares": 25, "users": {"user4": {}}},
    "F": {"parent": "D", "shares": 35, "users": {"user5": {}}},
}
USED = {"user1": 0.2, "user2": 0.25, "user4": 0.25, "root": 0.3}


def test_classic_factors_are_those_of_the_documentation() -> None:
    """The example of https://slurm.schedmd.com/classic_fair_share.html, to its six decimals."""
    found = factors(DOCUMENTED, USED, "classic")
    expected = {
        "user1": 0.408479,
        "user2": 0.022097,
        "user3": 0.125,
        "user4": 0.5,
        "user5": 0.749154,
    }
    assert {name: round(found[name], 6) for name in expected} == expected


def test_dampening_moves_classic_factors_towards_one() -> None:
    """FairShareDampeningFactor 2 takes the square root of the factor."""
    plain, damped = (factors(DOCUMENTED, USED, "classic", dampening=d) for d in (1, 2))
    assert damped["user1"] == pytest.approx(plain["user1"] ** 0.5)


def test_depth_oblivious_factors_do_not_depend_on_the_depth() -> None:
    """A chain of accounts with one child each gives the factor of its top."""
    flat = {"a": {"shares": 1, "users": {"u": {}}}, "b": {"shares": 1, "users": {"v": {}}}}
    deep = {
        "a": {"shares": 1},
        "a1": {"parent": "a"},
        "a2": {"parent": "a1", "users": {"u": {}}},
        "b": {"shares": 1, "users": {"v": {}}},
    }
    used = {"u": 3.0, "v": 1.0}
    found = [factors(each, used, "classic", depth_oblivious=True)["u"] for each in (flat, deep)]
    assert found[0] == pytest.approx(found[1])


def test_users_of_a_better_account_rank_before_those_of_another() -> None:
    """Fair tree: every user of the account with the greater level fair-share is ahead."""
    accounts = {
        "a": {"shares": 3, "users": {"u": {}, "v": {}}},
        "b": {"shares": 1, "users": {"w": {}, "x": {}}},
    }
    found = factors(accounts, {"u": 9.0, "v": 1.0, "w": 9.0, "x": 8.0}, "fair_tree")
    assert [found[name] * 5 for name in ("root", "v", "u", "x", "w")] == [5, 4, 3, 2, 1]


def test_users_that_tie_have_the_same_rank() -> None:
    """Sibling users with the same level fair-share get the factor of the first of them."""
    accounts: dict[str, Any] = {"a": {"users": {"u": {}, "v": {}, "w": {}}}}
    found = factors(accounts, {"u": 5.0, "v": 1.0, "w": 1.0}, "fair_tree")
    assert [found[name] * 4 for name in ("root", "v", "w", "u")] == [4, 3, 3, 1]


def test_accounts_that_tie_are_merged() -> None:
    """The children of accounts with the same level fair-share are ranked together."""
    accounts = {
        "a": {"shares": 1, "users": {"u": {}, "v": {}}},
        "b": {"shares": 1, "users": {"w": {}, "x": {}}},
    }
    found = factors(accounts, {"u": 9.0, "v": 1.0, "w": 6.0, "x": 4.0}, "fair_tree")
    assert [found[name] * 5 for name in ("v", "x", "w", "u")] == [4, 3, 2, 1]


def test_a_user_that_ties_with_an_account_ranks_with_its_best_user() -> None:
    """The user and the highest ranked user of the account share a rank."""
    accounts = {
        "a": {"users": {"u": {"shares": 1}}},
        "b": {"parent": "a", "shares": 1, "users": {"v": {}, "w": {}}},
    }
    found = factors(accounts, {"u": 4.0, "v": 3.0, "w": 1.0}, "fair_tree")
    assert [found[name] * 4 for name in ("root", "u", "w", "v")] == [4, 3, 3, 1]


def test_children_of_an_account_without_own_shares_compete_above_it() -> None:
    """Fairshare=parent on an account: its users are compared with the account's siblings."""
    accounts = {
        "group": {"shares": "parent", "users": {"u": {"shares": 1}, "v": {"shares": 1}}},
        "other": {"shares": 1, "users": {"w": {}}},
    }
    found = factors(accounts, {"u": 1.0, "v": 6.0, "w": 3.0}, "fair_tree")
    assert [found[name] * 4 for name in ("root", "u", "w", "v")] == [4, 3, 2, 1]


def test_a_user_without_own_shares_has_the_classic_factor_of_the_account() -> None:
    """Fairshare=parent on a user: the factor of the account."""
    accounts = {"a": {"shares": 1, "users": {"u": {"shares": "parent"}}}, "b": {"shares": 1}}
    found = factors(accounts, {"u": 1.0}, "classic")
    assert found["u"] == found["a"]


@pytest.mark.parametrize("seed", range(20))
def test_fair_tree_is_the_walk_of_the_documentation(seed: int) -> None:
    """Random trees with ties rank users as the recursive algorithm of fair_tree.html does."""
    rng = np.random.default_rng(seed)
    accounts: dict[str, Any] = {}
    for number in range(int(rng.integers(1, 9))):
        names = [f"u{number}.{each}" for each in range(int(rng.integers(0, 4)))]
        users: dict[str, Any] = {name: {} for name in names}
        above = ["root", *accounts][int(rng.integers(0, number + 1))]
        accounts[f"a{number}"] = {"parent": above, "shares": 1, "users": users}
    associations = Associations(parse_site({"accounts": accounts}).accounts)
    totals = np.zeros(len(associations.nodes))
    for number, node in enumerate(associations.nodes):
        if node.user:
            amount = float(rng.integers(0, 3))
            totals[list(associations.ancestors(number))] += amount
    tree = ShareTree(associations)
    assert tree.fair_tree(totals).tolist() == _walk(associations, totals)


def _walk(associations: Associations, totals: Any) -> list[float]:
    """Rank users by recursion, one after the other."""
    nodes = associations.nodes
    factor = [0.0] * len(nodes)
    users = sum(node.user is not None for node in nodes)
    state = {"rank": users, "next": users}

    def level(number: int) -> float:
        siblings = nodes[nodes[number].parent].children
        share = 1.0 / len(siblings)  # all have one share
        above = totals[nodes[number].parent]
        return float("inf") if not totals[number] else share / (totals[number] / above)

    def visit(group: list[int], tied: bool) -> None:
        group = sorted(group, key=lambda each: (-level(each), nodes[each].user is None))
        before = None
        while group:
            number = group.pop(0)
            ties = tied if before is None else level(number) == before
            before = level(number)
            if nodes[number].user is not None:
                if not ties:
                    state["rank"] = state["next"]
                factor[number] = state["rank"] / users
                state["next"] -= 1
                continue
            merged = list(nodes[number].children)
            while group and level(group[0]) == before:
                merged += nodes[group.pop(0)].children
            visit(merged, ties)

    visit(nodes[0].children, False)
    return factor
