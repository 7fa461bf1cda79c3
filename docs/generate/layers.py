"""The diagram of the import order, from the contract that `lint-imports` checks."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH, BOX, GAP = 640, 44, 18


def layers() -> list[list[str]]:
    """Return the packages of each layer, from the top down."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    order = next(contract["layers"] for contract in contracts if contract["name"] == "packages")
    return [[name.strip() for name in layer.split("|")] for layer in order]


def diagram() -> str:
    """Return the layers as SVG; it takes its colours from the page."""
    rows = layers()
    height = len(rows) * (BOX + GAP) - GAP
    boxes = "".join(
        _box(row, number * (BOX + GAP), last=number == len(rows) - 1)
        for number, row in enumerate(rows)
    )
    label = escape("Packages by layer: " + "; ".join(" and ".join(row) for row in rows))
    return (
        f'<svg class="layers" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"{boxes}</svg>"
    )


def _box(names: list[str], top: int, *, last: bool) -> str:
    width = (WIDTH - GAP * (len(names) - 1)) / len(names)
    parts = []
    for place, name in enumerate(names):
        left = place * (width + GAP)
        middle = left + width / 2
        parts.append(
            f'<rect x="{left + 1}" y="{top + 1}" width="{width - 2}" height="{BOX - 2}" rx="6"/>'
            f'<text x="{middle}" y="{top + BOX / 2 + 5}">{escape(name)}</text>'
        )
        if not last:
            start, end = top + BOX, top + BOX + GAP - 4
            parts.append(f'<path d="M{middle} {start}V{end}m-4 -5l4 5l4 -5"/>')
    return "".join(parts)
