"""The power manager `empirical`: its compiled simulations and its training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")
pytest.importorskip("safetensors", reason="training needs the extra rl")

from hpcosim_papers.power.environments.rises_compiled import simulate as simulate_compiled
from hpcosim_papers.power.learners.rises_search import RisesSearch, train_rises
from hpcosim_protocol import PowerStates
from hpcosim_schedulers import make_policy, managed
from hpcosim_schedulers.predictive.empirical import by_weights
from hpcosim_schedulers.predictive.rises import WEIGHTS
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_workloads.table import JobTable
from support.interrupted import StoppedError, stop_at
from support.power_manager_runs import nodes_of, switched
from support.simulating import jobs_of, simulate


def workload(seed: int, jobs: int = 150) -> JobTable:
    """Return jobs in bursts, of up to 10 nodes of 16."""
    rng = np.random.default_rng(seed)
    gaps_s = rng.exponential(1500.0, jobs) * (rng.random(jobs) < 0.5)
    runs_s = rng.exponential(900.0, jobs) + 1.0
    asked_s = runs_s * rng.uniform(1.0, 3.0, jobs)
    cores = np.minimum(rng.geometric(0.3, jobs), 10)
    columns = (gaps_s.cumsum(), runs_s, cores, asked_s)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return jobs_of(*rows, placement="whole_nodes")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_compiled_simulation_is_that_of_the_manager(seed: int) -> None:
    """All starts and changes of power states are equal, for random weights and prices."""
    rng = np.random.default_rng(seed)
    states = PowerStates(5.0, float(rng.uniform(5.0, 600.0)), 80.0, 40.0, 20.0)
    platform, jobs, price_w = nodes_of(16, states), workload(seed), float(rng.uniform(5.0, 100.0))
    weights = rng.normal(0.0, 0.3, WEIGHTS)
    policy = managed(make_policy("easy", "planned"), by_weights(weights, price_w))
    reference = simulate(platform, jobs, policy)
    state = simulate_compiled(platform, jobs, weights, price_w)
    assert state.jobs.start_s.tolist() == list(reference.recording.start_s)
    assert state.power is not None
    changes = state.power.changes[: int(state.power.g.changes[0])]
    names = [POWER_STATES[each] for each in changes.state.tolist()]
    found = sorted(zip(changes.at_s.tolist(), changes.node.tolist(), names, strict=True))
    assert found == switched(reference)
    assert len({state for _, _, state in found}) == 4


SCENARIO = """
name: tiny
platform:
  nodes:
    - count: 8
      processors: [{cores: 1, static_w: 100, dynamic_w: 0}]
      power_states:
        {sleep_w: 5, switch_on_s: 100, switch_on_w: 80, switch_off_s: 40, switch_off_w: 20}
workload:
  placement: whole_nodes
  synthetic: {model: poisson, jobs: 400, mean_interarrival_s: 200, cores: [1, 4], run_s: [10, 900]}
scheduler: {name: easy, power_awareness: planned}
"""


@pytest.mark.slow
def test_a_search_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """The result of two parts is that of the whole; another seed has another one."""
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    sizes = {"windows": 4, "sample": 2, "jobs": 180, "generations": 2, "candidates": 5, "elite": 2}
    settings = RisesSearch(**sizes)  # type: ignore[arg-type]
    whole = train_rises(path, tmp_path / "whole", settings)
    with pytest.raises(StoppedError):
        train_rises(path, tmp_path / "parts", settings, report=stop_at(1))
    parts = train_rises(path, tmp_path / "parts", settings, resume=True)
    assert parts.read_bytes() == whole.read_bytes()
    other = train_rises(path, tmp_path / "other", replace(settings, seed=1))
    assert other.read_bytes() != whole.read_bytes()
