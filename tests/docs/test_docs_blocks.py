"""The code blocks of the documentation run as shown."""

from __future__ import annotations

import fcntl
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import ROOT
from support.processes import eventually

pytest.importorskip("sybil")
from support.code_blocks import Page, reasons_not_run

RUN_BLOCKS = "<!-- code blocks: run -->"
"""What a README contains whose blocks are run, too."""

DEFAULT_PORT = 28080
MOST_NOT_RUN = 25


def pages() -> list[Path]:
    """Return all pages of the documentation and the READMEs that ask for it."""
    readmes = [
        *ROOT.glob("*.md"),
        *(path for root in ROOT.iterdir() if root.is_dir() for path in root.glob("*.md")),
    ]
    marked = [path for path in readmes if RUN_BLOCKS in path.read_text(encoding="utf-8")]
    return sorted({*(ROOT / "docs").rglob("*.md"), *marked})


def pages_with_blocks() -> list[Path]:
    """Return the pages with a block that can be run."""
    block = re.compile(r"^```(sh|python|yaml)\b", re.MULTILINE)
    return [page for page in pages() if block.search(page.read_text(encoding="utf-8"))]


@pytest.fixture
def default_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The port that pages name, for one page at a time; workers share the lock."""
    shared = tmp_path_factory.getbasetemp().parent / "default-port.lock"
    with shared.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        eventually(_port_is_free)
        yield


def _port_is_free() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", DEFAULT_PORT)) != 0


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with_blocks(), ids=lambda page: page.stem)
def test_blocks_run_as_shown(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each block of a page succeeds and prints what the page shows."""
    if "hpcosim serve" in page.read_text(encoding="utf-8"):
        request.getfixturevalue("default_port")
    Page(page, tmp_path).run()


def test_few_blocks_are_not_run() -> None:
    """A block that is not run has a reason, and there are few of them."""
    reasons = [reason for page in pages() for reason in reasons_not_run(page)]
    assert all(reasons)
    assert len(reasons) <= MOST_NOT_RUN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```sh\nexit 3\n```\n", "exit status 3"),
        ("```sh\nfalse\ntrue\n```\n", "exit status 1"),
        ("```sh\necho one two\n```\n```text\none three\n```\n", "one three"),
        ("```python\nprint(1 / 0)\n```\n", "ZeroDivisionError"),
    ],
)
def test_wrong_block_fails(text: str, message: str, tmp_path: Path) -> None:
    """A block that fails, or prints something else than the page shows, is reported."""
    page = tmp_path / "page.md"
    page.write_text(text)
    (tmp_path / "folder").mkdir()
    with pytest.raises(AssertionError, match=message):
        Page(page, tmp_path / "folder").run()


@pytest.mark.slow
def test_titled_blocks_are_files_of_later_ones(tmp_path: Path) -> None:
    """A block with a title is written to that file; one marked as not run has no effect."""
    page = tmp_path / "page.md"
    page.write_text(
        '```python title="mine.py"\nNAME = "mine"\n```\n'
        "<!-- not run: it would fail -->\n```sh\nexit 1\n```\n"
        "```python\nimport mine\nprint(mine.NAME, 2)\n```\n\n```text\nmine ...\n```\n"
    )
    (tmp_path / "folder").mkdir()
    Page(page, tmp_path / "folder").run()


def test_the_example_of_the_readme_is_the_file() -> None:
    """The scheduler shown in the README is `easy_sjbf.py`, apart from its docstring."""
    shown = re.search(
        r'```python title="easy_sjbf.py"\n(.*?)```', (ROOT / "README.md").read_text(), re.DOTALL
    )
    file = (ROOT / "scheduler_client" / "examples" / "easy_sjbf.py").read_text()
    assert shown is not None
    assert file.endswith(f'"""\n\n{shown[1]}')
