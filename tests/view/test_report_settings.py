"""Settings in which compared runs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpcosim_view.errors import ReportError
from hpcosim_view.report import different_settings
from support.simulating import cluster_of

ABOUT = {
    "scenario": "small",
    "scheduler": "easy",
    "seed": 1,
    "complete": True,
    "platform": msgspec.to_builtins(cluster_of(1)),
    "protocol": 1,
    "hpcosim": "0.1",
}


def _difference(tmp_path: Path, one: dict[str, Any], other: dict[str, Any], *checksums: str) -> str:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, scenario, checksum in zip(
        folders, (one, other), checksums or ("", ""), strict=True
    ):
        folder.mkdir()
        about = ABOUT | {
            "effective_scenario": scenario,
            "workload_source": {"sha256": checksum or None},
        }
        (folder / "run.json").write_text(json.dumps(about))
    text = "".join(different_settings(folders, ["A", "B"]))
    return text.removeprefix("The runs A and B have different settings: ").removesuffix(".")


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        ({"economics": None}, {"economics": {"pue": 1.2}}, "economics.pue: not set and 1.2"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, "a[0].b: 1 and 2"),
        ({"a": [1]}, {"a": [1, 2]}, "a: [1] and [1, 2]"),
        ({"name": "x", "scheduler": {"name": "easy"}, "a": 1}, {"name": "y", "a": 1}, ""),
        ({}, {"a": 1}, ""),
    ],
)
def test_the_text_has_path_and_both_values(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], text: str
) -> None:
    """Name and scheduler may differ; a run without recorded settings counts as equal."""
    found = _difference(tmp_path, one, other)
    assert found.startswith(text) if text else found == ""


def test_ten_settings_are_named_and_the_others_counted(tmp_path: Path) -> None:
    """The text stays short."""
    one, other = ({f"a{at}": at + value for at in range(13)} for value in (0, 1))
    found = _difference(tmp_path, one, other)
    assert found.count(" and ") == 10
    assert found.endswith("; 3 more settings")


def test_logs_are_compared_by_content(tmp_path: Path) -> None:
    """Equal logs may have different paths; different logs may have equal ones."""
    (tmp_path / "equal").mkdir()
    (tmp_path / "changed").mkdir()
    here, there = {"workload": {"swf": "a.swf"}}, {"workload": {"swf": "b.swf"}}
    assert _difference(tmp_path / "equal", here, there, "1f", "1f") == ""
    assert (
        _difference(tmp_path / "changed", here, here, "1f", "2e")
        == "workload_source.sha256: 1f and 2e"
    )


def test_settings_that_are_nested_too_deeply_are_an_error(tmp_path: Path) -> None:
    """The error names the file."""
    one: dict[str, Any] = {"a": 0}
    other: dict[str, Any] = {"a": 1}
    for _ in range(400):
        one, other = {"a": one}, {"a": other}
    with pytest.raises(ReportError, match=r"other/run.json: damaged: too many levels"):
        _difference(tmp_path, one, other)
