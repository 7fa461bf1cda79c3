"""Messages about misspelt keys of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario

SCENARIO = """name: x
platform:
  nodes:
    - count: 4
      processors:
        - {cores: 2, clock_ghz: 2, static_w: 10, dynamic_w: 0}
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 1, run_s: 5, requested_s: 9}
"""


def message(path: Path, text: str, overrides: dict[str, Any] | None = None) -> str:
    """Return the message of a scenario that is invalid."""
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path, overrides)
    return str(caught.value).removeprefix(f"{path}:")


@pytest.mark.parametrize(
    ("key", "wrong", "where"),
    [
        ("cores: 2", "core: 2", "6: platform.nodes[0].processors[0]"),
        ("clock_ghz", "speed", "6: platform.nodes[0].processors[0]"),
        ("submit_s", "subtime", "9: workload.inline[0]"),
        ("requested_s", "walltime", "9: workload.inline[0]"),
        ("run_s", "runtime", "9: workload.inline[0]"),
        ("cores: 1", "res: 1", "9: workload.inline[0]"),
        ("workload", "jobs", "7"),
    ],
)
def test_a_misspelt_key_is_named_with_the_key_of_its_mapping(
    tmp_path: Path, key: str, wrong: str, where: str
) -> None:
    """The suggestion is a key of the same mapping, also if the misspelt key is required."""
    found = message(tmp_path / "a.yaml", SCENARIO.replace(key, wrong))
    key, wrong = key.partition(":")[0], wrong.partition(":")[0]
    assert found.partition(": ")[0] == where.partition(":")[0]
    assert f"unknown key {wrong!r}; did you mean {key!r}?" in found
    assert where.partition(": ")[2] in found


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ("jobs: 5", "the key `model` is missing"),
        ("modl: lublin, jobs: 5", "unknown key 'modl'; did you mean 'model'?"),
        ("model: lublin, job: 5", "unknown key 'job'; did you mean 'jobs'?"),
    ],
)
def test_keys_of_a_model_are_those_of_the_model(tmp_path: Path, model: str, what: str) -> None:
    """Without the name of the model, the keys of all models are known."""
    text = f"{SCENARIO.partition('workload')[0]}workload:\n  synthetic: {{{model}}}\n"
    assert message(tmp_path / "a.yaml", text).endswith(f": workload.synthetic: {what}")


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [("load", "workload.load"), ("workload.processors", "workload.synthetic.processors")],
)
def test_an_override_without_its_section_is_suggested_with_it(
    tmp_path: Path, path: str, suggestion: str
) -> None:
    """A key of a mapping below is suggested with its path."""
    found = message(tmp_path / "a.yaml", SCENARIO, {path: 2})
    assert found.endswith(f"did you mean {suggestion}?")


@pytest.mark.parametrize(
    ("before", "line", "what"),
    [
        (
            "  inline:",
            "  kill_at_walltime: true",
            ":8: workload: unknown key 'kill_at_walltime'; "
            "kill_at_walltime is a key of the top level",
        ),
        ("      processors:", "      partitions: []", "partitions is a key of platform"),
        ("workload:", "load: 2", ":7: unknown key 'load'; did you mean workload.load?"),
        ("    - count: 4", "    - {tariff: x.csv}", "tariff is a key of economics"),
    ],
)
def test_a_key_of_another_mapping_is_named_with_it(
    tmp_path: Path, before: str, line: str, what: str
) -> None:
    """The message says where the key belongs."""
    found = message(tmp_path / "a.yaml", SCENARIO.replace(before, f"{line}\n{before}", 1))
    assert what.lstrip(":") in found


def test_an_override_of_a_key_of_another_mapping_is_named_with_it(tmp_path: Path) -> None:
    """As in a file."""
    found = message(tmp_path / "a.yaml", SCENARIO, {"workload.kill_at_walltime": True})
    assert found.endswith("kill_at_walltime is a key of the top level")


def test_a_setting_of_a_power_manager_without_its_name_names_the_override(tmp_path: Path) -> None:
    """The message names the override to add, and no line of the file."""
    found = message(tmp_path / "a.yaml", SCENARIO, {"scheduler.power.timeout_s": 900})
    assert found == "override scheduler.power.timeout_s: also set scheduler.power.name"
