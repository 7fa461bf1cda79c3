"""Platforms, workloads and policies of the comparison with the authors' program of SNF-ICON."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from hpcosim_client import View, play
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_scenarios.planning.cheapest_switching import Schedule, cheapest_switching
from hpcosim_scenarios.planning.schedule import schedule_of
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.heuristics.awareness import Awareness
from hpcosim_schedulers.power.settings import AlwaysOn, Icon, Power, Timeout
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_workloads.table import JobTable, job_table

SHARED = Path(__file__).parents[2] / "shared" / "golden" / "snf_icon"
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
        jobs: number of jobs.
        nodes: number of nodes, of which a quarter is busy in the mean.
        seed: seed of the draws.
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
    """Simulate a workload; jobs that overrun their requests go on.

    Args:
        setting: job scheduler and power manager.
        jobs: the workload.
        group: the nodes.
        seed: seed of the switching times.
    """
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
