"""What is installed: the extras of the installation page, of `make demo` and of the messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from support.paths import ROOT

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
LARGE = {"fast", "mcp", "ray", "rl", "sb3", "search", "slurm"}
"""Extras of the compiled engine, trained agents, assistants and clusters, which pages tell of."""
DEVELOPMENT = {"docs", "test", "dev"}


def closure(extra: str) -> Iterator[Requirement]:
    """Yield the packages of an extra, and of the extras that it includes."""
    for text in EXTRAS[extra]:
        requirement = Requirement(text)
        if requirement.name == "hpcosim":
            for name in requirement.extras:
                yield from closure(name)
        else:
            yield requirement


def test_the_installation_page_lists_all_extras() -> None:
    """The table of `docs/install.md` has a row for each extra of pyproject.toml."""
    page = (ROOT / "docs" / "install.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(EXTRAS)


def test_make_demo_installs_what_the_readme_shows() -> None:
    """`make demo` installs all extras but those for which a page has the command."""
    (extra,) = re.findall(r"^demo: .*\.installed-(\w+)", (ROOT / "Makefile").read_text(), re.M)
    installed = {requirement.name for requirement in closure(extra)}
    for name in EXTRAS.keys() - LARGE - DEVELOPMENT:
        assert {requirement.name for requirement in closure(name)} <= installed
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*/*.md")]
    told = {each for page in pages for each in re.findall(r"\[(\w+)\]'", page.read_text())}
    assert told >= LARGE


def test_messages_name_extras_that_exist() -> None:
    """Each `pip install 'hpcosim[...]'` in the code and the documentation names an extra."""
    folders = ("scheduler_client", "scenarios", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.[mp][dy]")]
    named = {
        each
        for path in files
        for each in re.findall(r"pip install 'hpcosim\[(\w+)\]'", path.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= EXTRAS.keys()


@pytest.mark.parametrize("extra", ["rl", "sb3"])
def test_the_newest_admitted_torch_is_the_tested_one(extra: str) -> None:
    """No extra takes a later torch than `.ci/constraints.txt`, even without constraints."""
    constraints = ROOT / ".ci" / "constraints.txt"
    if not constraints.is_file():
        pytest.skip("no constraints: this is not a checkout")
    (pinned,) = re.findall(r"^torch==(\S+)", constraints.read_text(), re.MULTILINE)
    tested = Version(pinned)
    (torch,) = (each for each in closure(extra) if each.name == "torch")
    assert torch.specifier.contains(pinned)
    assert not torch.specifier.contains(f"{tested.major}.{tested.minor + 1}.0")
