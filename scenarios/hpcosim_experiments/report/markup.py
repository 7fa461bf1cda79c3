"""Tables and text in Markdown, and tables in LaTeX for the package booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hpcosim_experiments.report.cells import MINUS, Cell, Table

ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    MINUS: "$-$",
    "\n": " ",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
"""Characters with a meaning in LaTeX, or that T1 fonts lack."""


def latex(table: Table) -> str:
    """Return a table as a `tabular`, with its title and caption as comments."""
    columns = "l" * table.labels + "r" * (len(table.head) - table.labels)
    lines = [
        f"% {one_line(table.title)}",
        f"% {one_line(table.caption)}",
        r"% \usepackage{booktabs}",
        f"\\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _line(escape_latex(title) for title in table.head),
        r"\midrule",
        *(_line(map(_cell, row)) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(ESCAPED.get(character, character) for character in text)


def one_line(text: str) -> str:
    """Return text for a comment."""
    return " ".join(text.split())


def _line(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cell(cell: Cell) -> str:
    text = escape_latex(cell.text)
    text = f"\\textbf{{{text}}}" if cell.strong else text
    # A line that begins with a bracket would be read as an option of the line before.
    return f"{text} {{{escape_latex(cell.interval)}}}" if cell.interval else _guarded(text)


def _guarded(text: str) -> str:
    return f"{{{text}}}" if text.startswith(("[", "*")) else text


def table(
    head: Sequence[str], lines: Iterable[Sequence[str]], rule: str | Sequence[str] = "---"
) -> list[str]:
    """Return the lines of a Markdown table.

    Args:
        head: column titles.
        lines: cells of each row.
        rule: cell of the separator row, such as `---:` for right alignment, or one per column.
    """
    rules = [rule] * len(head) if isinstance(rule, str) else rule
    drawn = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return [drawn[0], f"|{'|'.join(rules)}|", *drawn[1:]]


def document(*parts: Sequence[str]) -> str:
    """Return the parts of a text, separated by empty lines; empty parts are omitted."""
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Return text for a cell of a table, on one line and without markup."""
    marked = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", " ".join(text.split()))
    return marked.replace("<", "&lt;")
