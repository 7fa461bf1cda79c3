"""The rule on the forecast, and the search over plans."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import View
from hpcosim_papers.ineps.agent.forecast_features import Choices
from hpcosim_papers.ineps.agent.plan_search import PlanSearch, Searching
from hpcosim_papers.ineps.agent.policy import PairingRounds
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_protocol import Contention, NodeGroup, Platform, Processor
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.agents.rounds import by_rounds
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import JobTable, job_table
from support.examples import examples
from support.paths import SCENARIOS
from support.simulating import cluster_of, jobs_of, simulate, starts

EXPERIMENT_1 = SCENARIOS / "papers" / "ineps" / "exp1.yaml"
CONTENTION = Contention(21_000, -1.85e-5, 1.0, 169, 25_000, 100)
NODES = [
    Processor(cores, ghz, 50.0, 7.0, 0.4, contention=CONTENTION)
    for cores, ghz in ((4, 2.0), (8, 1.0))
]
PLATFORM = Platform(tuple(NodeGroup(2, (node,)) for node in NODES))


def some_jobs(random: Random) -> JobTable:
    """Return up to twelve jobs of two kinds; requested times are exact."""
    kinds = [(random.randint(1, 4), random.uniform(1.0, 20.0), 1e5 * random.random()) for _ in "ab"]
    rows = range(random.randint(1, 12))
    chosen = [random.choice(kinds) for _ in rows]
    return job_table(
        job_id=rows,
        submit_s=sorted(random.choice([0.0, random.uniform(0.0, 10.0)]) for _ in rows),
        run_s=[run_s for _, run_s, _ in chosen],
        requested_s=[run_s for _, run_s, _ in chosen],
        ops=[run_s * 1e9 for _, run_s, _ in chosen],
        cores=[cores for cores, _, _ in chosen],
        memory_volume_mb=[volume for _, _, volume in chosen],
        placement=1,
    )


def searched(
    objective: Objective, jobs: JobTable, settings: Searching
) -> tuple[list[tuple[float, float]], Simulation]:
    """Run a search; return the cost of each plan, and its cost with the rule's choice instead."""
    rounds: Any = None
    search: Any = None
    costs = []

    def new(view: View) -> PairingRounds:
        nonlocal rounds, search
        search = PlanSearch(objective, view, settings)
        new_rounds = rounds = PairingRounds(Pairing(objective=objective), view)
        return new_rounds

    def choose(view: View, choices: Choices) -> int:
        choice: int = search.choose(view, choices, rounds.forecast)
        costs.append((search.plan.cost, search.rule_cost))
        return choice

    return costs, simulate(PLATFORM, jobs, by_rounds(new, choose))


@pytest.mark.parametrize("objective", ["energy", "edp"])
@given(st.randoms(use_true_random=False))
@examples(20)
def test_a_plan_is_not_worse_than_with_the_rules_choice(
    objective: Objective, random: Random
) -> None:
    """By its own forecast, and all jobs run."""
    costs, _ = searched(objective, some_jobs(random), Searching(steps=20, again=5, hold=0.0))
    assert costs
    for cost, rule_cost in costs:
        assert cost <= rule_cost * (1.0 + 1e-9)


@given(st.randoms(use_true_random=False))
@examples(20)
def test_the_last_plan_is_what_happens(random: Random) -> None:
    """If run times are exact and all jobs are submitted, the forecast cost is the energy."""
    jobs = some_jobs(random)
    jobs = jobs.at(np.zeros(len(jobs)))
    costs, simulation = searched("energy", jobs, Searching(steps=20, again=5))
    simulation.cluster.settle(simulation.now_s)
    energy_j = sum(meter.energy_j for meter in simulation.cluster.meters)
    assert costs[-1][0] == pytest.approx(energy_j, rel=1e-9)


@pytest.mark.parametrize("watts", [0.0, 5.0])
def test_jobs_run_whatever_nodes_draw(watts: float) -> None:
    """Also without idle power, and with limits of their energy, all jobs run."""
    platform = cluster_of(2, 2, static_w=watts, dynamic_w=watts, idle_fraction=0.0)
    jobs = jobs_of(*((float(second), 10.0, 1 + second % 2) for second in range(8)))
    jobs = replace(jobs, max_energy_j=np.array([math.inf, 200.0] * 4))
    assert len(starts(simulate(platform, jobs, "pairing-search-edp"))) == 8


@pytest.mark.parametrize("name", ["rule", "search"])
def test_same_seed_same_schedule(name: str) -> None:
    """Two runs are equal."""
    library = Library([EXPERIMENT_1])

    def run() -> dict[str, Any]:
        opened = open_scenario(library.first, library.first_jobs, name)
        return dict(run_in_process(opened, make_policy(f"pairing-{name}-energy")))

    assert run() == run()


def test_the_search_is_better_than_the_rule_on_experiment_1() -> None:
    """Its energy is that of the optimum within 0.1 %."""
    library = Library([EXPERIMENT_1])
    opened = open_scenario(library.first, library.first_jobs, "search")
    found = run_in_process(opened, make_policy("pairing-search-energy"))
    assert found["energy_j"] == pytest.approx(2736.4, rel=1e-3)
