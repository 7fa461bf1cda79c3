"""The summaries of schedulers, rules, groups and power managers."""

from __future__ import annotations

import pytest

from hpcosim_schedulers.catalogue import schedulers, summaries
from hpcosim_schedulers.catalogue.summaries import power_settings
from hpcosim_schedulers.heuristics.job_node import JOB_ORDERS, NODE_KEYS, parse_job_node
from hpcosim_schedulers.heuristics.minmin import KEYS
from hpcosim_schedulers.power.settings import NAMES


@pytest.mark.parametrize("name", schedulers.scheduler_names())
def test_every_scheduler_has_a_summary(name: str) -> None:
    """Under its name or under a pattern."""
    rule, _, mode = name.partition("-")
    pattern = f"RULE-{mode}" if rule in KEYS and mode else name
    if name in schedulers.BY_RULE:
        pattern = "easy-ORDER"
    assert pattern in summaries.all_schedulers() or parse_job_node(name) is not None


def test_rules_groups_and_managers_have_summaries() -> None:
    """All of them, and no others."""
    assert set(summaries.JOB_RULES) == set(JOB_ORDERS)
    assert set(summaries.NODE_RULES) == set(NODE_KEYS)
    assert set(summaries.GROUPS) == set(schedulers.GROUPS)
    assert tuple(summaries.POWER_MANAGERS) == NAMES


def test_settings_of_a_manager_have_their_defaults() -> None:
    """Or are required."""
    assert power_settings("keep-idle") == {"warm": "required", "timeout_s": 0.0}
    assert power_settings("always-on") == {}
