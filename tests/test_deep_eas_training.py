"""Training Deep-EAS: what runs come to, the baseline, the gradient, a whole training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from hpcosim_client import PolicyError
from hpcosim_client.agents.deep_eas.model import load_deep_eas
from hpcosim_client.agents.deep_eas.network import DeepEasNetwork, draw
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.papers import FOLDER
from hpcosim_scenarios.scenario import Scalar
from hpcosim_scenarios.training.deep_eas.environment import Machines, SequenceEnvironment
from hpcosim_scenarios.training.deep_eas.imitation import imitate
from hpcosim_scenarios.training.deep_eas.reinforce import advantages, gradient
from hpcosim_scenarios.training.deep_eas.rollout import explore, watch_esjf
from hpcosim_scenarios.training.deep_eas.settings import Reinforce
from hpcosim_scenarios.training.deep_eas.train import Training, train_deep_eas
from hpcosim_server.errors import WorkloadError
from hpcosim_server.metrics import measure, outcome_of
from hpcosim_server.simulation import Rules
from test_esjf import Drawn, machines, schedule, table

SETTINGS = DeepEas(cores=4)
SCENARIO = FOLDER / "deep_eas" / "lambda_0.9.yaml"
QUICK = Reinforce(iterations=2, pool=3, sequences=2, trajectories=2, imitation=1)


def drawn_jobs(seed: int, count: int = 15) -> list[Drawn]:
    """Return jobs, one a second."""
    rng = np.random.default_rng(seed)
    return [
        Drawn(step, int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        for step in range(count)
    ]


def environments(count: int, seed: int = 0) -> list[SequenceEnvironment]:
    """Return so many environments of one sequence."""
    about = Machines(machines(), Rules(reference_ghz=1.0), SETTINGS)
    return [SequenceEnvironment(about, table(drawn_jobs(seed))) for _ in range(count)]


def network() -> DeepEasNetwork:
    """Return a network as it is drawn."""
    one = DeepEasNetwork(SETTINGS)
    draw(one, torch.Generator().manual_seed(0))
    return one


def rngs(count: int) -> list[np.random.Generator]:
    """Return so many sources of chance."""
    return [np.random.default_rng([7, number]) for number in range(count)]


def test_what_is_still_to_come() -> None:
    """At first all of it, at the end nothing; a job on the dear machine is counted late.

    Two jobs of 1 s and 4 cores (2 s on the second machine): 40 W there, 4 W x 2 s / 1 s here. The
    first starts at once on the first machine, the second at 1 s on the second: 40 x 1 + 8 x 3.
    """
    about = Machines(machines(), Rules(reference_ghz=1.0), SETTINGS)
    environment = SequenceEnvironment(about, table([Drawn(0, 1, 1, 4), Drawn(0, 1, 1, 4)]))
    environment.reset()
    for action in (0, SETTINGS.hold, SETTINGS.queue):  # machine 0, hold, machine 1
        environment.step(action)
    assert environment.done
    assert environment.normalised_edps().tolist() == [40.0, 24.0]
    worths = environment.worths(np.array([0.0, 1.0, 2.0, 3.0]))
    assert worths.tolist() == [-64.0, -16.0, -8.0, 0.0]


def test_what_jobs_came_to_is_the_metric() -> None:
    """Their mean is the server's `mean_normalised_edp` of the run."""
    (environment,) = environments(1)
    explore(network(), [environment], rngs(1))
    metric = measure(outcome_of(environment.simulation))["mean_normalised_edp"]
    assert environment.normalised_edps().mean() == pytest.approx(metric, rel=1e-12)


def test_what_is_to_come_is_the_sum_of_the_papers_rewards() -> None:
    """Equation 2, added up second by second, is the difference between any two times."""
    (environment,) = environments(1)
    explore(network(), [environment], rngs(1))
    costs = environment._costs()
    last_s = int(costs.end_s.max()) + 1
    worths = environment.worths(np.arange(last_s + 1.0))
    for now_s in range(last_s):
        reward = 0.0
        for submit_s, bound_s, end_s, weight, least in zip(*costs, strict=True):
            if bound_s == now_s:  # third term: what was counted too low so far
                reward -= (weight - least) * (now_s - submit_s)
            if submit_s <= now_s < end_s:  # first and second term
                reward -= weight if bound_s <= now_s else least
        assert worths[now_s] - worths[now_s + 1] == pytest.approx(reward, abs=1e-9)
    assert worths[0] == pytest.approx(-environment.normalised_edps().sum())


