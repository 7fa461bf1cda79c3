"""Training Deep-EAS: the vector environment, costs and baseline, learning, whole trainings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.examples import examples

pytest.importorskip("torch")

import msgspec
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import View
from hpcosim_client.errors import PolicyError
from hpcosim_experiments.executors import Local, parallel_map
from hpcosim_gym.errors import CheckpointError
from hpcosim_gym.learning.curve import read_curve
from hpcosim_gym.learning.networks import arrays_of
from hpcosim_gym.learning.rollout import Rollout, collect
from hpcosim_gym.learning.update import Agent, discounted_returns, learn, policy_gradient
from hpcosim_papers.deep_eas.agent.network import (
    DeepEasMetadata,
    Scene,
    load_deep_eas,
    pairs,
    queues,
    save_deep_eas,
)
from hpcosim_papers.deep_eas.agent.policy import deep_eas
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines, Sees
from hpcosim_papers.deep_eas.agent.step_runs import StepRuns, costs_to_go, mean_edp, normalised_edps
from hpcosim_papers.deep_eas.environments.step_binding import StepBindingVectorEnv
from hpcosim_papers.deep_eas.environments.step_machines import machines_of, model_of, step_jobs
from hpcosim_papers.deep_eas.learners.networks import (
    Network,
    PairsNetwork,
    SceneBatch,
    initialise,
    join,
    logits_of,
    network_of,
    new_agent,
)
from hpcosim_papers.deep_eas.learners.settings import FORMS, DeepEasTraining
from hpcosim_papers.deep_eas.learners.train import (
    BindingRuns,
    DeepEasLearner,
    make_sampler,
    play_esjf,
    play_greedy,
    subtract_sequence_baseline,
    train_deep_eas,
)
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.heuristics.job_node import run_time_scale
from hpcosim_sim.record.metrics import measure
from hpcosim_workloads.errors import WorkloadError
from support.commands import invoke
from support.interrupted import StoppedError, stop_at
from support.paths import SCENARIOS
from support.recipes import write_recipe
from support.step_machines import Drawn, machines, schedule, simulated, table, workloads

FOLDER = SCENARIOS / "papers"
SETTINGS = DeepEas(cores=4)
SCENARIO = FOLDER / "deep_eas" / "lambda_0.9.yaml"
SHORT: dict[str, Scalar] = {"workload.synthetic.steps": 8}
QUICK: dict[str, Any] = {"iterations": 2, "pool": 3, "sequences": 2, "trajectories": 2}


def drawn_jobs(seed: int, count: int = 15) -> list[Drawn]:
    """Return random jobs, one submitted each second."""
    rng = np.random.default_rng(seed)
    return [
        Drawn(step, int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        for step in range(count)
    ]


def runs_of(*drawn: list[Drawn], settings: DeepEas = SETTINGS) -> StepBindingVectorEnv:
    """Return the vector environment of these sequences."""
    view = View(machines())
    about = Machines(settings, view.nodes.dynamic_w, run_time_scale(view))
    jobs = step_jobs(settings, about.scale, [table(jobs) for jobs in drawn])
    return StepBindingVectorEnv(machines=about, jobs=jobs)


def starts(runs: StepRuns, run: int) -> dict[int, tuple[float, int]]:
    """Return start time and machine of each job of a run, by job number."""
    count = int(runs.jobs.valid[run].sum())
    pairs = zip(runs.start[run, :count].tolist(), runs.machine[run, :count].tolist(), strict=True)
    return {number: (float(start), node) for number, (start, node) in enumerate(pairs, 1)}


def training_of(sees: Sees = "picture", form: str = "pairs", **changes: Any) -> DeepEasTraining:
    """Return training settings for the small machines."""
    settings = msgspec.structs.replace(SETTINGS, sees=sees)
    return dataclasses.replace(FORMS[form], settings=settings, **changes)


def explored(
    agent: Agent[Network, SceneBatch],
    env: StepBindingVectorEnv,
    seed: int = 7,
    trajectories: int = 1,
) -> Rollout[SceneBatch]:
    """Return a rollout of an agent with sampled actions."""
    rngs = [np.random.default_rng([seed, one]) for one in range(env.num_envs // trajectories)]
    return collect(BindingRuns(env), make_sampler(agent.actor, rngs, trajectories), join)


@pytest.mark.slow
@pytest.mark.parametrize("sees", ["picture", "pairs", "queue"])
@examples(10)
@given(
    drawn=workloads,
    seed=st.integers(0, 1000),
    horizon=st.sampled_from([12, 30]),
    masked=st.booleans(),
)
def test_the_policy_makes_the_same_schedules_in_the_simulator(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[Drawn],
    seed: int,
    horizon: int,
    sees: Sees,
    masked: bool,
) -> None:
    """The policy and the vector environment give the same schedule with any network."""
    settings = DeepEas(
        cores=4, horizon=horizon, queue=4, backlog=60, since_arrival=60, sees=sees, masked=masked
    )
    network = network_of(settings)
    initialise(network, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        network.last.weight *= 100.0
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    save_deep_eas(path, arrays_of(network.state_dict()), DeepEasMetadata(settings=settings))
    env = runs_of(drawn_jobs(seed), drawn, settings=settings)
    play_greedy(network, env)
    assert starts(env.runs, 1) == schedule(deep_eas(path), table(drawn))


@examples(50)
@given(drawn=workloads)
def test_esjf_side_by_side_is_esjf(drawn: list[Drawn]) -> None:
    """ESJF in the vector environment gives the schedule of the policy `esjf`."""
    env = runs_of(drawn, drawn_jobs(4))
    play_esjf(env)
    for run, jobs in enumerate((drawn, drawn_jobs(4))):
        assert starts(env.runs, run) == schedule(make_policy("esjf"), table(jobs))


def test_costs_by_hand() -> None:
    """Rewards equal a hand calculation of the cost.

    Two jobs of 1 s and 4 cores (2 s on the second machine): 40 W on the first machine, 4 W x 2 s /
    1 s on the second. The first job starts immediately on the first machine, the second job at 1 s
    on the second machine: 40 x 1 + 8 x 3.
    """
    env = runs_of([Drawn(0, 1, 1, 4), Drawn(0, 1, 1, 4)])
    env.reset()
    rewards = [env.step(np.array([action]))[1][0] for action in (0, 20, 10)]
    assert rewards == [0.0, -48.0, -16.0]  # bind to machine 0, hold, bind to machine 1
    assert env.runs.done.all()
    assert normalised_edps(env.runs).tolist() == [[40.0, 24.0]]
    assert costs_to_go(env.runs).tolist() == [[64.0, 16.0, 8.0, 0.0, 0.0]]


def test_what_jobs_came_to_is_the_metric() -> None:
    """The mean over the jobs equals the server's metric `mean_normalised_edp`."""
    env = runs_of(drawn_jobs(0))
    play_esjf(env)
    simulation = simulated(make_policy("esjf"), table(drawn_jobs(0)))
    metric = measure(simulation.record())["mean_normalised_edp"]
    assert mean_edp(env.runs) == pytest.approx(metric, rel=1e-12)


