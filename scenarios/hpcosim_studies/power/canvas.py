"""Colours and marks of the figures of the study."""

from __future__ import annotations

from collections.abc import Mapping

from hpcosim_scenarios.figures.schedule import COLOURS

OF_AWARENESS: Mapping[str, str] = {
    "unaware": COLOURS[0],
    "aware": COLOURS[1],
    "planned": COLOURS[2],
    "any": "#000000",
}
MARKS: Mapping[str, str] = {
    "timeout": "o",
    "keep_idle": "s",
    "slurm": "^",
    "a2c": "D",
    "ppo": "d",
    "adaptive": "P",
    "priced": "v",
    "oracle": "*",
    "always_on": "X",
}
"""Of each kind of manager."""
