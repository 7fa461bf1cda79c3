"""Warnings about names of accounts and QOS in the settings of a scheduler that are probably wrong.

Only the client validates these settings; what has another form than expected is passed over here.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_workloads.table import JobTable

ALWAYS = "normal"  # the QOS that exists even if it is not named
ROOT = "root"
MOST_NAMED = 5


def site_warnings(scenario: Scenario, jobs: JobTable) -> list[str]:
    """Return warnings about accounts that nothing uses and QOS of partitions that do not exist.

    Args:
        scenario: the scenario after overrides.
        jobs: the jobs of the run.
    """
    settings = scenario.scheduler.settings
    if not settings:
        return []
    return [
        *_unused_accounts(_mapping(settings, "accounts"), jobs),
        *_unknown_qos(scenario, _mapping(settings, "qos")),
    ]


def _unused_accounts(accounts: Mapping[str, Any], jobs: JobTable) -> Iterator[str]:
    """Yield a warning for the accounts without users, accounts below and jobs."""
    parents = {_mapping(accounts, name).get("parent", ROOT) for name in accounts}
    used = {jobs.names["account"][code] for code in set(jobs.account.tolist())}
    idle = [
        name
        for name in accounts
        if not _mapping(_mapping(accounts, name), "users")
        and name not in parents
        and name not in used
        and name != ROOT
    ]
    if idle:
        others = [name for name in accounts if name not in idle] + sorted(used - {""})
        what = "an account has" if len(idle) == 1 else f"{len(idle)} accounts have"
        yield f"scheduler.settings.accounts: {what} neither users nor jobs: {_few(idle, others)}"


def _unknown_qos(scenario: Scenario, described: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each partition that names QOS without settings."""
    known = (ALWAYS, *described)
    for partition in scenario.platform.partitions:
        own = (partition.qos, *partition.allow_qos, *partition.deny_qos)
        unknown = [name for name in dict.fromkeys(own) if name and name not in known]
        if unknown:
            yield (
                f"the partition {partition.name} names QOS that scheduler.settings.qos lacks, so "
                f"that they have no limits: {_few(unknown, known)}"
            )


def _few(names: Collection[str], known: Collection[str]) -> str:
    """Return some of the names, each with the one that is probably meant."""
    texts = []
    for name in list(names)[:MOST_NAMED]:
        near = difflib.get_close_matches(name, known, n=1)
        texts.append(f"{name!r}{f' (did you mean {near[0]!r}?)' if near else ''}")
    return ", ".join(texts) + (", ..." if len(names) > MOST_NAMED else "")


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}