def test_costs_are_the_papers() -> None:
    """Costs equal equation 2 for each second and job, and sum to the energy-delay products."""
    env = runs_of(drawn_jobs(0))
    rollout = explored(new_agent(training_of(), 2), env)
    runs = env.runs
    to_go = costs_to_go(runs)[0]
    jobs, watts = runs.jobs, runs.machines.watts
    expected = np.zeros(len(to_go))
    for job in range(jobs.submit.shape[1]):
        least_s = jobs.expected[0, :, job].min()
        each = jobs.cores[0, job] * watts * jobs.actual[0, :, job] / least_s**2
        machine, bound = runs.machine[0, job], runs.bound[0, job]
        submit, end = jobs.submit[0, job], runs.start[0, job] + jobs.actual[0, machine, job]
        for now in range(submit, end):
            if now == bound:  # third term: correction of the cost since submission
                expected[now] += (each[machine] - each.min()) * (now - submit)
            expected[now] += each[machine] if bound <= now else each.min()
    assert -np.diff(to_go) == pytest.approx(expected[:-1], abs=1e-9)
    assert rollout.rewards.sum() == pytest.approx(-normalised_edps(runs).sum())
    returns = discounted_returns(rollout.rewards, rollout.episode, np.zeros(1), 1.0)
    assert returns == pytest.approx(-to_go[rollout.observations.step.numpy()])


@pytest.mark.parametrize("form", ["pairs", "paper"])
def test_the_baseline_is_the_mean_of_the_runs_of_a_sequence(form: str) -> None:
    """Relative returns of the first step sum to 0; with PPO their standard deviation is 1."""
    training = training_of(form=form, trajectories=3)
    env = runs_of(*[drawn_jobs(0)] * 3, *[drawn_jobs(1)] * 3)
    rollout = explored(new_agent(training, 2), env, trajectories=3)
    relative = subtract_sequence_baseline(rollout, env.runs, training)
    returns = discounted_returns(relative.rewards, relative.episode, np.zeros(6), 1.0)
    firsts = returns[np.unique(relative.episode, return_index=True)[1]].reshape(2, 3)
    assert firsts.sum(axis=1) == pytest.approx(0.0, abs=1e-6)
    if form == "pairs":
        assert firsts.std(axis=1) == pytest.approx(1.0)
    else:
        totals = normalised_edps(env.runs).sum(axis=1).reshape(2, 3)
        worse = totals.mean(axis=1, keepdims=True) - totals
        assert firsts == pytest.approx(worse * len(rollout) / 6)


