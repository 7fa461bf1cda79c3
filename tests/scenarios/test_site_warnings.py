"""Warnings about names in the settings of a site that are probably wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcosim_scenarios.running.library import Library, scenario_warnings
from support.commands import invoke

SITE = """
name: site
platform:
  nodes:
  - {names: "n[1-4]", count: 4, processors: [{cores: 4, static_w: 20, dynamic_w: 5}]}
  partitions:
  - {name: cpu, nodes: "n[1-4]", default: true, qos: long}
workload:
  inline:
  - {job_id: 1, submit_s: 0, cores: 1, run_s: 60, requested_s: 60, user: ada, account: bio}
scheduler:
  name: multifactor
  settings:
    qos: {long: {max_jobs_per_user: 1}}
    accounts:
      root: {max_jobs: 100}
      physics: {shares: 2}
      theory: {parent: physics, users: {bob: {}}}
      bio: {shares: 1}
"""


def found(tmp_path: Path, **changes: Any) -> list[str]:
    """Return the warnings about the site with other values, by dotted path."""
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    own = {name.replace("__", "."): value for name, value in changes.items()}
    return scenario_warnings(Library([path], own).default)


def test_a_consistent_site_has_no_warnings(tmp_path: Path) -> None:
    """An account is used by its users, by accounts below or by jobs."""
    assert found(tmp_path) == []


def test_an_account_that_an_override_invents_gives_a_warning(tmp_path: Path) -> None:
    """It has neither users nor jobs."""
    assert found(tmp_path, scheduler__settings__accounts__bioo__max_jobs=5) == [
        "scheduler.settings.accounts: an account has neither users nor jobs: 'bioo' (did you mean "
        "'bio'?)"
    ]


def test_a_partition_with_an_unknown_qos_gives_a_warning(tmp_path: Path) -> None:
    """With the name that is probably meant; `normal` always exists."""
    (warning,) = found(tmp_path, platform__partitions__0__qos="logn")
    assert "the partition cpu names QOS that scheduler.settings.qos lacks" in warning
    assert warning.endswith("'logn' (did you mean 'long'?)")
    assert found(tmp_path, platform__partitions__0__qos="normal") == []


def test_a_scenario_without_settings_has_no_warnings(tmp_path: Path) -> None:
    """Other schedulers do not read the QOS of partitions."""
    changes = {"scheduler__settings": {}, "scheduler__name": "easy"}
    assert found(tmp_path, platform__partitions__0__qos="logn", **changes) == []


@pytest.mark.parametrize("settings", [{"accounts": [1]}, {"accounts": {"a": 3}, "qos": 1}])
def test_settings_of_another_form_are_left_to_the_client(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Only the client knows what is valid."""
    assert isinstance(found(tmp_path, scheduler__settings=settings), list)


def test_the_commands_print_the_warning(tmp_path: Path) -> None:
    """Each of them once."""
    found(tmp_path)
    change = ["--set", "scheduler.settings.accounts.bioo.max_jobs=5"]
    path, out = str(tmp_path / "site.yaml"), str(tmp_path / "out")
    for command in (
        ["validate", path],
        ["run", path, "--transport", "inproc", "--out", out],
        ["compare", path, "--schedulers", "multifactor,easy", "--transport", "inproc"],
    ):
        result = invoke(*command, *change)
        assert result.status == 0, result.err
        assert result.err.count("neither users nor jobs: 'bioo'") == 1
