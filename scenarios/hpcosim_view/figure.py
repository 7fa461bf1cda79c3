"""The figure of a run: Gantt chart, power and queue length, drawn from its results folder."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_view.errors import FigureError
from hpcosim_view.run.extracts import (
    ENERGY_UNITS,
    POWER_UNITS,
    TIME_UNITS,
    Floats,
    Ints,
    Unit,
    power_of,
    queue_of,
    sums,
    unit_for,
    with_unit,
)
from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import Frame, periods_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Colours of Okabe and Ito, distinguishable with colour vision deficiency.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


# Job numbers in a Gantt chart.

FONT_SIZES = (8.0, 7.0, 6.0, 5.0)
MARGIN_PIXELS = 1.5
DARK, LIGHT = "#111111", "#ffffff"


def drawing() -> tuple[Any, Any]:
    """Return `matplotlib` and `matplotlib.pyplot`, configured to draw into files.

    Raises:
        FigureError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise FigureError("figures need matplotlib: pip install 'hpcosim[plot]'") from None
    return mpl, pyplot


def write_numbers(axes: Axes, jobs: Sequence[tuple[str, str, Any]]) -> None:
    """Write numbers into rectangles, each in the largest font that fits; others are left out.

    Call it when everything else is drawn: the layout decides how large the rectangles are.

    Args:
        axes: the chart.
        jobs: number, colour, and left, right, bottom and top of a rectangle of each job.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure: Any = axes.figure
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the numbers do not change the layout
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    for number, colour, (left, right, bottom, top) in jobs:
        (x0, y0), (x1, y1) = axes.transData.transform([(left, bottom), (right, top)])
        text = axes.text(
            (left + right) / 2,
            (bottom + top) / 2,
            number,
            ha="center",
            va="center_baseline",
            color=_readable_on(colour),
            clip_on=True,
            parse_math=False,
        )
        for rotation, size in ((turn, size) for turn in (0, 90) for size in FONT_SIZES):
            text.set(rotation=rotation, fontsize=size)
            extent = text.get_window_extent(renderer)
            wide, high = extent.width + 2 * MARGIN_PIXELS, extent.height + 2 * MARGIN_PIXELS
            if wide <= x1 - x0 and high <= abs(y1 - y0):
                break
        else:
            text.remove()


def _readable_on(colour: str) -> str:
    """Return the text colour with the larger contrast to a colour (WCAG 2.1, 1.4.3)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return DARK if (luminance + 0.05) ** 2 > 1.05 * 0.05 else LIGHT


# Colours of jobs in a Gantt chart: neighbours have different ones.

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


MAX_VECTOR_BOXES = 5000  # more boxes are drawn as pixels
MAX_COLOURED_BOXES = 100_000  # more boxes are some pixels each: neighbours may share a colour
MAX_NUMBERED_JOBS = 30
MAX_TITLE_CHARACTERS = 120
DPI = 150


def draw_schedule(results: Path, out: Path) -> list[Path]:
    """Draw a Gantt chart, the power, and the queue length of a run, one below the other.

    Args:
        results: a results folder.
        out: path of the figure without its suffix.

    Returns:
        The files: a PNG and an SVG.

    Raises:
        ReadResultsError: the folder has no results, or they are damaged.
        FigureError: the files cannot be written, the run took no time, or matplotlib is not
            installed.
    """
    mpl, pyplot = drawing()
    run = read_folder(results)
    duration_s = run.about["now_s"] - run.about["start_s"]
    if duration_s <= 0.0:
        raise FigureError(f"{results}: nothing to draw: the run took no simulated time")
    time = unit_for(duration_s, TIME_UNITS)
    # No date and fixed ids, so that the same run gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "hpcosim", "font.size": 9}):
        figure, (gantt, power, queue) = pyplot.subplots(
            3, 1, sharex=True, figsize=(10, 8), height_ratios=(3, 1, 1), layout="constrained"
        )
        _draw_gantt(gantt, run, time)
        _draw_power(power, run, time)
        _draw_queue(queue, run, time)
        queue.set_xlabel(f"simulated time ({time.name})")
        figure.suptitle(_title(run), parse_math=False)
        if len(run.columns["job.id"]) < MAX_NUMBERED_JOBS:
            write_numbers(gantt, _numbered(run, time))
        files = [out.with_name(out.name + ending) for ending in (".png", ".svg")]
        try:
            figure.savefig(files[0], dpi=DPI)
            figure.savefig(files[1], metadata={"Date": None})
        except OSError as error:
            raise FigureError(f"{out}: cannot be written: {error.strerror or error}") from None
        finally:
            pyplot.close(figure)
    return files


