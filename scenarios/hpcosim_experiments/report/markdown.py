"""Text in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


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
