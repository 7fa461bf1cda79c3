"""Colours of jobs in a Gantt chart: neighbours have different ones."""

from __future__ import annotations

import colorsys

import numpy as np

from hpcosim_view.figures.style import COLOURS
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.periods import periods_of

TURNS = 5
"""The first colours, which jobs take in turn. The others are for jobs with many neighbours."""


def _shade(colour: str, factor: float) -> str:
    """Return a colour with its lightness moved towards white (above 1) or black."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, saturation = colorsys.rgb_to_hls(red, green, blue)
    light = 1 - (1 - light) / factor if factor > 1 else light * factor
    shaded = colorsys.hls_to_rgb(hue, light, saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in shaded)


PALETTE = (
    *COLOURS,
    *(_shade(colour, 2.0) for colour in COLOURS),
    *(_shade(colour, 0.55) for colour in COLOURS),
)
"""The colours of jobs, the preferred ones first."""


def job_colours(frame: Frame) -> list[int]:
    """Return the colour of each start, an index into `PALETTE`.

    Neighbours are jobs that hold adjacent cores at the same time, and jobs that follow each other
    on a core. They have different colours, unless the neighbours that started before a job have all
    colours of `PALETTE`.
    """
    columns = frame.columns
    end_s = periods_of(frame).end_s
    cores = sum(count * size for count, size, *_ in frame.about["nodes"])
    owner = np.full(cores + 2, -1, np.int64)  # last start on each core, with one core on each side
    until_s = np.where(np.isnan(end_s), np.inf, end_s).tolist()
    jobs, times_s = columns["start.job"].tolist(), columns["start.time_s"].tolist()
    edges = list(zip(columns["box.first"].tolist(), columns["box.last"].tolist(), strict=True))
    last = np.cumsum(columns["start.boxes"], dtype=np.int64).tolist()
    colours: list[int] = []
    begin = 0
    for start, end in enumerate(last):
        near: set[int] = set()
        for low, high in edges[begin:end]:
            near.update(owner[low + 1 : high + 2].tolist())
            near.update(
                beside
                for beside in (int(owner[low]), int(owner[high + 2]))
                if beside >= 0 and until_s[beside] > times_s[start]
            )
            owner[low + 1 : high + 2] = start
        used = {colours[other] for other in near if 0 <= other < start}
        colours.append(_free_colour(jobs[start], used))
        begin = end
    return colours


def _free_colour(job: int, used: set[int]) -> int:
    """Return the colour of a job: the next one in turn that is not used."""
    turn = job % TURNS
    order = (*range(turn, TURNS), *range(turn), *range(TURNS, len(PALETTE)))
    return next((colour for colour in order if colour not in used), turn)
