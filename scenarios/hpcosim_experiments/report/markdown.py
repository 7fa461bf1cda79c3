"""Text in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], lines: Iterable[Sequence[str]], rule: str = "---") -> list[str]:
    """Return the lines of a Markdown table.

    Args:
        head: column titles.
        lines: cells of each row.
        rule: cell of the separator row, such as `---:` for right alignment.
    """
    drawn = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return [drawn[0], f"|{'|'.join([rule] * len(head))}|", *drawn[1:]]


def document(*parts: Sequence[str]) -> str:
    """Return the parts of a text, separated by empty lines; empty parts are omitted."""
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"