def test_esjf_in_the_environment_is_esjf() -> None:
    """The teacher's run has the schedule of the policy `esjf`."""
    from hpcosim_client import make_policy

    (environment,) = environments(1, seed=4)
    watch_esjf([environment])
    recording = environment.simulation.recording
    found = {
        recording.job_id[row]: (recording.start_s[row], recording.nodes_of(row)[0])
        for row in range(len(recording))
    }
    assert found == schedule(make_policy("esjf"), table(drawn_jobs(4)))


def test_the_baseline_is_the_mean_of_the_runs() -> None:
    """At each time at which all runs decide, what they have over it adds up to nothing."""
    runs = environments(4)
    trajectories = explore(network(), runs, rngs(4))
    gains = advantages(runs, trajectories)
    by_time = [
        dict(zip(one.times_s, gain, strict=True))
        for one, gain in zip(trajectories, gains, strict=True)
    ]
    shared = set.intersection(*(set(one) for one in by_time))
    assert len(shared) > 3
    for now_s in shared:
        assert sum(one[now_s] for one in by_time) == pytest.approx(0.0, abs=1e-6)


def test_the_gradient_is_equation_5() -> None:
    """It is that of minus the sum of log probabilities, each times its advantage."""
    runs, net = environments(3), network()
    found = gradient(net, runs, rngs(3), entropy=0.0)
    trajectories = explore(net, runs, rngs(3))
    gains = np.concatenate(advantages(runs, trajectories))
    seen = torch.from_numpy(np.stack([p for one in trajectories for p in one.seen])).float()
    actions = torch.tensor([a for one in trajectories for a in one.actions])
    logs = torch.log_softmax(net(seen), dim=1).gather(1, actions[:, None])[:, 0]
    net.zero_grad()
    (-(logs.double() * torch.from_numpy(gains)).sum()).backward()  # type: ignore[no-untyped-call]
    for part, weights in zip(found.parts, net.parameters(), strict=True):
        assert weights.grad is not None
        assert torch.allclose(part, weights.grad, rtol=1e-3, atol=1e-3)


def test_imitation_comes_to_do_as_esjf() -> None:
    """After many times over one sequence it chooses what ESJF does."""
    net = network()
    loss = imitate(net, environments(1), 60, 3e-3, np.random.default_rng(0))
    assert loss < 0.1


def test_the_same_training_writes_the_same_bytes(tmp_path: Path) -> None:
    """In one process and in two, by the same seed; another seed writes others."""
    files = [
        train_deep_eas(
            SCENARIO, tmp_path / name, Training(reinforce=QUICK, seed=seed, workers=workers)
        ).read_bytes()
        for name, seed, workers in (("a", 0, 1), ("b", 0, 2), ("c", 1, 1))
    ]
    assert files[0] == files[1]
    assert files[0] != files[2]
    network, about = load_deep_eas(tmp_path / "a" / "deep-eas.safetensors")
    assert about.settings == DeepEas()
    assert tuple(network.dense.weight.shape) == (21, 8 * 14 * 111)


def test_sequences_in_which_hardly_a_job_comes_are_refused(tmp_path: Path) -> None:
    """They are not drawn anew for ever: the field at fault is named, and no folder is made."""
    overrides: dict[str, Scalar] = {
        "workload.synthetic.arrival_probability": 1e-5,
        "workload.synthetic.sequences": 10_000,
        "workload.synthetic.apart_s": 60.0,
    }
    out = tmp_path / "out"
    with pytest.raises(WorkloadError, match="arrival_probability is 1e-05"):
        train_deep_eas(SCENARIO, out, Training(reinforce=QUICK), overrides=overrides)
    assert not out.exists()


def test_a_job_wider_than_a_machine_leaves_nothing_behind(tmp_path: Path) -> None:
    """It is told before anything is written."""
    narrow, out = tmp_path / "narrow.yaml", tmp_path / "out"
    narrow.write_text(SCENARIO.read_text().replace("cores: 10", "cores: 4"))
    with pytest.raises(PolicyError, match="of at most 4 here"):
        train_deep_eas(narrow, out, Training(reinforce=QUICK))
    assert not out.exists()


def test_another_workload_is_refused(tmp_path: Path) -> None:
    """A scenario that has no sequences to draw is at fault, and nothing is written."""
    with pytest.raises(ScenarioError, match="not of the model bernoulli"):
        train_deep_eas(FOLDER / "ineps" / "exp1.yaml", tmp_path / "out", Training(reinforce=QUICK))
    assert not (tmp_path / "out").exists()
