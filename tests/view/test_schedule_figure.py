"""The figure of a run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from hpcosim_server.service.session import Opened
from hpcosim_sim.record.results import Run, write_results
from hpcosim_view import draw_schedule
from hpcosim_view.errors import FigureError
from hpcosim_view.figure import PALETTE, job_colours
from hpcosim_view.run.extracts import ENERGY_UNITS, POWER_UNITS, unit_for, with_unit
from hpcosim_view.run.frame import Frame
from hpcosim_view.run.recording import RecordingReader
from hpcosim_workloads.table import JobTable
from support.power_states_runs import play, scenes
from support.random_scenes import Scene
from support.simulating import cluster_of, jobs_of, simulate

NAME = "<script>alert(1)</script>\u202e\n$x^{$ -->]]>" + "x" * 10_000


def results_of(folder: Path, jobs: JobTable, scenario: str = "a") -> Path:
    """Write the results of a run of jobs on two nodes of four cores."""
    simulation = simulate(cluster_of(2, 4), jobs)
    run = Run(scenario=scenario, scheduler="fcfs", seed=3, hpcosim="1", complete=True)
    write_results(folder / "out", simulation.record(), run)
    return folder / "out"


def texts(svg: Path) -> list[str]:
    """Return the texts of an SVG file: matplotlib writes each as a comment beside its shape."""
    return re.findall("<!-- (.*?) -->", svg.read_text())


@pytest.mark.slow
def test_small_charts_have_job_numbers(tmp_path: Path) -> None:
    """A job of some width has its number; one that is a line on the chart has none."""
    jobs = jobs_of((0.0, 900.0, 4), (0.0, 900.0, 4), (900.0, 0.5, 8), (901.0, 900.0, 8))
    jobs.job_id[:] = [501, 502, 503, 504]
    _, svg = draw_schedule(results_of(tmp_path, jobs), tmp_path / "figure")
    assert {"501", "502", "504"} <= set(texts(svg))
    assert "503" not in texts(svg)


@pytest.mark.slow
def test_node_0_is_at_the_top(tmp_path: Path) -> None:
    """The order of the nodes is that of the web page: jobs begin in the upper half of the chart."""
    image = pytest.importorskip("PIL.Image")
    png, _ = draw_schedule(results_of(tmp_path, jobs_of((0.0, 900.0, 4))), tmp_path / "figure")
    pixels = np.asarray(image.open(png).convert("RGB"))
    colour = [int(PALETTE[0][at : at + 2], 16) for at in (1, 3, 5)]
    rows = np.flatnonzero((pixels == colour).all(axis=2).sum(axis=1) > 500)  # pixels: the job
    assert rows.min() < 0.1 * len(pixels)


@pytest.mark.slow
def test_axis_and_title_have_units_that_suit_the_run(tmp_path: Path) -> None:
    """A run of two nodes has power in W and energy in Wh."""
    _, svg = draw_schedule(results_of(tmp_path, jobs_of((0.0, 36.0, 8))), tmp_path / "figure")
    assert "power (W)" in texts(svg)
    assert "power of all nodes; energy 2.80 Wh" in texts(svg)


@pytest.mark.slow
def test_a_hostile_name_is_drawn_as_text_of_one_line(tmp_path: Path) -> None:
    """Neither markup, formulas, control characters nor the length of a name do anything."""
    results = results_of(tmp_path, jobs_of((0.0, 36.0, 8)), NAME)
    _, svg = draw_schedule(results, tmp_path / "figure")
    content = svg.read_text()
    assert "<script>alert" not in re.sub("<!--.*?-->", "", content, flags=re.DOTALL)
    assert "\u202e" not in content
    assert "x" * 200 not in content


def test_a_run_without_duration_cannot_be_drawn(tmp_path: Path) -> None:
    """A run whose only job takes no time is an error that names the folder."""
    results = results_of(tmp_path, jobs_of((5.0, 1.0, 99)))
    with pytest.raises(FigureError, match="out: nothing to draw"):
        draw_schedule(results, tmp_path / "figure")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.00 Wh"),
        (3.6e3, "1.00 Wh"),
        (3.5e6, "972 Wh"),
        (3.6e7, "10.0 kWh"),
        (3.87e9, "1.07 MWh"),
        (3.6e12, "1.00 GWh"),
        (3.6e16, "10,000 GWh"),
    ],
)
def test_energies_have_a_suitable_unit(value: float, shown: str) -> None:
    """The unit is the largest of which the value has at least one."""
    assert with_unit(value, ENERGY_UNITS) == shown


def test_powers_have_a_suitable_unit() -> None:
    """The largest power decides."""
    names = [unit_for(value, POWER_UNITS).name for value in (0.0, 999.0, 1000.0, 2e6)]
    assert names == ["W", "W", "kW", "MW"]


@given(scenes())
def test_neighbours_have_different_colours(scene: Scene) -> None:
    """No two jobs beside each other, or one after the other on a core, share a colour."""
    run = Run(scenario="a", scheduler="b", seed=3, hpcosim="1")
    frame = RecordingReader(Opened(play(scene).simulation, run, 0)).frame()
    colours = job_colours(frame)
    assert colours == job_colours(frame)
    assert max(colours, default=0) < len(PALETTE)
    for one, other in neighbours(frame):
        assert colours[one] != colours[other]


def neighbours(frame: Frame) -> set[tuple[int, int]]:
    """Return the pairs of starts of neighbouring jobs, found by comparing all of them."""
    columns = frame.columns
    end_s = np.full(len(columns["job.id"]), np.inf)
    end_s[columns["end.job"]] = columns["end.time_s"]
    start = np.repeat(np.arange(len(columns["start.job"])), columns["start.boxes"])
    edges = [columns[name].tolist() for name in ("box.first", "box.last")]
    boxes: list[tuple[int, int, int]] = list(zip(start.tolist(), *edges, strict=True))
    begin_s, until_s = columns["start.time_s"], end_s[columns["start.job"]]
    found: set[tuple[int, int]] = set()
    last: dict[int, int] = {}
    for one, low, high in boxes:
        for other, first, end in boxes:
            together = begin_s[one] < until_s[other] and begin_s[other] < until_s[one]
            if one < other and together and (high + 1 == first or end + 1 == low):
                found.add((one, other))
        for core in range(low, high + 1):
            if core in last and last[core] != one:
                found.add((last[core], one))
            last[core] = one
    return found
