"""The node-centric study of Stafford and Bosque (2024), made anew, week by week.

E. Stafford, J. L. Bosque, "Enhancing heterogeneous cluster efficiency through node-centric
scheduling", J. Supercomputing 80, 2024. Two schedulers that take jobs as they come and choose
nodes, HighGFlops and LowPower, against MinMin, MaxMin and Duplex, on the weeks of the KIT FH2
log. What the paper leaves open is run in every reading; `scenarios/papers/node_centric/README.md`
says what came of it.
"""

from __future__ import annotations

from pathlib import Path

from hpcosim_scenarios.figures.schedule import drawing
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_studies.node_centric.comparison import facts, representative_week, write_rows
from hpcosim_studies.node_centric.pictures import draw_cap, draw_week
from hpcosim_studies.node_centric.readings import BASE, CAPS, WHOLE_LOG, WORKERS
from hpcosim_studies.node_centric.tables import write_summary
from hpcosim_studies.node_centric.weeks import run_all, tasks_of
from hpcosim_workloads.table import JobTable


def reproduce(out: Path) -> None:
    """Run the whole study on the KIT log and write table and pictures into a folder.

    Raises:
        ScenarioError, WorkloadError: the scenario, or the log it names, can't be read.
        RunError: a simulation failed.
        FigureError: matplotlib is missing.
    """
    scenario = load_scenario(BASE, WHOLE_LOG)
    study(scenario, jobs_of(scenario, BASE.parent), out)


def study(scenario: Scenario, jobs: JobTable, out: Path, workers: int = WORKERS) -> None:
    """Run the study on any log.

    Args:
        scenario: its platform is used, with the idle power of the reading `fraction`.
        jobs: the log.
        out: folder for the results; files of the same names are replaced.
        workers: processes to simulate in.
    """
    drawing()  # what is missing shows now, not after all simulations
    out.mkdir(parents=True, exist_ok=True)
    tasks = [task for cap in CAPS for task in tasks_of(scenario, jobs, cap)]
    rows = run_all(tasks, workers)
    write_rows(out / "results.csv", rows)
    drawn = {cap: representative_week(rows, cap) for cap in CAPS}
    for cap in CAPS:
        draw_cap(out, cap, rows)
        draw_week(out, cap, [task for task in tasks if (task.cap, task.week) == (cap, drawn[cap])])
    write_summary(out / "summary.md", rows, facts(jobs, rows, drawn))
