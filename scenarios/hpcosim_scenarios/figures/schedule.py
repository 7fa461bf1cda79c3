"""A figure of a run, drawn from its results folder."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import FigureError
from hpcosim_scenarios.figures.gantt import JobRow, boxes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

MAX_VECTOR_BOXES = 5000  # more boxes are drawn as pixels
# Colours of Okabe and Ito, distinguishable with colour vision deficiency.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
UNITS = ((86400.0 * 3, 86400.0, "days"), (3600.0 * 3, 3600.0, "hours"), (0.0, 1.0, "seconds"))


@dataclass(frozen=True, slots=True)
class _DrawnRun:
    """The content of the figure: the jobs, and spans of time with the power of all their nodes."""

    title: str
    jobs: list[JobRow]
    cores_by_node: list[int]
    span_start_s: Floats
    span_end_s: Floats
    span_w: Floats

    @property
    def start_s(self) -> float:
        return float(self.span_start_s.min())

    @property
    def end_s(self) -> float:
        return float(self.span_end_s.max())


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


def draw_schedule(results: Path, out: Path) -> list[Path]:
    """Draw a Gantt chart, the power, and the queue length of a run, one below the other.

    Args:
        results: a results folder.
        out: path of the figure without its suffix.

    Returns:
        The files: a PNG and an SVG.

    Raises:
        FigureError: the folder has no results, the files cannot be written, or matplotlib is not
            installed.
    """
    mpl, pyplot = drawing()
    run = _read(results)
    unit_s, unit = next((u, name) for least, u, name in UNITS if run.end_s - run.start_s >= least)
    # No date and fixed ids, so that the same run gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "hpcosim", "font.size": 9}):
        figure, (gantt, power, queue) = pyplot.subplots(
            3, 1, sharex=True, figsize=(10, 8), height_ratios=(3, 1, 1), layout="constrained"
        )
        _draw_gantt(gantt, run, unit_s)
        _draw_power(power, run, unit_s)
        _draw_queue(queue, run, unit_s)
        queue.set_xlabel(f"simulated time ({unit})")
        figure.suptitle(run.title, parse_math=False)
        files = [out.with_name(out.name + ending) for ending in (".png", ".svg")]
        try:
            figure.savefig(files[0], dpi=150)
            figure.savefig(files[1], metadata={"Date": None})
        except OSError as error:
            raise FigureError(f"{out}: cannot be written: {error.strerror or error}") from None
        finally:
            pyplot.close(figure)
    return files


def steps(times_s: Floats, changes: Floats) -> tuple[Floats, Floats]:
    """Return the cumulative sum of changes as a step function.

    Args:
        times_s: time of each change, s.
        changes: the changes.

    Returns:
        The times of the steps, s, in ascending order, and the value from each time on.
    """
    order = np.argsort(times_s, kind="stable")
    at_s, first = np.unique(times_s[order], return_index=True)
    return at_s, np.cumsum(np.add.reduceat(changes[order], first))


def _draw_gantt(axes: Axes, run: _DrawnRun, unit_s: float) -> None:
    from matplotlib.collections import PolyCollection

    shapes, colours = [], []
    for box in boxes(run.jobs, run.cores_by_node):
        job = run.jobs[box.row]
        left = (job.start_s or 0.0) / unit_s
        right = (run.end_s if job.end_s is None else job.end_s) / unit_s
        top = box.last + 1
        shapes.append([(left, box.first), (right, box.first), (right, top), (left, top)])
        colours.append(COLOURS[box.row % len(COLOURS)])
    many = len(shapes) > MAX_VECTOR_BOXES
    axes.add_collection(
        PolyCollection(
            shapes,
            facecolors=colours,
            edgecolors="none" if many else "white",
            linewidths=0.3,
            rasterized=many,  # viewers fail on an SVG with this many shapes
        )
    )
    axes.set_xlim(run.start_s / unit_s, max(run.end_s, run.start_s + 1e-9) / unit_s)
    axes.set_ylim(0, sum(run.cores_by_node))
    axes.set_ylabel("core")
    nodes = len(run.cores_by_node)
    axes.set_title(f"jobs on the cores of {nodes} nodes", loc="left", fontsize=9)


def _draw_power(axes: Axes, run: _DrawnRun, unit_s: float) -> None:
    at_s, power_w = steps(
        np.concatenate([run.span_start_s, run.span_end_s]),
        np.concatenate([run.span_w, -run.span_w]),
    )
    power_w[-1] = power_w[-2]  # the run ends here, so the power after is unknown
    axes.step(at_s / unit_s, power_w / 1000, where="post", color=COLOURS[5], linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("power (kW)")
    energy_kwh = float(run.span_w @ (run.span_end_s - run.span_start_s)) / 3.6e6
    axes.set_title(f"power of all nodes; energy {energy_kwh:,.1f} kWh", loc="left", fontsize=9)


def _draw_queue(axes: Axes, run: _DrawnRun, unit_s: float) -> None:
    waited = [job for job in run.jobs if job.state != "rejected"]
    came = [job.submit_s for job in waited]
    went = [job.start_s for job in waited if job.start_s is not None]
    at_s, length = steps(
        np.array([run.start_s, *came, *went, run.end_s]),
        np.array([0.0] + [1.0] * len(came) + [-1.0] * len(went) + [0.0]),
    )
    axes.step(at_s / unit_s, length, where="post", color=COLOURS[0], linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("jobs waiting")
    axes.set_title("queue length", loc="left", fontsize=9)


def _read(results: Path) -> _DrawnRun:
    try:
        about: dict[str, Any] = json.loads((results / "run.json").read_text())
        title = f"{about['scenario']}, scheduled by {about['scheduler']}"
        cores_by_node = msgspec.convert(about["platform"], Platform).cores_by_node()
        jobs = [_job(row) for row in _rows(results / "jobs.csv")]
        spans = np.array([_span(row) for row in _rows(results / "nodes.csv")]).reshape(-1, 3)
    except OSError as error:
        what = f"expected a results folder; {error.filename}: {error.strerror}"
        raise FigureError(f"{results}: {what}") from None
    except (ValueError, KeyError, TypeError) as error:
        what = f"expected the files of a results folder; cannot read them: {error!r}"
        raise FigureError(f"{results}: {what}") from None
    if not len(spans):
        raise FigureError(f"{results}: nothing to draw: the run took no simulated time")
    return _DrawnRun(title, jobs, cores_by_node, *spans.T)


def _job(row: dict[str, str]) -> JobRow:
    return JobRow(
        float(row["submit_s"]),
        float(row["start_s"]) if row["start_s"] else None,
        float(row["end_s"]) if row["end_s"] else None,
        row["state"],
        int(row["cores"]),
        list(_ranges(row["nodes"])),
    )


def _span(row: dict[str, str]) -> tuple[float, float, float]:
    """Return start and end of a span, s, and the power of all its nodes, W."""
    nodes = sum(last - first + 1 for first, last in _ranges(row["nodes"]))
    return float(row["start_s"]), float(row["end_s"]), nodes * float(row["power_w"])


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _ranges(intervals: str) -> Iterator[tuple[int, int]]:
    """Yield first and last of each interval of `0-3 7`."""
    for part in intervals.split():
        first, _, last = part.partition("-")
        yield int(first), int(last or first)
