"""Views of a run: figures, a web page, tables for the terminal, files for other tools.

Draw the schedule of a results folder:

    from pathlib import Path

    from hpcosim_view import draw_schedule

    draw_schedule(Path("results/demo-easy"), Path("schedule"))  # schedule.png, schedule.svg
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_view.figure import draw_schedule as draw_schedule

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "figure": "draw_schedule",
    },
)
