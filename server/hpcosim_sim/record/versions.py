"""Versions of the software that computed a result."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

PACKAGES = ("simpy", "numpy", "msgspec", "pyzmq")
GIT_TIMEOUT_S = 10.0


class GitCheckout(Struct, frozen=True):
    """The git checkout that hpcosim runs from.

    Attributes:
        commit: SHA-1 of the commit, 40 hexadecimal digits.
        dirty: whether tracked files differ from the commit.
    """

    commit: str
    dirty: bool


@cache
def hpcosim_version() -> str:
    """Return the version of hpcosim. Reading it takes as long as a short simulation."""
    return version("hpcosim")


@cache
def package_versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages in `PACKAGES` that are installed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@cache
def git_checkout(folder: Path = Path(__file__).parent) -> GitCheckout | None:
    """Return the checkout that this package runs from; None: it is installed, or git is missing."""
    try:
        # An environment inside another project's checkout is not tracked by that project.
        _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
        status = _git(folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    commit, *rest = status.splitlines()
    if not (commit := commit.removeprefix("# branch.oid ")).isalnum():
        return None  # "(initial)": the repository has no commit
    return GitCheckout(commit, not all(line.startswith("# ") for line in rest))


def _git(folder: Path, *words: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return subprocess.run(  # noqa: S603 - fixed arguments, no shell
        ["git", "--no-optional-locks", *words],  # noqa: S607 - the user's git
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=GIT_TIMEOUT_S,
    ).stdout.strip()
