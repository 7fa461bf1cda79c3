"""Schedules side by side, as Gantt charts: the best heuristic's, and those of the best agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpcosim_client import Policy, make_policy
from hpcosim_client.agents.pairing.policy import pairing
from hpcosim_client.agents.pairing.settings import Objective
from hpcosim_scenarios.figures.gantt import JobRow, boxes
from hpcosim_scenarios.figures.schedule import COLOURS, drawing
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.record.metrics import energies
from hpcosim_studies import FOLDER
from hpcosim_studies.ineps.agents_tables import MEASURES, best_without
from hpcosim_studies.ineps.heuristics import Results
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FEW_CORES = 200  # jobs on more are too thin to have edges


def draw_schedules(
    experiment: str, results: Results, models: Mapping[str, Path], path: Path
) -> None:
    """Draw a chart a scheduler, a column for each objective.

    Args:
        experiment: the scenario.
        results: of heuristics; the best that does not draw is shown.
        models: files of agents by `LABEL, OBJECTIVE`.
        path: of the picture.
    """
    _, pyplot = drawing()
    library = Library([FOLDER / "ineps" / f"{experiment}.yaml"])
    columns = [_runs(experiment, library, results, models, aim) for aim in MEASURES]
    rows = max(map(len, columns))
    figure, panels = pyplot.subplots(
        rows, 2, figsize=(13, 2.6 * rows), sharex="col", layout="constrained", squeeze=False
    )
    for number, runs in enumerate(columns):
        for axes, (title, simulation) in zip(panels[:, number], runs.items(), strict=True):
            _draw(axes, simulation, library.first_jobs)
            axes.set_title(f"{title}: {_figures(simulation)}", loc="left", fontsize=8)
        panels[0, number].set_xlim(0, max(max(run.recording.end_s) for run in runs.values()))
        panels[-1, number].set_xlabel("simulated time, s", fontsize=8)
    figure.suptitle(f"{experiment}: jobs on cores, a colour a profile", fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _runs(
    experiment: str,
    library: Library,
    results: Results,
    models: Mapping[str, Path],
    objective: Objective,
) -> dict[str, Simulation]:
    """Return what is drawn for an objective, by title."""
    name, _ = best_without(results, experiment, objective)
    policies = {name: make_policy(name)}
    for label, model in models.items():
        if label.endswith(f", {objective}"):
            kind = label.removesuffix(f", {objective}")
            policies[f"{kind}, for {MEASURES[objective].title}"] = pairing(model)
    return {title: _run(library, policy) for title, policy in policies.items()}


def _run(library: Library, policy: Policy) -> Simulation:
    opened = open_scenario(library.first, library.first_jobs, "")
    run_in_process(opened, policy)
    return opened.simulation


def _figures(simulation: Simulation) -> str:
    found = energies(simulation.record())
    return f"{found['energy_j']:,.0f} J, {found['edp_js'] / 1e3:,.1f} kJ s"


def _draw(axes: Axes, simulation: Simulation, jobs: JobTable) -> None:
    from matplotlib.collections import PolyCollection

    recording = simulation.recording
    rows = [
        JobRow(
            recording.submit_s[row],
            recording.start_s[row],
            recording.end_s[row],
            "completed",
            recording.cores[row],
            [(node, node) for node in recording.nodes_of(row)],
        )
        for row in range(len(recording))
    ]
    cores_by_node = simulation.cluster.platform.cores_by_node()
    shapes, colours = [], []
    for box in boxes(rows, cores_by_node):
        left, right = recording.start_s[box.row], recording.end_s[box.row]
        top = box.last + 1
        shapes.append([(left, box.first), (right, box.first), (right, top), (left, top)])
        colours.append(COLOURS[int(jobs.profile[box.row]) % len(COLOURS)])
    few = sum(cores_by_node) <= FEW_CORES
    edges = {"edgecolors": "white", "linewidths": 0.3} if few else {"edgecolors": "none"}
    axes.add_collection(PolyCollection(shapes, facecolors=colours, zorder=2, **edges))
    for edge in np.cumsum(cores_by_node)[:-1]:
        axes.axhline(edge, color="#dddddd", linewidth=0.5, zorder=1)
    axes.set_ylim(0, sum(cores_by_node))
    axes.set_ylabel("core", fontsize=8)
    axes.tick_params(labelsize=7)
