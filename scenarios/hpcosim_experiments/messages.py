"""Messages about runs: those with the same text are one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hpcosim_experiments.runs.plan import PlannedRun, name_of


def grouped(
    messages: Iterable[tuple[PlannedRun, str]], kind: Callable[[str], str] = str
) -> list[str]:
    """Return a line for each kind of message: its first run and text, and the number of others.

    Args:
        messages: runs with a message each.
        kind: returns what the texts of one line have in common.
    """
    groups: dict[str, list[tuple[PlannedRun, str]]] = {}
    for run, text in messages:
        groups.setdefault(kind(text), []).append((run, text))
    lines = []
    for (run, text), *others in groups.values():
        more = f" and {len(others)} other {'run' if len(others) == 1 else 'runs'}" if others else ""
        lines.append(f"{name_of(run) or 'the run'}{more}: {text}")
    return lines