def _title(run: Frame) -> str:
    """Return the title: printable characters of one line, whatever the names have in them."""
    text = f"{run.about['scenario']}, scheduled by {run.about['scheduler']}"
    shown = "".join(char if char.isprintable() else " " for char in text)
    cut = len(shown) > MAX_TITLE_CHARACTERS
    return shown[:MAX_TITLE_CHARACTERS] + "..." if cut else shown


def _rectangles(run: Frame, time: Unit) -> Floats:
    """Return left, right, bottom and top of each box; times in `time`."""
    columns = run.columns
    ended_s = np.fmin(periods_of(run).end_s, run.about["now_s"])
    start = np.repeat(np.arange(len(columns["start.job"])), columns["start.boxes"])
    left, right = columns["start.time_s"][start], ended_s[start]
    bottom, top = columns["box.first"], columns["box.last"].astype(np.int64) + 1
    return np.column_stack([left / time.size, right / time.size, bottom, top])


def _draw_gantt(axes: Axes, run: Frame, time: Unit) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    left, right, bottom, top = _rectangles(run, time).T
    corners = [(left, bottom), (right, bottom), (right, top), (left, top)]
    # As an array: matplotlib reads a list of polygons three times slower.
    shapes: Any = np.stack([np.column_stack(corner) for corner in corners], axis=1)
    colours = np.repeat(_colours(run), run.columns["start.boxes"])
    many = len(shapes) > MAX_VECTOR_BOXES
    axes.add_collection(
        PolyCollection(
            shapes,
            facecolors=np.array([to_rgba(colour) for colour in PALETTE])[colours],
            edgecolors="none" if many else "white",
            linewidths=0.3,
            rasterized=many,  # viewers fail on an SVG with this many shapes
        )
    )
    axes.set_xlim(run.about["start_s"] / time.size, run.about["now_s"] / time.size)
    cores = sum(count * cores for count, cores, _ in run.about["nodes"])
    axes.set_ylim(cores, 0)  # node 0 at the top, as on the page
    axes.set_ylabel("core")
    nodes = sum(count for count, *_ in run.about["nodes"])
    axes.set_title(f"jobs on the cores of {nodes} nodes", loc="left", fontsize=9)


def _colours(run: Frame) -> Ints:
    """Return the colour of each start, an index into `PALETTE`."""
    columns = run.columns
    if len(columns["box.first"]) > MAX_COLOURED_BOXES:
        return columns["start.job"].astype(np.int64) % len(COLOURS)
    return np.array(job_colours(run), np.int64)


def _numbered(run: Frame, time: Unit) -> list[tuple[str, str, Any]]:
    """Return number, colour and largest rectangle of each job that has started."""
    rectangles, colours = _rectangles(run, time), _colours(run)
    found, begin = [], 0
    for start, boxes in enumerate(run.columns["start.boxes"].tolist()):
        own = rectangles[begin : begin + boxes]
        begin += boxes
        largest = own[np.argmax((own[:, 1] - own[:, 0]) * (own[:, 3] - own[:, 2]))]
        number = str(run.columns["job.id"][run.columns["start.job"][start]])
        found.append((number, PALETTE[colours[start]], largest))
    return found


def _draw_power(axes: Axes, run: Frame, time: Unit) -> None:
    times_s, changes_w = [np.array([run.about["now_s"]])], [np.zeros(1)]
    for state in NODE_STATES:
        of_state = power_of(run, state)
        times_s.append(of_state.times_s)
        changes_w.append(np.diff(of_state.values, prepend=0.0))
    at_s, power_w = sums(np.concatenate(times_s), np.concatenate(changes_w))
    unit = unit_for(float(power_w.max()), POWER_UNITS)
    axes.step(at_s / time.size, power_w / unit.size, where="post", color=COLOURS[5], linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"power ({unit.name})")
    energy = with_unit(run.about["metrics"]["energy_j"], ENERGY_UNITS)
    axes.set_title(f"power of all nodes; energy {energy}", loc="left", fontsize=9)


def _draw_queue(axes: Axes, run: Frame, time: Unit) -> None:
    from matplotlib.ticker import MaxNLocator

    queue = queue_of(run)
    at_s = np.append(queue.times_s, run.about["now_s"])
    length = np.append(queue.values, queue.values[-1])
    axes.step(at_s / time.size, length, where="post", color=COLOURS[0], linewidth=0.8)
    axes.set_ylim(0, max(1.0, 1.05 * float(length.max())))
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.set_ylabel("jobs waiting")
    axes.set_title("queue length", loc="left", fontsize=9)
