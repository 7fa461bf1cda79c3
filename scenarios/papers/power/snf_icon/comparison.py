"""SNF-ICON and its planner beside the figures of its authors' program.

`python -m papers.power.snf_icon.comparison [--seeds 42,1,2] [--platform AOBA] [--workloads FS1,FS2]
[--policies "NAME;..."]` prints a table: mean and spread of this program over seeds of the switching
times, beside the authors' figures with seed 42. It needs the authors' workloads, see `SHARED`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from hpcosim_client import View, play
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_scenarios.planning.cheapest_switching import Schedule, cheapest_switching, schedule_of
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.power.settings import AlwaysOn, Awareness, Icon, Power, Timeout
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_workloads.table import JobTable, job_table

SHARED = Path(__file__).parents[5] / "shared" / "golden" / "snf_icon"
"""Folder of the authors' workloads, on machines that have them."""

LOGS: Mapping[str, str] = {
    "FS1": "DAS2-fs1-0-3000",
    "FS2": "DAS2-fs2-0-3000",
    "Markovian": "generated-markovian-3000",
}

AOBA = NodeGroup(
    64,
    (Processor(1, 1.0, 600.0, 1500.0),),
    power_states=PowerStates(60.0, 1200.0, 600.0, 600.0, 600.0, 60.0, 60.0),
)
TAURUS = NodeGroup(
    64,
    (Processor(1, 1.0, 91.0, 76.0),),
    power_states=PowerStates(8.0, 182.0, 130.0, 15.0, 110.0, 18.2, 1.5),
)
PLATFORMS: Mapping[str, NodeGroup] = {"AOBA": AOBA, "Taurus": TAURUS}


class Setting(NamedTuple):
    """A job scheduler beside a power manager."""

    scheduler: str
    power: Power
    awareness: Awareness = "ipm"


POLICIES: Mapping[str, Setting] = {
    "EASY, always on": Setting("easy", AlwaysOn(), "unaware"),
    "SNF, always on": Setting("snf", AlwaysOn(), "unaware"),
    "EASY + IPM, 2 h": Setting("easy", Timeout(7200.0)),
    "SNF + IPM, 2 h": Setting("snf", Timeout(7200.0)),
    "SNF + IPM, 30 min": Setting("snf", Timeout(1800.0)),
    "SNF-ICON": Setting("snf", Icon()),
    "SNF-ICON-NG": Setting("snf", Icon(gate_s=None)),
    "SNF-ICON-NF": Setting("snf", Icon(fallback=False)),
    "SNF-ICON-NGNF": Setting("snf", Icon(gate_s=None, fallback=False)),
}

CLAIRVOYANT = "clairvoyant"
"""SNF by true run times on nodes that are on, switched at the least waste without delays."""

AUTHORS: Mapping[tuple[str, str], tuple[float, float, float, int]] = {
    ("FS1", "EASY, always on"): (628, 1474, 178.25, 0),
    ("FS1", "SNF, always on"): (627, 1474, 178.25, 0),
    ("FS1", "EASY + IPM, 2 h"): (948, 2671, 36.29, 2935),
    ("FS1", "SNF + IPM, 2 h"): (929, 2595, 36.12, 2927),
    ("FS1", "SNF + IPM, 30 min"): (1058, 3520, 29.22, 4868),
    ("FS1", "SNF-ICON"): (927, 2605, 36.25, 2954),
    ("FS1", CLAIRVOYANT): (522, 19, 22.90, 3293),
    ("FS2", "EASY, always on"): (6873, 428, 174.65, 0),
    ("FS2", "SNF, always on"): (3683, 428, 174.65, 0),
    ("FS2", "EASY + IPM, 2 h"): (7150, 1396, 32.17, 2314),
    ("FS2", "SNF + IPM, 2 h"): (3951, 1474, 31.82, 2244),
    ("FS2", "SNF + IPM, 30 min"): (4120, 1646, 26.31, 3859),
    ("FS2", "SNF-ICON"): (3949, 1471, 31.90, 2254),
    ("FS2", CLAIRVOYANT): (3613, 270, 21.68, 2918),
    ("Markovian", "SNF, always on"): (0.8, 0, 56.73, 0),
    ("Markovian", "EASY + IPM, 2 h"): (234, 1266, 20.01, 1746),
    ("Markovian", "SNF + IPM, 2 h"): (185, 1246, 20.14, 1740),
    ("Markovian", "SNF + IPM, 30 min"): (393, 1892, 14.79, 3633),
    ("Markovian", "SNF-ICON"): (135, 1171, 21.38, 1945),
    ("Markovian", CLAIRVOYANT): (0.8, 0, 11.07, 3928),
}
"""Mean wait, s; 95 % wait, s; wasted energy, GJ; switch-ons: the authors' program on AOBA."""


class Outcome(NamedTuple):
    """What a run is compared by.

    Attributes:
        wait_s: mean wait, s.
        p95_wait_s: 95th percentile of the wait, s.
        wasted_gj: energy of nodes without a running job until the last completion, GJ.
        switch_ons: number of times that a node was switched on.
        decision_s: CPU time of each decision of the scheduler, s.
    """

    wait_s: float
    p95_wait_s: float
    wasted_gj: float
    switch_ons: int
    decision_s: tuple[float, ...] = ()


def log(folder: Path, name: str) -> JobTable:
    """Return a workload of `LOGS` from a file of the authors.

    The field `res` is the number of nodes, times are in seconds from the start of the simulation.
    """
    with gzip.open(folder / f"{LOGS[name]}.json.gz") as file:
        rows = json.load(file)["jobs"]
    return job_table(
        job_id=[row["job_id"] for row in rows],
        submit_s=[row["subtime"] for row in rows],
        run_s=[row["runtime"] for row in rows],
        requested_s=[row["reqtime"] for row in rows],
        cores=[row["res"] for row in rows],
    )


