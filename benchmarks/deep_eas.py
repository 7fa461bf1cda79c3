"""Deep-EAS: time per decision in process and over tcp, and speed of the vector environment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.wire import two_processes
from hpcosim_client import View, play
from hpcosim_gym.learning.networks import arrays_of
from hpcosim_gym.learning.rollout import collect
from hpcosim_papers.deep_eas.agent.network import DeepEasMetadata, Scene, network_of, save_deep_eas
from hpcosim_papers.deep_eas.agent.policy import DeepEasRounds
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Sees
from hpcosim_papers.deep_eas.environments.step_binding import StepBindingVectorEnv
from hpcosim_papers.deep_eas.environments.step_machines import (
    machines_of,
    model_of,
    sequence,
    step_jobs,
)
from hpcosim_papers.deep_eas.learners.networks import Network, initialise, join
from hpcosim_papers.deep_eas.learners.networks import network_of as new_network
from hpcosim_papers.deep_eas.learners.train import BindingRuns, make_sampler
from hpcosim_scenarios.running.library import Library, rules_of
from hpcosim_schedulers.agents.rounds import by_rounds, sampled
from hpcosim_sim.engine.simulation import Simulation

SCENARIO = Path(__file__).parents[1] / "scenarios" / "papers" / "deep_eas" / "lambda_0.9.yaml"
FORMS: tuple[Sees, ...] = ("picture", "pairs")
SEQUENCES = 256  # in the vector environment
TRAJECTORIES = 8  # sequences that share a random generator


def run(smoke: bool) -> dict[str, float]:
    """Return the figures, with randomly initialised networks and sampled actions."""
    torch.set_num_threads(1)
    library = Library([SCENARIO], {"workload.synthetic.sequences": 1 if smoke else 20})
    figures = {}
    for sees in FORMS:
        network = new_network(DeepEas(sees=sees, masked=True))
        initialise(network, torch.Generator().manual_seed(0))
        clock = _Clock(network)
        run_s = _play_s(library, clock.decide)
        figures[f"{sees}, network, us/decision"] = 1e6 * clock.network_s / clock.decisions
        figures[f"{sees}, decision in process, us"] = 1e6 * clock.all_s / clock.decisions
        wire_s = _over_the_wire_s(library, network)
        figures[f"{sees}, whole run over tcp, us/decision"] = 1e6 * wire_s / clock.decisions
        simulator_rate = clock.decisions / run_s
        vector_rate = _vector_rate(library, network, 8 if smoke else SEQUENCES)
        figures[f"{sees}, vector environment / simulator, decisions/s"] = (
            vector_rate / simulator_rate
        )
    return figures


class _Clock:
    """The policy `deep-eas-sampled` with timers."""

    def __init__(self, network: Network) -> None:
        weights = arrays_of(network.state_dict())
        self.network = network_of(network.settings, weights)
        self.rng = np.random.default_rng(0)
        self.policy = by_rounds(lambda view: DeepEasRounds(network.settings, view), self.choose)
        self.decisions, self.network_s, self.all_s = 0, 0.0, 0.0

    def decide(self, view: View) -> None:
        """Decide and add the wall time of the decision."""
        began_s = time.perf_counter()
        self.policy(view)
        self.all_s += time.perf_counter() - began_s

    def choose(self, _: View, scene: Scene) -> int:
        """Sample an action and add the wall time of the network."""
        began_s = time.perf_counter()
        logits = self.network(scene)[0]
        self.network_s += time.perf_counter() - began_s
        self.decisions += 1
        return sampled(logits, self.rng)


def _play_s(library: Library, decide: Callable[[View], None]) -> float:
    """Return the wall time of the run in one process."""
    scenario = library.first
    simulation = Simulation(scenario.platform, library.first_jobs, rules_of(scenario))
    began_s = time.perf_counter()
    play(decide, scenario.platform, simulation.advance)
    return time.perf_counter() - began_s


def _over_the_wire_s(library: Library, network: Network) -> float:
    """Return the wall time of the run in two processes."""
    with TemporaryDirectory() as folder:
        model = Path(folder) / "deep-eas.safetensors"
        save_deep_eas(
            model, arrays_of(network.state_dict()), DeepEasMetadata(settings=network.settings)
        )
        scenario, jobs = library.first, library.first_jobs
        wall_s, _ = two_processes(
            "tcp://127.0.0.1:*",
            scenario.platform,
            jobs,
            f"deep-eas-sampled:{model}",
            rules_of(scenario),
        )
    return wall_s


def _vector_rate(library: Library, network: Network, runs: int) -> float:
    """Return the decisions/s of the vector environment."""
    scenario, rng = library.first, np.random.default_rng(0)
    machines = machines_of(scenario, network.settings, SCENARIO)
    tables = [sequence(model_of(scenario, SCENARIO), rng) for _ in range(runs)]
    jobs = step_jobs(machines.settings, machines.scale, tables)
    env = StepBindingVectorEnv(machines=machines, jobs=jobs)
    rngs = [np.random.default_rng(number) for number in range(-(-runs // TRAJECTORIES))]
    began_s = time.perf_counter()
    rollout = collect(BindingRuns(env), make_sampler(network, rngs, TRAJECTORIES), join)
    return len(rollout) / (time.perf_counter() - began_s)