def test_decisions_have_the_probabilities_of_what_was_chosen() -> None:
    """Log-probabilities are those of the network, and the steps of a run increase."""
    agent, env = new_agent(training_of(), 2), runs_of(drawn_jobs(0), drawn_jobs(1))
    rollout = explored(agent, env)
    steps = rollout.observations.step.numpy()
    assert np.all((np.diff(steps) >= 0) | (np.diff(rollout.episode) > 0))
    logits = torch.from_numpy(logits_of(agent.actor, rollout.observations.scene))
    logs = torch.log_softmax(logits, dim=1).gather(1, rollout.actions[:, None])
    assert torch.allclose(rollout.log_probabilities, logs, atol=1e-5)


def dense_logits(network: PairsNetwork, scene: Scene) -> torch.Tensor:
    """Return the logits of a network that evaluates all pairs in all layers: the reference."""
    of_pairs = torch.from_numpy(pairs(network.settings, scene))
    of_queue = torch.from_numpy(queues(network.settings, scene))
    each = network.pair(of_pairs)
    total = (each * of_pairs[:, :, :1]).mean(dim=1)
    mean = network.all(torch.cat([total, of_queue], dim=1))
    beside = mean[:, None].expand(-1, each.shape[1], -1)
    both = network.both(torch.cat([each, beside], dim=2))
    return torch.cat([network.last(both)[:, :, 0], network.hold(mean)], dim=1)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("sees", ["pairs", "queue"])