def exponential(jobs: int, nodes: int, seed: int = 1) -> JobTable:
    """Return jobs that SNF-ICON models well: Poisson submissions, exponential run times.

    Requested times are independent of run times, so that half of the jobs overrun.

    Args:
        nodes: number of nodes, of which a quarter is busy in the mean.
    """
    rng = np.random.default_rng(seed)
    cores = rng.geometric(0.25, jobs).clip(max=nodes)
    return job_table(
        job_id=range(1, jobs + 1),
        submit_s=rng.exponential(4.0 * 4.0 * 3600.0 / nodes, jobs).cumsum(),
        run_s=rng.exponential(3600.0, jobs),
        requested_s=rng.exponential(3600.0, jobs).clip(min=1.0),
        cores=cores,
    )


def run(setting: Setting, jobs: JobTable, group: NodeGroup, seed: int) -> Outcome:
    """Simulate a workload; jobs that overrun their requests go on."""
    platform = Platform((group,))
    rules = Rules(initial_time_s=0.0)
    simulation = Simulation(platform, jobs, rules, rng=np.random.default_rng(seed))
    policy = with_power(*setting)
    decision_s = []

    def decide(view: View) -> None:
        began_s = time.thread_time()
        policy(view)
        decision_s.append(time.thread_time() - began_s)

    play(decide, platform, simulation.advance)
    return _outcome(simulation)._replace(decision_s=tuple(decision_s))


def clairvoyant(jobs: JobTable, group: NodeGroup) -> Outcome:
    """Return the outcome of SNF by true run times and the least waste that delays no job.

    Switching takes its mean time.
    """
    states = group.power_states
    assert states is not None
    states = replace(states, switch_on_sd_s=0.0, switch_off_sd_s=0.0)
    known = job_table(
        job_id=jobs.job_id,
        submit_s=jobs.submit_s,
        run_s=jobs.run_s,
        requested_s=jobs.run_s,
        cores=jobs.cores,
    )
    platform = Platform((replace(group, power_states=states),))
    simulation = Simulation(platform, known, Rules(initial_time_s=0.0))
    policy = with_power("snf", AlwaysOn())
    play(policy, platform, simulation.advance)
    plan = cheapest_switching(_lasting(schedule_of(simulation)), group.idle_w, states)
    switch_ons = sum(switch.nodes for switch in plan.switches if switch.state == "on")
    wasted_gj = plan.wasted_j / 1e9
    return _outcome(simulation)._replace(wasted_gj=wasted_gj, switch_ons=switch_ons)


def _lasting(schedule: Schedule) -> Schedule:
    """Return a schedule without the jobs that take no time, which the optimum does not support."""
    lasts = schedule.job_end_s > schedule.job_start_s
    return Schedule(
        nodes=schedule.nodes,
        start_s=schedule.start_s,
        end_s=schedule.end_s,
        job_start_s=schedule.job_start_s[lasts],
        job_end_s=schedule.job_end_s[lasts],
        job_nodes=schedule.job_nodes[lasts],
    )


def _outcome(simulation: Simulation) -> Outcome:
    metrics = measure(simulation.record())
    switched = simulation.recording.power_state
    return Outcome(
        metrics["mean_wait_s"],
        metrics["p95_wait_s"],
        metrics["wasted_energy_j"] / 1e9,
        switched.count(POWER_STATES.index("switching_on")),
    )


def row_of(folder: Path, workload: str, policy: str, platform: str, seeds: Sequence[int]) -> str:
    """Return a line of the table: each figure as mean and spread, beside the authors'."""
    group, jobs = PLATFORMS[platform], log(folder, workload)
    if policy == CLAIRVOYANT:
        outcomes = [clairvoyant(jobs, group)]
    else:
        outcomes = [run(POLICIES[policy], jobs, group, seed) for seed in seeds]
    authors = AUTHORS.get((workload, policy)) if platform == "AOBA" else None
    cells = [_cell(outcomes, at, None if authors is None else authors[at]) for at in range(4)]
    if decisions_s := [each for outcome in outcomes for each in outcome.decision_s]:
        cells.append(f"{1e3 * np.mean(decisions_s):.2f} / {1e3 * max(decisions_s):.0f}")
    else:
        cells.append("")
    return f"| {workload} | {policy} | {' | '.join(cells)} |"


def _cell(outcomes: Sequence[Outcome], at: int, authors: float | None) -> str:
    """Return a figure: mean, standard deviation over seeds, and the authors' in parentheses."""
    values = np.array([outcome[at] for outcome in outcomes], dtype=np.float64)
    digits = 2 if at == 2 else 1 if values.mean() < 10 and at == 0 else 0
    text = f"{values.mean():,.{digits}f}"
    if len(values) > 1:
        text += f" ± {values.std(ddof=1):,.{digits}f}"
    return text if authors is None else f"{text} ({authors:,.{digits}f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the workloads")
    parser.add_argument("--seeds", default="42,1,2,3,4")
    parser.add_argument("--platform", default="AOBA", choices=list(PLATFORMS))
    parser.add_argument("--workloads", default=",".join(LOGS))
    parser.add_argument("--policies", default=";".join([*POLICIES, CLAIRVOYANT]))
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"{options.data}: there is no such folder; expected the authors' workloads")
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print(
        "| workload | policy | mean wait s | 95 % wait s | wasted GJ | switch-ons | decision ms |"
    )
    print("|---|---|---|---|---|---|---|")
    for workload in options.workloads.split(","):
        for policy in options.policies.split(";"):
            print(row_of(options.data, workload, policy, options.platform, seeds), flush=True)


if __name__ == "__main__":
    main()
