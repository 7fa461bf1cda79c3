"""Small scenarios of the simulated runs, and the results that an undisturbed run of each has."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from hpcosim_client import play
from hpcosim_client.connection import Answer
from hpcosim_protocol import Hello
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy
from hpcosim_sim.record.results import metrics_of, write_results

SCENES = 12
"""Number of scenarios."""
POLICIES = ("fcfs", "easy", "sjf", "smallest")
"""Policies that decide by their view only, so that they continue from a snapshot."""
STATEFUL = ("first-random", "random-random")
"""Policies with a state of their own, which need the history of their session to continue."""

_TEXT = """
name: scene{number}
seed: {number}
platform:
  nodes:
    - count: {nodes}
      processors: [{{cores: 4, static_w: 100, dynamic_w: 5, idle_fraction: 0.5}}]
      {power}
    - count: 1
      processors:
        - {{cores: 2, static_w: 30, dynamic_w: 7}}
        - {{cores: 1, static_w: 20, dynamic_w: 0}}
workload:
  synthetic: {{model: poisson, jobs: {jobs}, mean_interarrival_s: {gap}, cores: [1, {cores}],
    run_s: [10, 2000]}}
kill_at_walltime: {kill}
"""
_POWER = (
    "power_states: {sleep_w: 1, switch_on_s: 10, switch_on_w: 20, switch_off_s: 5, switch_off_w: 9}"
)


@cache
def library() -> Library:
    """Return the scenarios of all simulated runs."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"scene{number}.yaml" for number in range(SCENES)]
        for number, path in enumerate(paths):
            path.write_text(_scene(number, chance), encoding="utf-8")
        return Library(paths)


def _scene(number: int, chance: random.Random) -> str:
    nodes = chance.randint(1, 4)
    return _TEXT.format(
        number=number,
        nodes=nodes,
        power=_POWER if chance.random() < 0.3 else "",
        jobs=chance.randint(3, 20),
        gap=chance.choice((20, 200)),
        cores=nodes * 4,
        kill=chance.choice(("true", "false")),
    )


@cache
def undisturbed(scenario: str, policy: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the metrics and the text of the results of a run without network and faults."""
    opened = library().open(Hello(versions=[1], client=policy, scenario=scenario))
    simulation = opened.simulation
    opened.run.policy = {"name": policy}

    def send(decisions: Any, wake_on: Any, elapsed_s: float) -> Answer:
        batch = simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)
        return Answer(batch.now_s, batch.events, batch.ended, {})

    wakes = simulation.rules.wake_on_allocation
    platform, seed = simulation.cluster.platform, opened.run.seed
    play(make_policy(policy), platform, send, seed=seed, wake_on_allocation=wakes)
    opened.complete()
    simulation.validate()
    with tempfile.TemporaryDirectory() as folder:
        write_results(Path(folder), simulation.record(), opened.run)
        files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}
    return dict(metrics_of(simulation.record(), opened.run)), files
