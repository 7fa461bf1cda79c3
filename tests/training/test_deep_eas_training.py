"""Training Deep-EAS: sequences side by side, what they come to, learning, a whole training."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import msgspec
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from hpcosim_client import PolicyError, View, make_policy
from hpcosim_client.agents.deep_eas.model import About, load_deep_eas, save_deep_eas
from hpcosim_client.agents.deep_eas.network import draw, logits_of, network_of
from hpcosim_client.agents.deep_eas.policy import deep_eas
from hpcosim_client.agents.deep_eas.settings import DeepEas, Sees
from hpcosim_client.heuristics.node_keys import run_time_scale
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_server.record.metrics import measure
from hpcosim_studies.papers import papers_folder
from hpcosim_training.deep_eas.agent import Agent
from hpcosim_training.deep_eas.baseline import better_than_mean
from hpcosim_training.deep_eas.critic import watch
from hpcosim_training.deep_eas.jobs import step_jobs
from hpcosim_training.deep_eas.outcome import (
    mean_edp,
    normalised_edps,
    rewards,
    to_come,
)
from hpcosim_training.deep_eas.ppo import advantages, clipped_gain, ppo
from hpcosim_training.deep_eas.reinforce import reinforce
from hpcosim_training.deep_eas.rollout import Decisions, exploit, explore, run_esjf
from hpcosim_training.deep_eas.sequences import Machines, Sequences
from hpcosim_training.deep_eas.settings import FORMS, Ppo, Training
from hpcosim_training.deep_eas.train import train_deep_eas
from hpcosim_workloads.errors import WorkloadError
from support.step_machines import Drawn, machines, schedule, simulated, table, workloads

SETTINGS = DeepEas(cores=4)
SCENARIO = papers_folder() / "deep_eas" / "lambda_0.9.yaml"
SHORT: dict[str, Scalar] = {"workload.synthetic.steps": 8}
QUICK: dict[str, Any] = {"iterations": 2, "pool": 3, "sequences": 2, "trajectories": 2}


def drawn_jobs(seed: int, count: int = 15) -> list[Drawn]:
    """Return jobs, one a second."""
    rng = np.random.default_rng(seed)
    return [
        Drawn(step, int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        for step in range(count)
    ]


def sequences(*drawn: list[Drawn], settings: DeepEas = SETTINGS) -> Sequences:
    """Return runs of these sequences."""
    view = View(machines())
    about = Machines(settings, view.nodes.dynamic_w, run_time_scale(view))
    return Sequences(about, step_jobs(settings, about.scale, [table(jobs) for jobs in drawn]))


def starts(runs: Sequences, run: int) -> dict[int, tuple[float, int]]:
    """Return when and where each job of a run started, by number."""
    count = int(runs.jobs.there[run].sum())
    pairs = zip(runs.start[run, :count].tolist(), runs.machine[run, :count].tolist(), strict=True)
    return {number: (float(start), node) for number, (start, node) in enumerate(pairs, 1)}


def agent(sees: Sees = "picture", **training: Any) -> Agent:
    """Return an agent as it is drawn."""
    settings = msgspec.structs.replace(SETTINGS, sees=sees)
    return Agent(Training(settings=settings, **training), 2)


def explored(learner: Agent, runs: Sequences, seed: int = 7) -> Decisions:
    """Return what an agent decides by chance."""
    return explore(learner.network, runs, np.random.default_rng(seed), watch)


@pytest.mark.parametrize("sees", ["picture", "pairs"])
@pytest.mark.parametrize("masked", [False, True])
@examples(max_examples=25, deadline=None)
@given(drawn=workloads, seed=st.integers(0, 1000), horizon=st.sampled_from([12, 30]))
def test_the_policy_makes_the_same_schedules_in_the_simulator(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[Drawn],
    seed: int,
    horizon: int,
    sees: Sees,
    masked: bool,
) -> None:
    """Every job starts when and where it does side by side, whatever the network has learned."""
    settings = DeepEas(
        cores=4, horizon=horizon, queue=4, backlog=60, since_arrival=60, sees=sees, masked=masked
    )
    network = network_of(settings)
    draw(network, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        network.last.weight *= 100.0
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    save_deep_eas(path, network, About(settings=settings))
    runs = sequences(drawn_jobs(seed), drawn, settings=settings)
    exploit(network, runs)
    assert starts(runs, 1) == schedule(deep_eas(path), table(drawn))


@examples(max_examples=50, deadline=None)
@given(drawn=workloads)
def test_esjf_side_by_side_is_esjf(drawn: list[Drawn]) -> None:
    """It has the schedule of the policy `esjf`."""
    runs = sequences(drawn, drawn_jobs(4))
    run_esjf(runs)
    for run, jobs in enumerate((drawn, drawn_jobs(4))):
        assert starts(runs, run) == schedule(make_policy("esjf"), table(jobs))


def test_what_is_still_to_come() -> None:
    """At first all of it, at the end nothing; a job on the dear machine is counted late.

    Two jobs of 1 s and 4 cores (2 s on the second machine): 40 W there, 4 W x 2 s / 1 s here. The
    first starts at once on the first machine, the second at 1 s on the second: 40 x 1 + 8 x 3.
    """
    runs = sequences([Drawn(0, 1, 1, 4), Drawn(0, 1, 1, 4)])
    for action in (0, 20, 10):  # machine 0, hold, machine 1
        runs.take(runs.asked(), np.array([action]))
    assert not len(runs.asked())
    assert normalised_edps(runs).tolist() == [[40.0, 24.0]]
    assert to_come(rewards(runs)).tolist() == [[-64.0, -16.0, -8.0, 0.0]]


def test_what_jobs_came_to_is_the_metric() -> None:
    """Their mean is the server's `mean_normalised_edp` of the run."""
    runs = sequences(drawn_jobs(0))
    run_esjf(runs)
    simulation = simulated(make_policy("esjf"), table(drawn_jobs(0)))
    metric = measure(simulation.record())["mean_normalised_edp"]
    assert mean_edp(runs) == pytest.approx(metric, rel=1e-12)


