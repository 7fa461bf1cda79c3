"""Networks that correct a rule for pairs of job and node, and their training."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the extra rl is not installed")

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats
from hpcosim_papers.ineps.agent import policy
from hpcosim_papers.ineps.agent.policy import BEST, RULES, PairingMetadata, Rule
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.learners import corrections
from hpcosim_papers.ineps.learners.corrections import (
    SHAPE,
    CorrectedRule,
    CorrectionGeneration,
    CorrectionTraining,
    objective,
    objectives_of,
    train_corrections,
    variant,
    weights_of,
)
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from support.interrupted import StoppedError, stop_at
from support.paths import SCENARIOS

EXPERIMENT_1 = SCENARIOS / "papers" / "ineps" / "exp1.yaml"
QUICK = CorrectionTraining(
    generations=2, pairs=2, workloads=2, start_workloads=2, validation_workloads=2
)


def some_agents(count: int, rng: np.random.Generator) -> list[CorrectedRule]:
    """Return rules with random corrections, large enough to change choices."""
    rules = [RULES[int(number)] for number in rng.integers(len(RULES), size=count)]
    return [CorrectedRule(rule, 0.05 * rng.normal(size=SHAPE)) for rule in rules]


def test_a_correction_of_zero_is_the_rule() -> None:
    """Every choice of an episode is the same, by each of the rules."""
    env = JobNodePairingEnv("ineps/exp2")
    for rule in RULES:
        env.reset()
        while not env.done:
            choice = rule.choose(env.choices)
            assert rule.choose(env.choices, np.zeros((len(env.choices.rows), 2))) == choice
            env.choose(choice)


def test_corrections_change_what_is_affordable_and_preferred() -> None:
    """A pair that is made too costly is not started; a preferred one is."""
    env = JobNodePairingEnv("ineps/exp2")
    env.reset()
    rule = Rule("cheapest", 0.0, 0)
    count = len(env.choices.rows)
    corrections: Floats = np.zeros((count, 2))
    corrections[:, 0] = -2.0
    assert rule.choose(env.choices, corrections) == count - 1  # waits
    corrections[:, 0] = 2.0
    corrections[1, 1] = 2.0
    assert rule.choose(env.choices, corrections) == 1


@pytest.mark.parametrize("minimised", ["energy", "edp"])
@pytest.mark.parametrize("name", ["exp1", "exp2"])
def test_compiled_agents_take_the_choices_of_the_reference(name: str, minimised: Objective) -> None:
    """Objectives of random agents on random workloads, to the last bit."""
    pytest.importorskip("numba", reason="the extra fast is not installed")
    rng = np.random.default_rng(3)
    env = JobNodePairingEnv(f"ineps/{name}", objective=minimised)
    drawn = [variant(env.workload, rng, load, resampled=True) for load in (0.25, 2.0)]
    agents = some_agents(8, rng)
    found = objectives_of(env.task, drawn, agents)
    expected = [[objective(env.task, jobs, agent) for jobs in drawn] for agent in agents]
    assert found.tolist() == expected


def test_without_numba_the_reference_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same results."""
    env = JobNodePairingEnv("ineps/exp1")
    agents = some_agents(2, np.random.default_rng(4))
    monkeypatch.setattr(corrections, "missing_package", lambda: "numba")
    found = objectives_of(env.task, [env.workload], agents)
    assert found.tolist() == [[objective(env.task, env.workload, agent)] for agent in agents]


def test_same_seed_same_weights(tmp_path: Path) -> None:
    """The same seed writes the same bytes, another seed others; the curve has all generations."""
    pytest.importorskip("torch", reason="the extra rl is not installed")
    trained = train_corrections(EXPERIMENT_1, tmp_path / "a", QUICK)
    again = train_corrections(EXPERIMENT_1, tmp_path / "b", QUICK)
    longer = dataclasses.replace(QUICK, seed=1, generations=20, sigma=0.3, learning_rate=0.3)
    other = train_corrections(EXPERIMENT_1, tmp_path / "c", longer)
    assert trained.read_bytes() == again.read_bytes()
    assert trained.read_bytes() != other.read_bytes()
    with (tmp_path / "a" / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["number"] for row in rows] == ["0", "1", "2"]
    assert tuple(rows[0]) == CorrectionGeneration._fields


def test_a_training_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """The result of two parts is that of the whole."""
    pytest.importorskip("torch", reason="the extra rl is not installed")
    training = dataclasses.replace(QUICK, generations=6, sigma=0.3, learning_rate=0.3)
    whole = train_corrections(EXPERIMENT_1, tmp_path / "whole", training)
    out = tmp_path / "parts"
    with pytest.raises(StoppedError):
        train_corrections(EXPERIMENT_1, out, training, report=stop_at(4))
    parts = train_corrections(EXPERIMENT_1, out, training, resume=True)
    assert parts.read_bytes() == whole.read_bytes()


def test_a_training_keeps_the_best_validated_network(tmp_path: Path) -> None:
    """It is at most as costly as the start, and the policy of the file has its objective."""
    pytest.importorskip("torch", reason="the extra rl is not installed")
    done: list[Mapping[str, float]] = []
    training = dataclasses.replace(QUICK, generations=20, pairs=8, workloads=8, sigma=0.05)
    trained = train_corrections(
        EXPERIMENT_1, tmp_path, training, report=lambda each: done.append(each.measures)
    )
    validated = [each["validation"] for each in done if each["validation"] > 0.0]
    assert min(validated) == done[-1]["best"] <= done[0]["best"]
    library = Library([EXPERIMENT_1])
    weights, about = policy.load_pairing(trained)
    assert about.training["validation"] == done[-1]["best"]
    parameters = np.concatenate(
        [weights["correction.weight"], weights["correction.bias"][:, None]], axis=1
    )
    assert about.rule is not None
    env = JobNodePairingEnv(EXPERIMENT_1)
    task = dataclasses.replace(env.task, settings=about.pairing)
    expected = objective(task, library.first_jobs, CorrectedRule(about.rule, parameters))
    opened = open_scenario(library.first, library.first_jobs, "pairing")
    found = run_in_process(opened, policy.pairing(trained))["energy_j"]
    assert found == pytest.approx(expected, rel=1e-12)


def test_files_of_corrected_rules_are_checked(tmp_path: Path) -> None:
    """An unknown rule, other features, and sampling are errors."""
    pytest.importorskip("safetensors", reason="the extra rl is not installed")
    path, weights = tmp_path / "actor.safetensors", weights_of(np.zeros(SHAPE))
    papers = Pairing(sees="papers")
    for pairing, rule in (
        (Pairing(), Rule("unknown", 0.0, 0)),
        (Pairing(), Rule("longest", 0.0, 4)),
        (Pairing(), Rule("longest", -1.0, 0)),
        (papers, BEST["energy"]),
    ):
        policy.save_pairing(path, weights, PairingMetadata(pairing=pairing, rule=rule))
        with pytest.raises(PolicyError, match="rule"):
            policy.pairing(path)
    policy.save_pairing(path, weights, PairingMetadata(pairing=Pairing(), rule=BEST["energy"]))
    policy.pairing(path)
    with pytest.raises(PolicyError, match="no distribution to sample"):
        policy.pairing(path, sample=True)
