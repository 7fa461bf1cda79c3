"""What happened to the jobs of a scene, recorded and simulated."""

from __future__ import annotations

import csv
import re
from datetime import datetime
from pathlib import Path

from hpcosim_client import play
from hpcosim_schedulers.slurm.policy import SlurmPolicy, slurm
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.periods import PERIOD_ENDS
from hpcosim_sim.record.recording import STATES
from support.golden_slurm import (
    job_table_of,
)
from support.sbatch_jobs import NODES, host_names
from support.scene_jobs import Scene, SceneRun


def recorded_runs(folder: Path, t0: float) -> dict[str, list[SceneRun]]:
    """Return the runs of each job by the name that sacct shows."""
    runs: dict[str, list[SceneRun]] = {}
    with (folder / "sacct.psv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE):
            times = []
            for column in ("Start", "End"):
                shown = row[column]
                ran = re.match(r"\d{4}-", shown) is not None
                at = datetime.fromisoformat(shown + "+00:00").timestamp() - t0 if ran else None
                times.append(at)
            nodes = tuple(sorted(host_names(row["NodeList"]))) if times[0] is not None else ()
            if row["NodeList"].startswith("None"):
                times[0], nodes = None, ()
            state = row["State"].split()[0]
            runs.setdefault(row["JobID"], []).append(SceneRun(times[0], times[1], state, nodes))
    return runs


def play_scene(scene: Scene) -> tuple[dict[str, list[SceneRun]], SlurmPolicy]:
    """Return what happens to the jobs of a scene under the policy `slurm`."""
    policy = slurm(parse_site(scene.settings))
    simulation = Simulation(scene.platform, job_table_of(scene.jobs), site_events=scene.events)
    play(policy, scene.platform, simulation.advance)
    return _simulated(simulation, scene.names), policy


def _simulated(simulation: Simulation, names: dict[int, str]) -> dict[str, list[SceneRun]]:
    """Return the runs of each job by the name that sacct shows."""
    recording = simulation.recording
    periods = recording.periods
    found: dict[str, list[SceneRun]] = {}
    of_run: dict[tuple[int, int], SceneRun] = {}
    for number in range(len(periods)):
        row, run = periods.row[number], periods.run[number]
        why = PERIOD_ENDS[periods.why[number]]
        end_s = periods.end_s[number]
        if (row, run) in of_run:
            of_run[row, run].end_s, of_run[row, run].state = end_s, why
            continue
        first = periods.first_place[number]
        places = periods.nodes[first : first + periods.places[number]]
        nodes = tuple(sorted(NODES[node] for node in places))
        of_run[row, run] = SceneRun(periods.start_s[number], end_s, why, nodes)
        found.setdefault(names[recording.job_id[row]], []).append(of_run[row, run])
    for row, job_id in enumerate(recording.job_id):
        if names[job_id] not in found:
            state = STATES[recording.state[row]]
            found[names[job_id]] = [SceneRun(None, float(recording.end_s[row]), state, ())]
    return found


STATES_OF_SACCT = {
    "requeued": "REQUEUED",
    "requeued_node_failed": "NODE_FAIL",
    "suspended_requeued": "REQUEUED",
    "suspended_requeued_node_failed": "NODE_FAIL",
    "node_failed": "NODE_FAIL",
    "killed": "CANCELLED",
}


def differences(name: str, scene: Scene, found: dict[str, list[SceneRun]]) -> list[str]:
    """Return the runs of jobs that differ from the recorded ones.

    A run is the same if it starts within 5 s, on the same nodes, and ends in the same state. Jobs
    that Slurm refused at their submission are left out.
    """
    wrong = []
    shown = {scene.names[job.job_id]: job for job in scene.jobs}
    for number, real_runs in scene.runs.items():
        if number not in shown:
            continue
        ours = found.get(number, [])
        request = shown[number].request
        label = f"{number} {request.name}" if request is not None else number
        for at, real in enumerate(real_runs):
            if at >= len(ours):
                wrong.append(f"{label}: run {at + 1} is missing")
                continue
            own = ours[at]
            state = STATES_OF_SACCT.get(own.state, own.state.upper())
            if name == "preempt_qos" and state == "REQUEUED":
                state = "PREEMPTED"  # sacct calls a preempted run so, whatever becomes of it
            same_start = (own.start_s is None) == (real.start_s is None) and (
                own.start_s is None or abs(own.start_s - (real.start_s or 0.0)) <= 5.0
            )
            if not (same_start and own.nodes == real.nodes and state == real.state):
                wrong.append(f"{label}: {_shown(own, state)}; real: {_shown(real, real.state)}")
    return wrong


def _shown(run: SceneRun, state: str) -> str:
    start = "never" if run.start_s is None else f"{run.start_s:.1f} s on {','.join(run.nodes)}"
    return f"{start}, {state}"