def test_rewards_are_the_papers() -> None:
    """Equation 2, second by second and job by job; they add up to all energy-delay products."""
    runs = sequences(drawn_jobs(0))
    explored(agent(), runs)
    found = rewards(runs)[0]
    jobs, watts = runs.jobs, runs.machines.watts
    expected = np.zeros(len(found))
    for job in range(jobs.submit.shape[1]):
        least_s = jobs.expected[0, :, job].min()
        each = jobs.cores[0, job] * watts * jobs.actual[0, :, job] / least_s**2
        machine, bound = runs.machine[0, job], runs.bound[0, job]
        submit, end = jobs.submit[0, job], runs.start[0, job] + jobs.actual[0, machine, job]
        for now in range(submit, end):
            if now == bound:  # third term: what was counted too low so far
                expected[now] -= (each[machine] - each.min()) * (now - submit)
            expected[now] -= each[machine] if bound <= now else each.min()
    assert found == pytest.approx(expected, abs=1e-9)
    assert found.sum() == pytest.approx(-normalised_edps(runs).sum())


def test_the_baseline_is_the_mean_of_the_runs_of_a_sequence() -> None:
    """At each step, what they have over it adds up to nothing."""
    runs = sequences(*[drawn_jobs(0)] * 3, *[drawn_jobs(1)] * 3)
    explored(agent(), runs)
    better = better_than_mean(to_come(rewards(runs)), 3)
    assert better.reshape(2, 3, -1).sum(axis=1) == pytest.approx(0.0, abs=1e-6)
    assert np.abs(better[:, 0]).max() > 1.0


def test_decisions_are_one_run_behind_the_other() -> None:
    """Each run's in order of time, and probabilities are those of what was chosen."""
    learner, runs = agent(), sequences(drawn_jobs(0), drawn_jobs(1))
    decisions = explored(learner, runs)
    assert np.all(np.diff(decisions.run) >= 0)
    assert np.all((np.diff(decisions.step) >= 0) | (np.diff(decisions.run) > 0))
    logits = torch.from_numpy(logits_of(learner.network, decisions.scene))
    logs = torch.log_softmax(logits, dim=1).numpy()
    chosen = logs[np.arange(decisions.size), decisions.action]
    assert decisions.log == pytest.approx(chosen, abs=1e-5)


