"""Tables in LaTeX, for the package booktabs."""

from __future__ import annotations

from collections.abc import Iterable

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
        _line(escape(title) for title in table.head),
        r"\midrule",
        *(_line(map(_cell, row)) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(ESCAPED.get(character, character) for character in text)


def one_line(text: str) -> str:
    """Return text for a comment."""
    return " ".join(text.split())


def _line(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    text = f"\\textbf{{{text}}}" if cell.strong else text
    # A line that begins with a bracket would be read as an option of the line before.
    return f"{text} {{{escape(cell.interval)}}}" if cell.interval else _guarded(text)


def _guarded(text: str) -> str:
    return f"{{{text}}}" if text.startswith(("[", "*")) else text
