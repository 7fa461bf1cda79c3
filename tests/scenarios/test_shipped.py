"""The scenarios that come with hpcosim, found by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.shipped import describe_scenario, find_scenario, shipped_scenarios


@pytest.mark.parametrize("name", shipped_scenarios())
def test_each_is_a_scenario(name: str) -> None:
    """It is valid, and its first comment describes it."""
    path = shipped_scenarios()[name]
    load_scenario(path)
    assert describe_scenario(path)


def test_names_are_those_of_files() -> None:
    """Scenarios of papers are named by the paper's folder, too."""
    assert {"demo", "ineps/exp3", "deep_eas/lambda_0.9"} <= set(shipped_scenarios())


def test_an_existing_file_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file called like a shipped scenario is read itself."""
    (tmp_path / "demo").touch()
    monkeypatch.chdir(tmp_path)
    assert find_scenario("demo") == Path("demo")


def test_an_unknown_name_is_a_path() -> None:
    """Reading it reports what is missing."""
    assert find_scenario("no-such-scenario") == Path("no-such-scenario")


def test_a_description_is_one_line(tmp_path: Path) -> None:
    """It is the first sentence of the comment at the top, its lines joined."""
    path = tmp_path / "a.yaml"
    path.write_text("# One, fig. 3:\n# line. Two.\nname: a  # no\n# neither\n")
    assert describe_scenario(path) == "One, fig. 3: line."