def test_the_gradient_is_equation_5() -> None:
    """It is that of minus the sum of log probabilities, each times its advantage, over the runs."""
    learner, runs = agent(), sequences(*[drawn_jobs(0)] * 3)
    decisions = explored(learner, runs)
    worth = better_than_mean(to_come(rewards(runs)), 3)[decisions.run, decisions.step]
    logs = torch.log_softmax(learner.network(decisions.scene), dim=1)
    chosen = logs.gather(1, torch.from_numpy(decisions.action)[:, None])[:, 0]
    loss = -(chosen.double() * torch.from_numpy(worth)).sum() / 3
    right = torch.autograd.grad(loss, list(learner.network.parameters()))
    reinforce(learner, decisions, worth, 3)
    for gradient, weights in zip(right, learner.network.parameters(), strict=True):
        assert weights.grad is not None
        assert torch.allclose(gradient, weights.grad, rtol=1e-3, atol=1e-3)


def test_advantages_with_a_whole_trace_are_what_came_less_what_was_thought() -> None:
    """And with none, what came until the next decision and was thought to come from there."""
    run, worth = np.array([0, 0, 0, 1]), np.array([-9.0, -5.0, -1.0, -4.0])
    values = np.array([-8.0, -6.0, -2.0, -1.0])
    assert advantages(run, worth, values, 1.0) == pytest.approx(worth - values)
    # -4 came, then -6 was thought; -4, then -2; then the end
    assert advantages(run, worth, values, 0.0).tolist() == [-4 - 6 + 8, -4 - 2 + 6, -1 + 2, -3.0]


def test_gains_are_clipped_only_where_that_is_less() -> None:
    """What is good counts to 1.2 times its probability, what is bad in full above 0.8."""
    moved = torch.tensor([2.0, 0.5, 2.0, 0.5]).log()
    gain = torch.tensor([1.0, 1.0, -1.0, -1.0])
    assert clipped_gain(moved, gain, 0.2).tolist() == pytest.approx([1.2, 0.5, -2.0, -0.8])


@pytest.mark.parametrize(("form", "rate"), [("picture", 1e-3), ("pairs", 1e-2)])
@pytest.mark.parametrize("settings", [None, Ppo(epochs=2, minibatch=16, entropy=0.0)])
def test_an_agent_learns_the_frugal_machine(form: Sees, rate: float, settings: Ppo | None) -> None:
    """A job of 1 s comes to 40 x 1 on the fast machine and to 8 x 2 on the other: the better."""
    learner = agent(form, rate=rate, ppo=settings)
    for turn in range(30):
        runs = sequences(*[[Drawn(0, 1, 1, 4)]] * 16)
        decisions = explored(learner, runs, turn)
        worth = better_than_mean(to_come(rewards(runs)), 16)[decisions.run, decisions.step]
        if settings is None:
            reinforce(learner, decisions, worth, 16)
        else:
            ppo(learner, decisions, worth / 20.0, settings, 1.0, np.random.default_rng(turn))
    runs = sequences([Drawn(0, 1, 1, 4)])
    exploit(learner.network, runs)
    assert starts(runs, 0) == {1: (0.0, 1)}


