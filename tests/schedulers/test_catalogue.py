"""Schedulers by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hpcosim_client
from hpcosim_client import PolicyError, View
from hpcosim_schedulers import GROUPS, make_policy, scheduler_names
from hpcosim_schedulers.catalogue.schedulers import check_scheduler
from hpcosim_schedulers.catalogue.trained import check_trained
from hpcosim_schedulers.power.settings import parse_awareness


@pytest.mark.parametrize(
    "name", ["easy", "scripted:gone.csv", "pairing:gone.safetensors", "low-mem-none-one"]
)
def test_a_scheduler_s_name_is_checked_without_its_file(name: str) -> None:
    """The file need not exist."""
    check_scheduler(name)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("eazy", "there is no scheduler 'eazy'; did you mean easy"),
        ("scripted:", "names no file: expected scripted:results"),
        ("pairing", "expected a trained scheduler with its model, pairing:MODEL"),
        ("minmin-family", "is a group of schedulers"),
        ("zzz", "there is no scheduler 'zzz'; `hpcosim schedulers` lists them"),
        ("keep-idle", "'keep-idle' is a power manager, .* --set scheduler.power=keep-idle"),
    ],
)
def test_a_name_that_is_no_scheduler_s(name: str, error: str) -> None:
    """The error names a way out."""
    with pytest.raises(PolicyError, match=error):
        check_scheduler(name)


def test_a_policy_file_without_its_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error suggests the file if it exists."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").touch()
    with pytest.raises(PolicyError, match=r"'mine:my_easy'; did you mean mine\.py:my_easy\?"):
        check_scheduler("mine:my_easy")
    with pytest.raises(PolicyError, match="'yours:my_easy'; `hpcosim schedulers`"):
        check_scheduler("yours:my_easy")


def test_a_heuristic_is_no_trained_scheduler() -> None:
    """A heuristic is not accepted where a trained scheduler is required."""
    with pytest.raises(PolicyError, match=r"expected a trained scheduler .*, got 'easy'"):
        check_trained("easy")


def test_an_awareness_that_there_is_not() -> None:
    """The error lists the valid values."""
    assert parse_awareness("planned") == "planned"
    with pytest.raises(PolicyError, match="expected one of unaware, aware, planned, ipm, got 'no'"):
        parse_awareness("no")


def test_every_name_makes_a_new_policy() -> None:
    """A policy keeps state, so no two simulations share one that does."""
    shared = {"fcfs", "easy", "look-ahead", "minmin", "maxmin", "duplex"}
    for name in scheduler_names():
        assert (make_policy(name) is make_policy(name)) == (name in shared)


def test_groups_hold_schedulers() -> None:
    """Each member is in the catalogue, once."""
    names = set(scheduler_names())
    for members in GROUPS.values():
        assert set(members) <= names
        assert len(set(members)) == len(members)


# What the package exports


def test_every_public_name_is_there_and_documented() -> None:
    """Public names are imported when they are used."""
    assert set(hpcosim_client.__all__) == set(dir(hpcosim_client))
    for name in hpcosim_client.__all__:
        value = getattr(hpcosim_client, name)
        if callable(value) and hasattr(value, "__module__") and isinstance(value.__module__, str):
            assert value.__doc__ or not value.__module__.startswith("hpcosim_client"), name
    assert hpcosim_client.View is View


def test_a_name_that_the_package_does_not_have() -> None:
    """An unknown name is an AttributeError."""
    with pytest.raises(AttributeError, match="has no attribute 'Veiw'"):
        _ = getattr(hpcosim_client, "Veiw")  # noqa: B009


def modules_after(code: str) -> set[str]:
    """Return the modules that a new process has imported after some code."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_no_other() -> None:
    """The packages import their modules when they are used."""
    modules = modules_after("import hpcosim_client, hpcosim_schedulers")
    assert "hpcosim_client" in modules
    assert not {"numpy", "zmq", "msgspec", "hpcosim_client.view"} & modules


def test_settings_are_validated_without_numpy() -> None:
    """Settings are validated without importing NumPy or a policy."""
    modules = modules_after(
        "from hpcosim_schedulers import parse_power\n"
        "from hpcosim_schedulers.catalogue.trained import check_trained\n"
        "from hpcosim_schedulers.power.settings import parse_awareness\n"
    )
    assert "hpcosim_schedulers.power.settings" in modules
    assert not {"numpy", "zmq", "hpcosim_client.view"} & modules
