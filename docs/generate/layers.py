"""The diagram of the import order, from the contract that `lint-imports` checks."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH, LEFT, BOX, GAP = 640, 32, 40, 8


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
    boxes = "".join(_row(row, number * (BOX + GAP)) for number, row in enumerate(rows))
    label = escape("Packages by layer: " + "; ".join(" and ".join(row) for row in rows))
    arrow = f'<path d="M8 2V{height - 2}m-6 -8l6 8l6 -8"/>'
    return (
        f'<svg class="layers" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"{arrow}{boxes}</svg>"
    )


def _row(names: list[str], top: int) -> str:
    width = (WIDTH - LEFT - GAP * (len(names) - 1)) / len(names)
    parts = []
    for place, name in enumerate(names):
        left = LEFT + place * (width + GAP)
        parts.append(
            f'<rect x="{left + 1}" y="{top + 1}" width="{width - 2}" height="{BOX - 2}" rx="6"/>'
            f'<text x="{left + width / 2}" y="{top + BOX / 2 + 5}">{escape(name)}</text>'
        )
    return "".join(parts)
