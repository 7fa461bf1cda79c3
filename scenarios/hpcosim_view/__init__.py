"""Views of a run: figures, a web page, tables for the terminal, files for other tools.

Draw the schedule of a results folder:

    from pathlib import Path

    from hpcosim_view import draw_schedule

    draw_schedule(Path("results/demo-easy"), Path("schedule"))  # schedule.png, schedule.svg
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcosim_view.figures.schedule import draw_schedule

__all__ = ["draw_schedule"]


def __getattr__(name: str) -> object:
    if name in __all__:  # imported on first use
        return getattr(import_module(f"{__name__}.figures.schedule"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
