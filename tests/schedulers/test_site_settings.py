"""The settings of a site: what is accepted, and messages with paths."""

from typing import Any

import pytest

from hpcosim_schedulers.slurm.settings import SiteSettingsError, parse_site


def test_defaults_are_those_of_slurm() -> None:
    """Without settings, all weights are 0 and the periods are those of slurm.conf."""
    site = parse_site({})
    assert site.priority.weight_fair_share == 0
    assert site.priority.decay_half_life_s == 7 * 86_400
    assert (site.scheduler.bf_interval_s, site.scheduler.sched_interval_s) == (30.0, 60.0)


def test_users_in_accounts_have_shares_and_limits() -> None:
    """Nested mappings become accounts, users and limits."""
    users = {"bob": {"shares": 2, "max_jobs": 3, "grp_tres": {"cpu": 4, "gres/gpu:a100": 1}}}
    site = parse_site({"accounts": {"physics": {"shares": "parent", "users": users}}})
    bob = site.accounts["physics"].users["bob"]
    assert (bob.shares, bob.max_jobs, bob.grp_tres["gres/gpu:a100"]) == (2, 3, 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"accounts": {"a": {"users": {"bob": {"max_job": 1}}}}},
            "accounts.a.users.bob.max_job: unknown setting; did you mean 'max_jobs'? bob takes ",
        ),
        (
            {"accounts": {"a": {"shares": -1}}},
            "accounts.a.shares: expected an integer >= 0, got -1",
        ),
        (
            {"accounts": {"a": {"shares": "half"}}},
            "accounts.a.shares: expected an integer >= 0 or one of 'parent', got \"half\"",
        ),
        (
            {"qos": {"q": {"grp_tres": {"gpu": 2}}}},
            "qos.q.grp_tres: expected a TRES: cpu, mem (MB), node, billing, gres/NAME, ",
        ),
        ({"qos": {"q": {"grp_tres": {"cpu": -2}}}}, "qos.q.grp_tres.cpu: expected a number >= 0"),
        ({"qos": {"q": {"max_wall_s": "1:00"}}}, "qos.q.max_wall_s: expected a number or null"),
        ({"qos": {"q": 3}}, "qos.q: expected a mapping, got 3"),
        ({"accounts": {"": {}}}, 'accounts: expected names of 1 to 200 characters; got ""'),
        ({"accounts": []}, "accounts: expected a mapping, got []"),
        ({"prio": {}}, "prio: unknown setting; did you mean 'priority'? scheduler.settings takes "),
        (
            {"priority": {"flags": ["depth_oblivious", "fast"]}},
            "priority.flags[1]: expected one of 'accrue_always', ",
        ),
        (
            {"accounts": {"a": {"qos": "normal"}}},
            'accounts.a.qos: expected a list, got "normal"',
        ),
        (
            {"accounts": {"a": {"parent": "physic"}, "physics": {}}},
            "accounts.a.parent: there is no account 'physic'; did you mean 'physics'? expected ",
        ),
        (
            {"accounts": {"a": {"parent": "b"}, "b": {"parent": "a"}}},
            "accounts.a.parent: the accounts have no end: a -> b -> a; expected one with parent ",
        ),
        ({"accounts": {"root": {"parent": "a"}, "a": {}}}, "accounts.root.parent: the account "),
        ({"qos": {"a": {"preempt": ["b"]}}}, "qos.a.preempt: there is no QOS 'b'; expected "),
        (
            {"accounts": {"a": {"users": {"u": {"default_qos": "fast"}}}}},
            "accounts.a.users.u.default_qos: there is no QOS 'fast'",
        ),
        (
            {"priority": {"start_time": "2026-11-22T08:00:00Z"}},
            "priority.start_time: expected a date and time such as 2026-11-22T08:00:00, without ",
        ),
    ],
)
def test_wrong_settings_are_named_with_their_path(settings: dict[str, Any], message: str) -> None:
    """A message has the whole path, what was expected and what was found."""
    with pytest.raises(SiteSettingsError) as error:
        parse_site(settings)
    assert str(error.value).startswith(message)


def test_a_long_chain_of_accounts_is_accepted() -> None:
    """The depth of accounts is not limited by recursion."""
    chain = {f"a{n}": {"parent": f"a{n - 1}"} if n else {} for n in range(3000)}
    assert len(parse_site({"accounts": dict(reversed(chain.items()))}).accounts) == 3000
