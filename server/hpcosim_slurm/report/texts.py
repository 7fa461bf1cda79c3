"""Figures as text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hpcosim_slurm.report.figures import Spread


def shown_time(unix_s: float) -> str:
    """Return a time, in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def shown_part(part: float | None) -> str:
    """Return a part of a whole in percent; None: there is no whole."""
    return "none" if part is None else f"{part:.1%}"


def shown_spread(spread: Spread) -> str:
    """Return a distribution of times."""
    if spread.median is None:
        return "none"
    return (
        f"median {spread.median:.1f} s, mean {spread.mean:.1f} s, "
        f"80 % in {spread.p10:.1f} to {spread.p90:.1f} s"
    )


def text_of(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return figures under a title, each with its name in a column of its own."""
    return "".join([f"{title}\n", *(f"{name:<22} {value}\n" for name, value in lines)])
