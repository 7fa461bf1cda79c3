"""Runs the code blocks of a Markdown page in order, in a folder of its own.

| Block | Effect |
|---|---|
| any language with `title="FILE"` | is written to FILE |
| `<!-- file: PATH -->` | the file of the repository is copied |
| `sh` | runs in bash, and fails with the first command that fails |
| `python` without a title | runs as a script |
| `python` in a page with `<!-- notebook -->` | continues the `python` blocks before it |
| `text` directly after one of these two | must match its output; `...` stands for any text |

`<!-- not run: REASON -->` before a `sh` or `python` block leaves it out. Background processes of a
block live until the end of the page.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

from sybil import Document, Example, Region
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, RawFencedCodeBlockLexer

from support.paths import ROOT

INFO = re.compile(r'(?P<language>\w+)(?: +title="(?P<title>[^"]+)")?[^\n]*\n')
NOTEBOOK = "<!-- notebook -->"
REPEATED = """import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    for cell in {cells!r}:
        exec(cell)
"""
TIMEOUT_S = 120.0
LOOSELY = ELLIPSIS | NORMALIZE_WHITESPACE
NOT_OF_A_CHECKOUT = ("results", "site", "build", "dist", "node_modules")


class Page:
    """The code blocks of one page.

    Args:
        path: the page.
        folder: an empty folder, in which the blocks run.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self._folder = folder
        self._groups: list[int] = []
        self._reason = ""  # why the next block is not run
        self._output: tuple[int, str] | None = None  # where the last block ended, what it printed
        self._is_notebook = NOTEBOOK in path.read_text(encoding="utf-8")
        self._cells: list[str] = []  # the blocks before, of a notebook

    def run(self) -> None:
        """Run all blocks in order.

        Raises:
            AssertionError: a block failed or printed something that differs from the page.
        """
        _make_checkout(self._folder)
        try:
            parsers = (self._comments, self._files, self._fences)
            for example in Document.parse(str(self.path), *parsers):
                example.evaluate()
        finally:
            for group in self._groups:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGTERM)

    def _comments(self, document: Document) -> Iterator[Region]:
        for region in DirectiveInHTMLCommentLexer("not run")(document):
            region.evaluator = self._leave_out_next
            yield region

    def _files(self, document: Document) -> Iterator[Region]:
        for region in DirectiveInHTMLCommentLexer("file")(document):
            region.evaluator = self._copy
            yield region

    def _fences(self, document: Document) -> Iterator[Region]:
        for region in RawFencedCodeBlockLexer(INFO)(document):
            region.evaluator = self._evaluate
            yield region

    def _leave_out_next(self, example: Example) -> None:
        self._reason = example.region.lexemes["arguments"]

    def _copy(self, example: Example) -> None:
        shutil.copy(ROOT / str(example.region.lexemes["arguments"]), self._folder)

    def _evaluate(self, example: Example) -> None:
        language, title, source = (
            str(example.region.lexemes[name] or "") for name in ("language", "title", "source")
        )
        if title:
            (self._folder / title).write_text(source, encoding="utf-8")
        elif language == "text":
            self._compare(example, source)
        elif language in ("sh", "python"):
            left_out, self._reason = self._reason, ""
            self._output = None
            if not left_out:
                self._output = example.end, self._run(example, language, source)

    def _run(self, example: Example, language: str, source: str) -> str:
        block = self._folder / f"block-{example.line}.{language}"
        block.write_text(self._continued(source) if language == "python" else source, "utf-8")
        command = [sys.executable] if language == "python" else ["bash", "-euo", "pipefail"]
        output, errors = block.with_suffix(".out"), block.with_suffix(".err")
        # Files, not pipes: background processes would keep a pipe open.
        with output.open("w") as out, errors.open("w") as err:
            process = subprocess.Popen(
                [*command, block.name],
                cwd=self._folder,
                env=_environment(self._folder),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._groups.append(process.pid)
        status = process.wait(TIMEOUT_S)
        text = output.read_text(encoding="utf-8")
        if status != 0:
            where = f"{self.path}:{example.line}"
            raise AssertionError(f"{where}: exit status {status}:\n{text}{errors.read_text()}")
        return text

    def _continued(self, source: str) -> str:
        """Return the script of a Python block, which repeats the cells before it in silence."""
        if not self._is_notebook:
            return source
        cells = list(self._cells)
        self._cells.append(source)
        return REPEATED.format(cells=cells) + source

    def _compare(self, example: Example, expected: str) -> None:
        """Compare the text with the output of the block directly before it."""
        if self._output is None or example.document.text[self._output[0] : example.start].strip():
            return
        found = self._output[1]
        same = OutputChecker().check_output(expected, found, LOOSELY)
        assert same, (
            f"{self.path}:{example.line}: expected\n{expected}\nbut the block printed\n{found}"
        )


def reasons_not_run(path: Path) -> list[str]:
    """Return the reason of each block of a page that is not run."""
    comments = DirectiveInHTMLCommentLexer("not run")(Document.parse(str(path)))
    return [str(region.lexemes["arguments"]) for region in comments]


def _make_checkout(folder: Path) -> None:
    """Fill a folder with the files of the checkout and an environment that has hpcosim."""
    for path in ROOT.iterdir():
        if not path.name.startswith(".") and path.name not in NOT_OF_A_CHECKOUT:
            (folder / path.name).symlink_to(path)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, arguments in (("python", ""), ("hpcosim", "-m hpcosim.cli ")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        program.chmod(0o755)


def _environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder / ".venv" / "bin"), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "COLUMNS": "100", "MPLBACKEND": "agg"}
