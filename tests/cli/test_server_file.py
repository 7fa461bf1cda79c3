"""The settings of a server: a file, and values of `--set`."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from hpcosim.cli.server_file import read_settings, served_files, split_changes
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_server.service.limits import Limits

FILE = """\
scenarios: [demo, mine.yaml]
drain_s: 60
limits:
  max_sessions: 8
  max_memory_mb: 100
journal:
  folder: journals
  sync: always
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of settings, beside a scenario."""
    (tmp_path / "mine.yaml").write_text("platform: {}\n")
    path = tmp_path / "server.yaml"
    path.write_text(FILE)
    return path


def test_a_file_names_scenarios_and_settings(file: Path) -> None:
    """Scenarios are beside the file or shipped; what the file leaves out has its default."""
    settings, scenarios = read_settings(served_files([file]), {})
    assert [path.name for path in scenarios] == ["demo.yaml", "mine.yaml"]
    limits = settings.limits.limits()
    assert (limits.sessions, limits.memory_bytes, limits.jobs) == (8, 100 * 2**20, Limits().jobs)
    assert settings.drain_s == 60.0


def test_defaults_are_those_of_the_service() -> None:
    """Without a file the limits are those of `Limits`."""
    settings, _ = read_settings([Path("demo.yaml")], {})
    assert settings.limits.limits() == Limits()


def test_a_value_of_set_replaces_one_of_the_file(file: Path) -> None:
    """Values of scenarios go to the scenarios."""
    changes = {"limits.max_sessions": 3, "journal.sync": "never", "workload.load": 1.2}
    of_server, of_scenarios = split_changes(changes)
    settings, _ = read_settings([file], of_server)
    assert (settings.limits.max_sessions, settings.journal.sync) == (3, "never")
    assert of_scenarios == {"workload.load": 1.2}


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("max_sessions: 8", "max_session: 8", "4: limits: unknown key 'max_session'; did you mean"),
        ("max_sessions: 8", "max_sessions: 0", "4: limits.max_sessions: expected an integer >= 1"),
        ("sync: always", "sync: alway", "8: journal.sync: expected one of always, interval, never"),
        ("drain_s: 60", "drain: 60", "2: unknown key 'drain'; did you mean 'drain_s'?"),
        ("mine.yaml", "gone.yaml", r"1: scenarios\[1\]: gone.yaml: no such file or shipped"),
    ],
)
def test_an_error_names_file_line_and_field(file: Path, old: str, new: str, what: str) -> None:
    """An unknown key has a suggestion."""
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ScenarioError, match=f"server.yaml:{what}"):
        read_settings(served_files([file]), {})


def test_journals_are_in_the_folder_of_results(tmp_path: Path, file: Path) -> None:
    """Unless the settings name a folder; `--resume` names another one."""
    settings, _ = read_settings([Path("demo.yaml")], {})
    assert settings.journal_folder(None, None, once=False) is None
    assert settings.journal_folder(tmp_path, None, once=True) is None
    found = settings.journal_folder(tmp_path, None, once=False)
    assert found is not None
    assert found.path == tmp_path / ".journal"
    resumed = settings.journal_folder(None, tmp_path, once=True)
    assert resumed is not None
    assert (resumed.path, resumed.resume) == (tmp_path, True)
    settings, _ = read_settings([file], {})
    named = settings.journal_folder(None, None, once=True)
    assert named is not None
    assert (named.path, named.sync) == (Path("journals"), "always")
    with pytest.raises(ScenariosError, match="expected either --resume or"):
        settings.journal_folder(None, tmp_path, once=True)


def test_only_one_file_has_settings(file: Path) -> None:
    """Two files of settings are refused, and one without scenarios needs them as arguments."""
    with pytest.raises(typer.BadParameter, match="at most one"):
        served_files([file, file])
    file.write_text("limits: {max_jobs: 5}\n")
    with pytest.raises(ScenarioError, match="expected scenarios"):
        read_settings([file], {})
    _, scenarios = read_settings([file, Path("demo.yaml")], {})
    assert scenarios == [Path("demo.yaml")]
