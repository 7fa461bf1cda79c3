"""Files that would hang a reader or fill the memory: each is an error in one line, at once."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from hpcosim_batsim.inputs.external_events import read_external_events
from hpcosim_batsim.inputs.json_fields import read_json
from hpcosim_batsim.inputs.xml_tree import read_xml
from hpcosim_client.errors import PolicyError
from hpcosim_protocol.files import open_regular, read_regular
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model import yaml_tree
from hpcosim_scenarios.model.yaml_tree import read_tree
from hpcosim_schedulers.heuristics.recorded import read_recorded
from hpcosim_schedulers.heuristics.scripted import read_schedule
from hpcosim_schedulers.power.adaptive import load_rule
from hpcosim_schedulers.power.oracle import read_plan
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs import log_file
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.series import read_series

READERS: tuple[Callable[[Path], object], ...] = (
    lambda path: read_tree(path, "scenario"),
    read_swf,
    read_series,
    read_json,
    read_xml,
    lambda path: read_external_events([path], 1, forward_unknown=False),
    read_recorded,
    read_schedule,
    load_rule,
    read_plan,
)


@pytest.mark.parametrize("reader", READERS, ids=range(len(READERS)))
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_read(
    reader: Callable[[Path], object], kind: str, tmp_path: Path
) -> None:
    """A pipe without a writer, an endless device and a folder are errors of the package."""
    path = tmp_path / "file.txt"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(Exception, match="file") as raised:
        reader(path)
    assert type(raised.value).__module__.startswith("hpcosim_")


def test_size_of_a_file_is_bounded(tmp_path: Path) -> None:
    """A file beyond the bound is refused before it is read; one at the bound is read."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_regular(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="larger than"):
        open_regular(path, 9)


@pytest.mark.parametrize("zipped", [False, True])
def test_long_line_is_refused(
    zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line without an end is refused at the bound, before it is decompressed."""
    monkeypatch.setattr(log_file, "MOST_LINE_BYTES", 1000)
    path = tmp_path / "log.swf"
    data = b"; header\n" + b"1" * 10_000_000
    path.write_bytes(gzip.compress(data) if zipped else data)
    with pytest.raises(WorkloadError, match=r"log\.swf:2: expected lines of at most 1000 bytes"):
        read_swf(path)


def test_decompressed_size_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short lines without end are refused at the bound of the whole file."""
    monkeypatch.setattr(log_file, "MOST_BYTES", 1_000_000)
    path = tmp_path / "log.swf"
    path.write_bytes(gzip.compress(b";\n" * 5_000_000))
    with pytest.raises(WorkloadError, match="expected at most 1000000 bytes in all"):
        read_swf(path)


def bomb(line: str, levels: int = 9) -> str:
    """Return YAML whose aliases expand tenfold with each level."""
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, levels):
        inner = ", ".join(f"*a{level - 1}" for _ in range(10))
        lines.append(line.format(level=level, inner=inner))
    return "\n".join(lines)


@pytest.mark.parametrize(
    "line", ["a{level}: &a{level} [{inner}]", "a{level}: &a{level} {{<<: [{inner}]}}"]
)
def test_aliases_and_merge_keys_are_counted(line: str, tmp_path: Path) -> None:
    """A kilobyte that expands to a billion values is refused; a small one is read."""
    path = tmp_path / "bomb.yaml"
    path.write_text(bomb(line))
    with pytest.raises(ScenarioError, match=r"bomb\.yaml:\d+: .*aliases expand it to more than"):
        read_tree(path, "scenario")
    path.write_text(bomb(line, 3))
    assert read_tree(path, "scenario")["a0"] == {"x": 1}


def test_expanded_size_counts_each_use_of_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every use of an alias counts as what it names: 11 values here, and the bound is exact."""
    text = "a: &a [1, 2]\nb: [*a, *a]"  # the mapping, 2 keys, 1 + 2, 1 + 2 * 3
    monkeypatch.setattr(yaml_tree, "MOST_NODES", 13)
    assert yaml_tree.parse_yaml(text) == {"a": [1, 2], "b": [[1, 2], [1, 2]]}
    monkeypatch.setattr(yaml_tree, "MOST_NODES", 12)
    with pytest.raises(yaml_tree.ExpansionError):
        yaml_tree.parse_yaml(text)


def test_alias_of_what_it_is_in(tmp_path: Path) -> None:
    """A list that contains itself is refused."""
    path = tmp_path / "cycle.yaml"
    path.write_text("a: &a [1, *a]")
    with pytest.raises(ScenarioError, match="an alias names a list or mapping that it is in"):
        read_tree(path, "scenario")


def test_learned_rule_with_wrong_metadata(tmp_path: Path) -> None:
    """A rule whose metadata is no number is an error of the client."""
    np = pytest.importorskip("numpy")
    save_file = pytest.importorskip("safetensors.numpy").save_file
    from hpcosim_schedulers.power import adaptive

    path = tmp_path / "rule.safetensors"
    weights = {"weights": np.zeros((3, adaptive.FEATURES))}
    for said in ("noon", "nan"):
        save_file(weights, path, {adaptive.FORMAT: said})
        with pytest.raises(PolicyError, match="expected a finite time"):
            load_rule(path)


@pytest.mark.slow
def test_network_with_wrong_settings(tmp_path: Path) -> None:
    """Metadata of a wrong type, too deep, or of no network is an error of the client."""
    np = pytest.importorskip("numpy")
    pytest.importorskip("safetensors")
    from hpcosim_schedulers.agents.networks import read_network, write_network

    class About(msgspec.Struct):
        size: int

    class Deep(msgspec.Struct):
        size: object

    path = tmp_path / "net.safetensors"
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    for about in (Deep("many"), Deep(deep)):
        write_network(path, {"x": np.zeros(1)}, "form", about)
        with pytest.raises(PolicyError, match="invalid metadata"):
            read_network(path, "form", About, "network")


@pytest.mark.parametrize("line", [b"\n", b" \r\n", b"; comment\n"])
def test_lines_without_jobs_are_bounded(
    line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of endless empty lines or comments is an error that names file and line."""
    monkeypatch.setattr(log_file, "MOST_LINES_WITHOUT_JOB", 100)
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(line * 10_000))
    with pytest.raises(WorkloadError, match=r"swf\.gz:101: expected at most 100 empty lines and"):
        read_swf(path)