def test_the_network_evaluates_only_pairs_that_count(sees: Sees, masked: bool) -> None:
    """Logits of valid actions, and gradients, are those of a network that evaluates all pairs."""
    training = training_of(sees)
    settings = msgspec.structs.replace(training.settings, masked=masked)
    training = dataclasses.replace(training, settings=settings)
    agent = new_agent(training, 2)
    network = agent.actor
    assert isinstance(network, PairsNetwork)
    with torch.no_grad():
        network.last.weight *= 100.0
    env = runs_of(drawn_jobs(0), drawn_jobs(1), settings=settings)
    rollout = explored(agent, env)
    scene, found = rollout.observations.scene, []
    for logits in (network(scene), dense_logits(network, scene)):
        if masked:
            logits = logits.masked_fill(torch.from_numpy(~scene.possible()), -torch.inf)
        logs = torch.log_softmax(logits, dim=1)
        network.zero_grad()
        loss = (logs.gather(1, rollout.actions[:, None]) ** 2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        slopes = [
            weight.grad.flatten() for weight in network.parameters() if weight.grad is not None
        ]
        found.append((logs.detach(), torch.cat(slopes).clone()))
    assert (~scene.possible()).any()
    for ours, reference in zip(*found, strict=True):
        assert torch.allclose(ours, reference, rtol=1e-4, atol=1e-5)


def test_the_gradient_is_equation_5() -> None:
    """The loss is minus the sum of log-probability x advantage, averaged over the runs."""
    training = training_of(form="paper", trajectories=3)
    agent, env = new_agent(training, 2), runs_of(*[drawn_jobs(0)] * 3)
    rollout = explored(agent, env, trajectories=3)
    to_go = -costs_to_go(env.runs)
    better = (to_go - to_go.mean(axis=0))[rollout.episode, rollout.observations.step.numpy()]
    logs = torch.log_softmax(agent.actor(rollout.observations.scene), dim=1)
    chosen = logs.gather(1, rollout.actions[:, None])[:, 0]
    right = -(chosen.double() * torch.from_numpy(better)).sum() / 3
    relative = subtract_sequence_baseline(rollout, env.runs, training)
    advantages = discounted_returns(relative.rewards, relative.episode, np.zeros(3), 1.0)
    evaluation = agent.evaluate(rollout.observations, rollout.actions)
    loss = policy_gradient(
        evaluation, rollout.log_probabilities, torch.from_numpy(advantages).float()
    )
    assert loss.item() == pytest.approx(right.item(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sees", "rate", "form"), [("picture", 1e-3, "pairs"), ("pairs", 1e-2, "paper")]
)
def test_an_agent_learns_the_frugal_machine(sees: Sees, rate: float, form: str) -> None:
    """Training learns the machine with the lower cost, 8 x 2 instead of 40 x 1."""
    minibatch = {} if form == "paper" else {"minibatch": 16, "entropy_coefficient": 0.0}
    training = training_of(sees, form, learning_rate=rate, trajectories=16, **minibatch)
    agent = new_agent(training, 2)
    for turn in range(30):
        env = runs_of(*[[Drawn(0, 1, 1, 4)]] * 16)
        rollout = explored(agent, env, turn, trajectories=16)
        relative = subtract_sequence_baseline(rollout, env.runs, training)
        learn(agent, relative, training, np.random.default_rng(turn), 1.0)
    env = runs_of([Drawn(0, 1, 1, 4)])
    play_greedy(agent.actor, env)
    assert starts(env.runs, 0) == {1: (0.0, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("form", list(FORMS))
def test_the_same_training_writes_the_same_bytes(form: str, tmp_path: Path) -> None:
    """The same seed writes the same bytes with any number of workers; another writes others."""
    training = dataclasses.replace(FORMS[form], **QUICK, together=1)
    if form == "queue":
        training = dataclasses.replace(training, lengths=(4, 8), validation_sequences=4)
    first, again, other = (
        train_deep_eas(
            SCENARIO,
            tmp_path / name,
            dataclasses.replace(training, seed=seed, executor=Local(workers=workers)),
            overrides=SHORT,
        ).read_bytes()
        for name, seed, workers in (("a", 0, 0), ("b", 0, 2), ("c", 1, 0))
    )
    assert first == again
    assert first != other
    _, about = load_deep_eas(tmp_path / "a" / "deep-eas.safetensors")
    assert about.settings == training.settings
    assert (about.training["seed"], about.training["iterations"]) == (0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pairs", "paper"])
def test_a_training_goes_on_from_its_checkpoint(form: str, tmp_path: Path) -> None:
    """An interrupted and resumed training writes the same bytes and learning curve."""
    training = dataclasses.replace(FORMS[form], **QUICK)

    whole = train_deep_eas(SCENARIO, tmp_path / "whole", training, overrides=SHORT)
    with pytest.raises(StoppedError):
        train_deep_eas(
            SCENARIO, tmp_path / "parts", training, overrides=SHORT, on_iteration=stop_at(1)
        )
    parts = train_deep_eas(SCENARIO, tmp_path / "parts", training, overrides=SHORT, resume=True)
    assert parts.read_bytes() == whole.read_bytes()
    curves = [
        [done._replace(seconds=0.0, environment_s=0.0) for done in read_curve(folder)]
        for folder in (whole.parent, parts.parent)
    ]
    assert repr(curves[0]) == repr(curves[1])


def test_a_training_begins_with_a_network(tmp_path: Path) -> None:
    """`start` sets the weights of the actor; a network of another observation is an error."""
    training = dataclasses.replace(FORMS["pairs"], **QUICK | {"iterations": 0})
    other = dataclasses.replace(training, seed=9)
    first = train_deep_eas(SCENARIO, tmp_path / "first", other, overrides=SHORT)
    again = dataclasses.replace(training, start=str(first))
    weights, about = load_deep_eas(
        train_deep_eas(SCENARIO, tmp_path / "again", again, overrides=SHORT)
    )
    for name, values in load_deep_eas(first)[0].items():
        assert np.array_equal(weights[name], values)
    assert "start" not in about.training
    queue = dataclasses.replace(again, settings=FORMS["queue"].settings)
    with pytest.raises(PolicyError, match="observation pairs"):
        train_deep_eas(SCENARIO, tmp_path / "queue", queue, overrides=SHORT)


@pytest.mark.filterwarnings("default:.*training is complete")
def test_a_resumed_training_has_the_network_it_began_with(tmp_path: Path) -> None:
    """The file may move; another network in it is an error."""
    training = dataclasses.replace(FORMS["pairs"], **QUICK | {"iterations": 0})
    one, other = (
        train_deep_eas(
            SCENARIO,
            tmp_path / str(seed),
            dataclasses.replace(training, seed=seed),
            overrides=SHORT,
        )
        for seed in (8, 9)
    )

    def begun_with(start: Path, *, resume: bool) -> Path:
        settings = dataclasses.replace(training, start=str(start))
        out = tmp_path / "begun"
        return train_deep_eas(SCENARIO, out, settings, overrides=SHORT, resume=resume)

    begun = begun_with(one, resume=False).read_bytes()
    moved = one.rename(tmp_path / one.name)
    assert begun_with(moved, resume=True).read_bytes() == begun
    with pytest.raises(
        CheckpointError, match=r"has start deep-eas.safetensors with SHA-256 .*, the"
    ):
        begun_with(other, resume=True)


def test_a_training_draws_sequences_of_all_lengths() -> None:
    """Each sequence has its part of the logarithmic range of lengths, shorter ones first."""
    training = DeepEasTraining(validation_sequences=3, lengths=(2, 16), arrivals=(1.0, 1.0))
    library = Library([SCENARIO])
    about = machines_of(library.first, training.settings, SCENARIO)
    with parallel_map(training.executor) as parallel:
        learner = DeepEasLearner(about, model_of(library.first, SCENARIO), training, parallel)
    sizes = [len(one) for one in learner.tables]
    assert 2 <= sizes[0] <= 4 <= sizes[1] <= 8 <= sizes[2] <= 16


def test_an_agent_with_more_slots_than_esjf_is_trained_on_long_sequences(tmp_path: Path) -> None:
    """The check against the simulator is of ESJF with its own ten slots."""
    training = dataclasses.replace(
        FORMS["queue"],
        iterations=0,
        lengths=(120, 121),
        arrivals=(1.0, 1.0),
        validation_sequences=1,
    )
    assert train_deep_eas(SCENARIO, tmp_path / "out", training).exists()


def test_sequences_in_which_hardly_a_job_comes_are_refused(tmp_path: Path) -> None:
    """A model that draws no jobs is an error that names the field; no folder is created."""
    overrides: dict[str, Scalar] = {
        "workload.synthetic.arrival_probability": 1e-5,
        "workload.synthetic.sequences": 10_000,
        "workload.synthetic.apart_s": 60.0,
    }
    out = tmp_path / "out"
    with pytest.raises(WorkloadError, match="arrival_probability is 1e-05"):
        train_deep_eas(SCENARIO, out, DeepEasTraining(**QUICK), overrides=overrides)
    assert not out.exists()


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("cores: 10", "cores: 4", "a machine has 4"),
        ("short_probability: 0.5", "long_run_s: [31, 31]", "at least 31 steps"),
        ("clock_ghz: 2", "clock_ghz: 3", "requested time .* not a whole number of steps"),
        ("static_w: 0, dynamic_w: 1", "static_w: 5, dynamic_w: 1", "remove .* static_w"),
    ],
)
def test_an_unsuitable_scenario_is_an_error(
    right: str, wrong: str, message: str, tmp_path: Path
) -> None:
    """A scenario that breaks an assumption of Deep-EAS is an error before files are written."""
    changed, out = tmp_path / "changed.yaml", tmp_path / "out"
    text = SCENARIO.read_text(encoding="utf-8")
    assert right in text
    changed.write_text(text.replace(right, wrong), encoding="utf-8")
    with pytest.raises(ScenarioError, match=message):
        train_deep_eas(changed, out, DeepEasTraining(**QUICK))
    assert not out.exists()


def test_submissions_between_steps_are_an_error() -> None:
    """Submission times must be whole numbers of steps."""
    from support.simulating import jobs_of

    with pytest.raises(ScenariosError, match=r"submission time .* not a whole number of steps"):
        step_jobs(SETTINGS, np.array([0.5, 1.0]), [jobs_of((0.5, 2.0, 1))])


def test_another_workload_model_is_an_error(tmp_path: Path) -> None:
    """A workload that is not of the model `bernoulli` is an error before files are written."""
    with pytest.raises(ScenarioError, match="expected the workload model bernoulli"):
        train_deep_eas(FOLDER / "ineps" / "exp1.yaml", tmp_path / "out", DeepEasTraining(**QUICK))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("default:.*training is complete")
def test_the_command_trains_and_goes_on(tmp_path: Path) -> None:
    """The command prints one line for each iteration and the path of the network, and resumes."""
    recipe = write_recipe(
        tmp_path,
        "deep-eas",
        SCENARIO,
        preset="picture",
        environment={"set": {"workload.synthetic.steps": 8}},
        budget={"iterations": 1, "sequences": 2, "trajectories": 2},
    )
    done = invoke("train", recipe, "--out", tmp_path)
    assert done.status == 0, done.err
    first, second, *_, last = done.out.splitlines()
    assert "validation" in first
    assert second.split()[0] == "1"
    assert last == f"network: {tmp_path / 'deep-eas.safetensors'}"
    _, about = load_deep_eas(tmp_path / "deep-eas.safetensors")
    assert about.settings == FORMS["picture"].settings
    assert about.training["learning_rate"] == FORMS["picture"].learning_rate
    again = invoke("train", recipe, "--out", tmp_path, "--resume")
    assert again.out.splitlines()[-1] == last
    assert "took" not in again.out  # all is done
