"""Errors before an executor starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hpcosim_experiments.executors import (
    ExecutorError,
    ExecutorSettings,
    Local,
    Ray,
    Slurm,
    open_executor,
)


@pytest.mark.parametrize(
    ("settings", "package", "extra"),
    [(Ray(), "ray", "ray"), (Slurm(cluster="local"), "submitit", "slurm")],
)
def test_a_missing_package_is_an_error(
    settings: ExecutorSettings,
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The message names the extra to install."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with (
        pytest.raises(
            ExecutorError, match=rf"needs the extra {extra}: pip install 'hpcosim\[{extra}"
        ),
        open_executor(settings),
    ):
        pass


@pytest.mark.parametrize("settings", [Local(workers=2), Ray(), Slurm()])
def test_a_missing_input_file_is_an_error(settings: ExecutorSettings, tmp_path: Path) -> None:
    """The message names the file, on every executor."""
    with (
        pytest.raises(ExecutorError, match=r"none.swf: no such input file"),
        open_executor(settings, [tmp_path / "none.swf"]),
    ):
        pass