@pytest.mark.parametrize("form", list(FORMS))
def test_the_same_training_writes_the_same_bytes(form: str, tmp_path: Path) -> None:
    """By the same seed; another seed writes others."""
    training = dataclasses.replace(FORMS[form], **QUICK)
    first, again, other = (
        train_deep_eas(
            SCENARIO, tmp_path / name, dataclasses.replace(training, seed=seed), overrides=SHORT
        ).read_bytes()
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == again
    assert first != other
    _, about = load_deep_eas(tmp_path / "a" / "deep-eas.safetensors")
    assert about.settings == training.settings
    assert (about.training["seed"], about.training["iterations"]) == (0, 2)


class StoppedError(Exception):
    """A person has had enough."""


def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Stopped after its first iteration and resumed, it ends with the same bytes and curve."""
    training = Training(**QUICK)

    def stop(done: Any) -> None:
        if done.iteration == 1:
            raise StoppedError

    whole = train_deep_eas(SCENARIO, tmp_path / "whole", training, overrides=SHORT)
    with pytest.raises(StoppedError):
        train_deep_eas(SCENARIO, tmp_path / "parts", training, overrides=SHORT, told=stop)
    parts = train_deep_eas(SCENARIO, tmp_path / "parts", training, overrides=SHORT, resume=True)
    assert parts.read_bytes() == whole.read_bytes()
    curves = [
        [line.rpartition(",")[0] for line in (folder / "curve.csv").read_text().splitlines()]
        for folder in (whole.parent, parts.parent)
    ]
    assert curves[0] == curves[1]
    other = dataclasses.replace(training, seed=1)
    with pytest.raises(PolicyError, match="is of another training"):
        train_deep_eas(SCENARIO, tmp_path / "parts", other, overrides=SHORT, resume=True)


def test_sequences_in_which_hardly_a_job_comes_are_refused(tmp_path: Path) -> None:
    """They are not drawn anew for ever: the field at fault is named, and no folder is made."""
    overrides: dict[str, Scalar] = {
        "workload.synthetic.arrival_probability": 1e-5,
        "workload.synthetic.sequences": 10_000,
        "workload.synthetic.apart_s": 60.0,
    }
    out = tmp_path / "out"
    with pytest.raises(WorkloadError, match="arrival_probability is 1e-05"):
        train_deep_eas(SCENARIO, out, Training(**QUICK), overrides=overrides)
    assert not out.exists()


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("cores: 10", "cores: 4", "more than the 4 of a machine"),
        ("short_probability: 0.5", "long_run_s: [31, 31]", "takes 31 steps at the least"),
        ("clock_ghz: 2", "clock_ghz: 3", "a job is to end at no step"),
        ("static_w: 0, dynamic_w: 1", "static_w: 5, dynamic_w: 1", "take no energy when idle"),
    ],
)
def test_what_can_not_be_learned_on_is_refused(
    right: str, wrong: str, told: str, tmp_path: Path
) -> None:
    """The scenario is at fault; it is told before anything is written."""
    changed, out = tmp_path / "changed.yaml", tmp_path / "out"
    text = SCENARIO.read_text(encoding="utf-8")
    assert right in text
    changed.write_text(text.replace(right, wrong), encoding="utf-8")
    with pytest.raises(ScenarioError, match=told):
        train_deep_eas(changed, out, Training(**QUICK))
    assert not out.exists()


def test_jobs_that_come_between_steps_are_refused() -> None:
    """All that is learned on happens at whole steps."""
    from support.simulating import jobs_of

    with pytest.raises(ScenariosError, match="a job comes at no step"):
        step_jobs(SETTINGS, np.array([0.5, 1.0]), [jobs_of((0.5, 2.0, 1))])


def test_another_workload_is_refused(tmp_path: Path) -> None:
    """A scenario that has no sequences to draw is at fault, and nothing is written."""
    with pytest.raises(ScenarioError, match="not of the model bernoulli"):
        train_deep_eas(papers_folder() / "ineps" / "exp1.yaml", tmp_path / "out", Training(**QUICK))
    assert not (tmp_path / "out").exists()


def test_the_command_trains_and_goes_on(tmp_path: Path) -> None:
    """It tells a line an iteration and where the network is; what is not given is the form's."""
    from typer.testing import CliRunner

    from hpcosim_cli.train import app

    words = [
        *("deep-eas", str(SCENARIO), "--out", str(tmp_path), "--form", "picture"),
        *("--iterations", "1", "--sequences", "2", "--trajectories", "2"),
        *("--set", "workload.synthetic.steps=8"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    first, second, last = done.output.splitlines()
    assert "best choices / ESJF" in first
    assert second.split()[0] == "1"
    assert last == f"network: {tmp_path / 'deep-eas.safetensors'}"
    _, about = load_deep_eas(tmp_path / "deep-eas.safetensors")
    assert about.settings == FORMS["picture"].settings
    assert about.training["rate"] == FORMS["picture"].rate
    again = CliRunner().invoke(app, [*words, "--resume"])
    assert again.output.splitlines() == [last]  # all is done


def test_a_training_that_is_not_there_can_not_go_on(tmp_path: Path) -> None:
    """It says which file is missing."""
    with pytest.raises(PolicyError, match=r"checkpoint\.safetensors"):
        train_deep_eas(SCENARIO, tmp_path / "out", Training(**QUICK), overrides=SHORT, resume=True)
    assert not (tmp_path / "out").exists()
