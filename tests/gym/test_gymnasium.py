"""The Gymnasium environments: contract, observations, masks and rewards."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hpcosim_client import PolicyError
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.environments.pairing_task import PairingTask, default_reward
from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.running.library import Library
from hpcosim_sim.record.metrics import measure
from hpcosim_workloads.table import JobTable
from support.learned_power import drawn
from support.learned_power import task_of as power_task_of
from support.paths import SCENARIOS
from support.power_manager_runs import nodes_of
from support.simulating import cluster_of, jobs_of

WHY = "the extra rl is not installed: pip install 'hpcosim[rl]'"
gymnasium: Any = pytest.importorskip("gymnasium", reason=WHY)

from gymnasium.error import InvalidAction, ResetNeeded  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from hpcosim_gym.gymnasium_envs import (  # noqa: E402
    JOB_NODE_PAIRING,
    NODE_POWER,
    STEP_BINDING,
)
from hpcosim_papers.deep_eas.environments.step_binding import (  # noqa: E402
    StepBindingEnv,
    StepBindingVectorEnv,
)
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv  # noqa: E402
from hpcosim_papers.power.environments.node_power import NodePowerEnv  # noqa: E402
from hpcosim_papers.power.environments.power_task import Reward  # noqa: E402

EXPERIMENTS = SCENARIOS / "papers" / "ineps"
LAMBDA = str(SCENARIOS / "papers" / "deep_eas" / "lambda_0.9.yaml")
EXP1, EXP2 = str(EXPERIMENTS / "exp1.yaml"), EXPERIMENTS / "exp2.yaml"
SEES = ("papers", "papers_no_energy", "foreseen")

SLEEPERS = """
name: sleepers
seed: 3
platform:
  nodes:
    - count: 3
      processors: [{cores: 1, static_w: 100, dynamic_w: 0}]
      power_states: {sleep_w: 5, switch_on_s: 9, switch_on_w: 80, switch_off_s: 4, switch_off_w: 20}
workload:
  synthetic: {model: poisson, jobs: 20, mean_interarrival_s: 30, cores: [1, 3], run_s: [1, 90]}
scheduler: {name: easy, power_awareness: aware}
"""


@pytest.fixture
def sleepers(tmp_path: Path) -> str:
    """Return the path of a scenario whose nodes can be switched off."""
    path = tmp_path / "sleepers.yaml"
    path.write_text(SLEEPERS)
    return str(path)


class Decision(NamedTuple):
    """A decision's observation and mask, and its result."""

    seen: NDArray[np.float32]
    mask: NDArray[np.int8]
    reward: float
    terminated: bool


def some_action(mask: NDArray[np.int8], rng: np.random.Generator) -> Any:
    """Return a random allowed action of a pairing or node-power environment."""
    if mask.ndim == 1:
        return int(rng.choice(np.flatnonzero(mask)))
    return rng.integers(0, 2, len(mask), dtype=np.int8)


def played(env: Any, seed: int) -> list[Decision]:
    """Run one episode with random actions."""
    rng, decisions, over = np.random.default_rng(seed), [], False
    seen, info = env.reset(seed=seed)
    while not over:
        before, mask = seen, info["action_mask"]
        seen, reward, over, cut, info = env.step(some_action(mask, rng))
        assert not cut
        decisions.append(Decision(before, mask, float(reward), over))
    return decisions


def played_side_by_side(envs: Any, seeds: list[int]) -> list[list[Decision]]:
    """Run one episode in each environment of a vector as `played` does."""
    rngs = [np.random.default_rng(seed) for seed in seeds]
    runs: list[list[Decision]] = [[] for _ in seeds]
    going = set(range(len(seeds)))
    seen, info = envs.reset(seed=seeds)
    while going:
        # A vector environment reuses its arrays in the next step.
        seen, masks = np.array(seen), np.array(info["action_mask"])
        actions = np.array([some_action(*each) for each in zip(masks, rngs, strict=True)])
        after, rewards, overs, _, info = envs.step(actions)
        for run in sorted(going):
            over = bool(overs[run])
            runs[run].append(Decision(seen[run], masks[run], float(rewards[run]), over))
            going -= {run} if over else set()
        seen = after
    return runs


def assert_equal(some: list[Decision], others: list[Decision]) -> None:
    """Check that two episodes are bit-identical."""
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert np.array_equal(one.seen, other.seen)
        assert np.array_equal(one.mask, other.mask)
        assert one[2:] == other[2:]


# All environments


@pytest.mark.parametrize("sees", SEES)
def test_gymnasiums_own_checker_finds_nothing_in_pairing(sees: str) -> None:
    """The pairing environment passes `check_env` with every observation."""
    check_env(gymnasium.make(JOB_NODE_PAIRING, scenario=EXP1, sees=sees, invalid="first").unwrapped)


@pytest.mark.parametrize("origin_s", [None, 0.0])
def test_gymnasiums_own_checker_finds_nothing_in_switching(
    sleepers: str, origin_s: float | None
) -> None:
    """The node-power environment passes `check_env` with and without calendar."""
    check_env(gymnasium.make(NODE_POWER, scenario=sleepers, origin_s=origin_s).unwrapped)


def test_gymnasiums_own_checker_takes_task_and_jobs() -> None:
    """Environments of a task and jobs pass `check_env`."""
    power = gymnasium.make(NODE_POWER, task=power_task_of(nodes_of(3)), jobs=some_jobs())
    check_env(power.unwrapped)
    task, jobs = PairingTask(cluster_of(2, 4)), jobs_of((0, 9, 2), (1, 9, 4))
    pairing = gymnasium.make(JOB_NODE_PAIRING, task=task, jobs=jobs, invalid="first")
    check_env(pairing.unwrapped)


@pytest.mark.slow
def test_gymnasium_imports_what_an_id_names() -> None:
    """`gymnasium.make` with the module in the id works in a new process and imports no torch."""
    program = (
        "import gymnasium, sys\n"
        f"id = 'hpcosim_gym.gymnasium_envs:{JOB_NODE_PAIRING}'\n"
        f"gymnasium.make(id, scenario={EXP1!r}, sees='papers').reset()\n"
        "print('torch' in sys.modules)\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("sees", ["papers", "foreseen"])
def test_a_vector_of_pairings_is_as_many_single_ones(sees: str, mode: str) -> None:
    """A vector of pairing environments equals single ones, in one process or several."""
    how = {"scenario": EXP1, "sees": sees, "objective": "edp"}
    envs = gymnasium.make_vec(JOB_NODE_PAIRING, 3, mode, vector_kwargs=fresh(mode), **how)
    seeds = [5, 6, 7]
    for seed, run in zip(seeds, played_side_by_side(envs, seeds), strict=True):
        assert_equal(run, played(gymnasium.make(JOB_NODE_PAIRING, **how), seed))
    envs.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_vector_of_switchings_is_as_many_single_ones(sleepers: str, mode: str) -> None:
    """A vector of node-power environments equals single ones, in one process or several."""
    how = {"scenario": sleepers, "interval_s": 60.0}
    envs = gymnasium.make_vec(NODE_POWER, 2, mode, vector_kwargs=fresh(mode), **how)
    seeds = [5, 6]
    for seed, run in zip(seeds, played_side_by_side(envs, seeds), strict=True):
        assert_equal(run, played(gymnasium.make(NODE_POWER, **how), seed))
    envs.close()


def fresh(mode: str) -> dict[str, str]:
    """Return the vector arguments that select spawned processes."""
    return {"context": "spawn"} if mode == "async" else {}


def test_the_same_actions_bring_the_same_episode(sleepers: str) -> None:
    """A seed and the actions determine the episode, also in a used environment."""
    for make in (
        partial(gymnasium.make, JOB_NODE_PAIRING, scenario=EXP1),
        partial(gymnasium.make, NODE_POWER, scenario=sleepers),
    ):
        env = make()
        first = played(env, 4)
        played(env, 5)
        assert_equal(played(env, 4), first)
        assert_equal(played(make(), 4), first)


def test_the_last_info_is_the_servers_metrics(sleepers: str) -> None:
    """The last info contains the server's energy, energy-delay product and makespan."""
    envs: list[Any] = [JobNodePairingEnv(EXP1), NodePowerEnv(sleepers)]
    for env in envs:
        _, info = env.reset()
        rng, over = np.random.default_rng(0), False
        while not over:
            assert set(info) == {"action_mask"}
            _, _, over, _, info = env.step(some_action(info["action_mask"], rng))
        metrics = measure(env.simulation.record())
        assert metrics["jobs_completed"] in (6, 20)
        for name in ("energy_j", "edp_js", "makespan_s"):
            assert info[name] == metrics[name] > 0.0


def test_after_the_end_there_is_no_step(sleepers: str) -> None:
    """A step before the first reset or after the end is an error."""
    envs: list[Any] = [JobNodePairingEnv(EXP1), NodePowerEnv(sleepers)]
    for env in envs:
        action = env.action_space.sample()
        with pytest.raises(ResetNeeded, match="call reset"):
            env.step(action)
        played(env, 0)
        with pytest.raises(ResetNeeded, match="the episode is"):
            env.step(action)
        env.reset()


@pytest.mark.parametrize("kind", [JobNodePairingEnv, NodePowerEnv])
def test_an_environment_is_made_of_a_scenario_or_of_task_and_jobs(kind: Any) -> None:
    """Incomplete or contradicting arguments are errors that name the valid ones."""
    task: Any = (
        PairingTask(cluster_of(2)) if kind is JobNodePairingEnv else power_task_of(nodes_of(3))
    )
    for arguments in ({}, {"task": task}, {"jobs": some_jobs()}, {"overrides": {"seed": 1}}):
        with pytest.raises(ValueError, match="scenario=FILE"):
            kind(**arguments)
    with pytest.raises(ValueError, match="remove task= and jobs="):
        kind(EXP1, task=task)
    changed: dict[str, Any] = {"reward": "spent"}
    with pytest.raises(ValueError, match="task= already defines"):
        kind(task=task, jobs=some_jobs(), **changed)
    with pytest.raises(ScenarioError, match=r"no\.yaml"):
        kind("no.yaml")


def test_an_environment_takes_the_name_of_a_shipped_scenario() -> None:
    """The name of a shipped scenario equals the path of its file."""
    named, by_path = JobNodePairingEnv("ineps/exp1"), JobNodePairingEnv(EXP1)
    assert named.task.platform == by_path.task.platform


@pytest.mark.filterwarnings("ignore:.*render_mode")
def test_there_is_no_rendering(sleepers: str) -> None:
    """A render mode is an error in every environment."""
    scenarios = {JOB_NODE_PAIRING: EXP1, NODE_POWER: sleepers, STEP_BINDING: LAMBDA}
    for name, scenario in scenarios.items():
        with pytest.raises(ValueError, match="there is no rendering"):
            gymnasium.make(name, scenario=scenario, render_mode="human")


def some_jobs() -> JobTable:
    """Return a fixed workload."""
    return drawn(np.random.default_rng(1), 40)


# JobNodePairing


def pairing_env(settings: Pairing, path: str | Path) -> JobNodePairingEnv:
    """Return the environment of a scenario's platform and jobs."""
    library = Library([Path(path)])
    task = PairingTask(library.first.platform, settings, default_reward(settings.sees))
    return JobNodePairingEnv(task=task, jobs=library.first_jobs)


@pytest.mark.parametrize("path", [EXP1, EXP2])
@pytest.mark.parametrize(
    "settings",
    [
        Pairing(sees="papers"),
        Pairing(sees="papers_no_energy", wait=False),
        Pairing(sees="papers", placements_per_event="one", objective="edp", window_jobs=3),
        Pairing(sees="foreseen", window_jobs=2),
        Pairing(sees="foreseen", wait_s=None, objective="edp"),
    ],
)
def test_rows_stand_at_their_actions(settings: Pairing, path: str | Path) -> None:
    """Mask and rows are the choices of the client's `PairingRounds`; other rows are 0."""
    env, rng = pairing_env(settings, path), np.random.default_rng(0)
    seen, info = env.reset()
    while not env.done:
        choices = env.choices
        assert seen in env.observation_space
        assert np.flatnonzero(info["action_mask"]).tolist() == choices.actions.tolist()
        assert np.array_equal(env.action_masks(), info["action_mask"])
        assert np.array_equal(seen[choices.actions], choices.rows)
        assert not seen[info["action_mask"] == 0].any()
        seen, _, _, truncated, info = env.step(rng.choice(choices.actions))
        assert not truncated
    assert not seen.any()
    assert np.flatnonzero(info["action_mask"]).tolist() == [len(seen) - 1]


def test_a_scenario_is_its_task_and_jobs() -> None:
    """An environment of a scenario equals that of its task and jobs."""
    settings = Pairing(sees="papers", objective="edp")
    given = gymnasium.make(JOB_NODE_PAIRING, scenario=Path(EXP1), sees="papers", objective="edp")
    assert_equal(played(given, 0), played(pairing_env(settings, EXP1), 0))


def test_overrides_change_the_scenario() -> None:
    """Overrides change values of the scenario."""
    seen, _ = JobNodePairingEnv(EXP1, sees="papers", overrides={"workload.max_cores": 1}).reset()
    assert seen[0, 3] == 1 / 8  # requested cores, over those of the largest node


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_foreseen_rewards_add_up_to_the_objective(objective: str) -> None:
    """The rewards `foreseen` sum to minus the objective, divided by the scale."""
    env = JobNodePairingEnv(EXP2, sees="foreseen", objective=objective, reward_scale=1000.0)
    rewards = [decision.reward for decision in played(env, 1)]
    metrics = measure(env.simulation.record())
    total = metrics["energy_j"] if objective == "energy" else metrics["edp_js"]
    assert sum(rewards) == pytest.approx(-total / 1000.0, rel=1e-9)


def test_spent_energies_add_up_to_the_energy() -> None:
    """Under the objective `energy` the rewards `spent` sum to minus the energy."""
    env = JobNodePairingEnv(EXP2, sees="papers")
    rewards = [decision.reward for decision in played(env, 1)]
    metrics = measure(env.simulation.record())
    assert sum(rewards) == pytest.approx(-metrics["energy_j"], rel=1e-9)


def test_truncated_is_not_terminated() -> None:
    """`max_decisions` truncates an episode unless the same decision terminates it."""
    whole = len(played(JobNodePairingEnv(EXP1), 0))
    for most in (4, whole, whole + 1):
        env = JobNodePairingEnv(EXP1, max_decisions=most)
        *before, last = list(flags(env, 0))
        assert before == [(False, False)] * (min(most, whole) - 1)
        assert last == (most >= whole, most < whole)
        with pytest.raises(ResetNeeded, match="terminated" if most >= whole else "after 4 dec"):
            env.step(0)
        assert len(list(flags(env, 0))) == min(most, whole)


def flags(env: JobNodePairingEnv, seed: int) -> Iterator[tuple[bool, bool]]:
    """Yield `terminated` and `truncated` of each decision of `played`."""
    rng, terminated, truncated = np.random.default_rng(seed), False, False
    _, info = env.reset()
    while not (terminated or truncated):
        action = some_action(info["action_mask"], rng)
        _, _, terminated, truncated, info = env.step(action)
        yield terminated, truncated


def test_what_is_cut_short_is_still_seen() -> None:
    """A truncated episode has a last observation and no metrics."""
    env = JobNodePairingEnv(EXP1, max_decisions=1)
    env.reset()
    seen, _, _, truncated, info = env.step(0)
    assert truncated
    assert seen.any()
    assert set(info) == {"action_mask"}


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (3, r"action 3 \(slot 1, empty, on node 1\) is masked; 3 allowed actions: 0, 1, 20"),
        (21, "expected 0 to 20, got 21"),
        (-1, "expected 0 to 20, got -1"),
        (0.5, "expected an integer, got 0.5"),
    ],
)
def test_an_invalid_action_is_an_error(action: Any, message: str) -> None:
    """The error names the action and the allowed ones, and the episode can continue."""
    env = JobNodePairingEnv(EXP1)
    env.reset()
    with pytest.raises(InvalidAction, match=message):
        env.step(action)
    env.step(0)


def test_without_wait_the_wait_action_is_masked() -> None:
    """With `wait=False` the wait action exists and is masked."""
    env = JobNodePairingEnv(EXP1, wait=False)
    env.reset()
    with pytest.raises(InvalidAction, match=r"action 20 \(wait\) is masked"):
        env.step(20)


def test_invalid_first_replaces_a_masked_action() -> None:
    """With `invalid="first"` the info contains the action that was executed."""
    env = JobNodePairingEnv(EXP1, invalid="first")
    _, info = env.reset()
    *_, first = env.step(19)
    assert first["action_taken"] == np.flatnonzero(info["action_mask"])[0] == 0
    *_, second = env.step(20)
    assert second["action_taken"] == 20
    with pytest.raises(InvalidAction, match="got 21"):
        env.step(21)


def test_there_is_no_mask_before_the_first_reset() -> None:
    """`action_masks` before the first reset is an error."""
    with pytest.raises(ResetNeeded, match="no episode has started"):
        JobNodePairingEnv(EXP1).action_masks()


def test_nodes_without_power_are_an_error(tmp_path: Path) -> None:
    """A platform without power is an error that names file and field."""
    path = tmp_path / "dark.yaml"
    path.write_text(re.sub(r"(static_w|dynamic_w): [\d.]+", r"\1: 0", Path(EXP1).read_text()))
    with pytest.raises(ScenarioError, match=r"dark\.yaml: platform\.nodes: static_w and dyn"):
        JobNodePairingEnv(path)
    task = PairingTask(cluster_of(2, static_w=0.0, dynamic_w=0.0))
    with pytest.raises(ScenarioError, match="no energy to save"):
        JobNodePairingEnv(task=task, jobs=jobs_of((0, 9, 1)))


def test_jobs_wider_than_a_node_are_an_error() -> None:
    """A job that needs more than one node is an error that names the job."""
    env = JobNodePairingEnv(task=PairingTask(cluster_of(2, 4)), jobs=jobs_of((0, 9, 5)))
    with pytest.raises(PolicyError, match=r"job 1 requests 5 cores.* at most 4"):
        env.reset()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window_jobs": 0}, "window_jobs"),
        ({"seas": "papers"}, "unknown argument 'seas'; did you mean sees"),
        ({"sees": "paper"}, "expected one of papers, .*, got 'paper'; did you mean papers"),
        ({"overrides": "seed=1"}, "overrides: expected a mapping .* got 'seed=1'"),
        ({"sees": "papers", "reward": "foreseen"}, "set reward=spent"),
        ({"reward": "earned"}, "one of spent, foreseen"),
        ({"reward_scale": 0.0}, "> 0, got 0.0"),
        ({"max_decisions": 0}, ">= 1 or None, got 0"),
        ({"invalid": "wait"}, "one of raise, first"),
    ],
)
def test_an_invalid_argument_is_an_error(arguments: dict[str, Any], message: str) -> None:
    """The error names the argument and what was expected."""
    with pytest.raises(ValueError, match=message):
        gymnasium.make(JOB_NODE_PAIRING, scenario=EXP1, **arguments)


@pytest.mark.slow
def test_sb3_contribs_maskable_ppo_trains_and_plays() -> None:
    """sb3-contrib's MaskablePPO trains on the masks and plays only allowed actions."""
    import torch
    from sb3_contrib import MaskablePPO

    torch.set_num_threads(1)
    env = gymnasium.make(JOB_NODE_PAIRING, scenario=EXP1, sees="papers", reward_scale=1000.0)
    how: dict[str, Any] = {"n_steps": 64, "batch_size": 32, "n_epochs": 2, "device": "cpu"}
    model = MaskablePPO("MlpPolicy", env, seed=0, **how)
    model.learn(256)
    seen, info = env.reset()
    over = False
    while not over:
        action, _ = model.predict(seen, action_masks=info["action_mask"], deterministic=True)
        assert info["action_mask"][action] == 1
        seen, _, over, _, info = env.step(action)
    assert info["energy_j"] > 0.0


# NodePower


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"interval_s": 0}, "interval_s: expected a finite number > 0, got 0"),
        ({"interval_s": "60"}, "interval_s: expected a finite number > 0, got '60'"),
        ({"origin_s": 604_801.0}, "origin_s: expected a number 0 to 604800 or None"),
        ({"reward": "linear"}, "reward: expected Reward"),
        ({"reward": Reward("sum")}, "reward.kind: expected one of shares, linear, got 'sum'"),  # type: ignore[arg-type]
        ({"reward": Reward(beta=-1.0)}, "reward.beta: expected a finite number >= 0"),
    ],
)
def test_an_invalid_setting_of_switching_is_an_error(
    sleepers: str, arguments: dict[str, Any], message: str
) -> None:
    """The error names the argument and what was expected."""
    with pytest.raises(ValueError, match=message):
        NodePowerEnv(sleepers, **arguments)


@pytest.mark.parametrize("action", [[1, 1], [1, 2, 0], [0.5, 0.0, 1.0], [[1], [1, 0]], None])
def test_switches_other_than_0_and_1_are_an_error(sleepers: str, action: Any) -> None:
    """An action of another shape, type or range is an error; 0.0 and 1.0 are valid."""
    env = NodePowerEnv(sleepers)
    env.reset()
    with pytest.raises(InvalidAction, match="action: expected 3 values 0 or 1, got"):
        env.step(action)
    env.step(np.array([1.0, 0.0, 1.0], np.float32))  # of sb3's PPO


def test_a_time_limit_truncates(sleepers: str) -> None:
    """`max_episode_steps` truncates an episode."""
    env = gymnasium.make(NODE_POWER, scenario=sleepers, interval_s=60.0, max_episode_steps=2)
    env.reset()
    ends = [env.step(np.ones(3, dtype=np.int8))[2:4] for _ in range(2)]
    assert ends == [(False, False), (False, True)]


def test_nodes_that_are_always_on_are_an_error(sleepers: str) -> None:
    """A platform without power states is an error, as is an unknown scheduler."""
    with pytest.raises(ScenarioError, match=r"exp1\.yaml: .* no node group has power_states"):
        NodePowerEnv(EXP1)
    always_on: Platform = nodes_of(3, None)
    with pytest.raises(ScenarioError, match="no node group has power_states"):
        NodePowerEnv(task=power_task_of(always_on), jobs=some_jobs())
    with pytest.raises(PolicyError, match="nosuch"):
        NodePowerEnv(sleepers, overrides={"scheduler.name": "nosuch"})


# StepBinding


def test_gymnasiums_own_checker_finds_nothing_in_binding() -> None:
    """The step-binding environment passes `check_env`."""
    check_env(gymnasium.make(STEP_BINDING, scenario=LAMBDA).unwrapped)


def test_a_vector_of_bindings_is_as_many_single_ones() -> None:
    """The vector environment equals single environments with the same seeds."""
    how = {"scenario": LAMBDA, "overrides": {"workload.synthetic.steps": 6}, "queue": 4}
    envs = gymnasium.make_vec(STEP_BINDING, 3, "vector_entry_point", **how)
    rng = np.random.default_rng(0)
    seen, info = envs.reset(seed=[5, 6, 7])
    singles = [gymnasium.make(STEP_BINDING, **how).unwrapped for _ in range(3)]
    alone = [env.reset(seed=seed) for env, seed in zip(singles, [5, 6, 7], strict=True)]
    over, total = np.zeros(3, dtype=np.bool_), np.zeros(3)
    while not over.all():
        for run in np.flatnonzero(~over):
            assert all(np.array_equal(seen[name][run], alone[run][0][name]) for name in seen)
            assert np.array_equal(info["action_mask"][run], alone[run][1]["action_mask"])
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in info["action_mask"]])
        going = np.flatnonzero(~over)
        seen, rewards, over, cut, info = envs.step(actions)
        for run in going:
            alone_seen, reward, terminated, truncated, alone_info = singles[run].step(actions[run])
            alone[run] = alone_seen, alone_info
            assert (rewards[run], over[run], cut[run]) == (reward, terminated, truncated)
        total += rewards
    assert (total < 0.0).all()
    with pytest.raises(ResetNeeded, match="all runs are over"):
        envs.step(actions)


def test_a_seed_draws_other_sequences() -> None:
    """The same seed draws the same sequences; another seed or no seed draws others."""
    env = StepBindingVectorEnv(2, LAMBDA)
    drawn = []
    for seed in (1, 1, 2, None):
        env.reset(seed=seed)
        drawn.append(env.runs.jobs.submit[0].tolist())
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2] != drawn[3]
    assert env.runs.jobs.submit.shape[0] == 2


def test_what_a_binding_environment_is_made_of() -> None:
    """Contradicting arguments, unknown settings and jobs of several runs are errors."""
    with pytest.raises(ValueError, match="scenario=FILE"):
        StepBindingEnv()
    with pytest.raises(ValueError, match="unknown argument 'cue'"):
        StepBindingEnv(LAMBDA, cue=3)
    many = StepBindingVectorEnv(2, LAMBDA)
    many.reset()
    with pytest.raises(ValueError, match="one run, got 2 runs"):
        StepBindingEnv(machines=many.machines, jobs=many.runs.jobs)
    with pytest.raises(ValueError, match="scenario=FILE"):
        StepBindingEnv(LAMBDA, machines=many.machines, jobs=many.runs.jobs)
    with pytest.raises(ScenarioError, match="expected the workload model bernoulli"):
        StepBindingEnv(EXP1)


def test_an_action_out_of_range_is_an_error() -> None:
    """An infeasible action holds, as in the paper; one out of range is an error."""
    env = StepBindingEnv(LAMBDA)
    with pytest.raises(ResetNeeded, match="not started"):
        env.step(0)
    env.reset()
    with pytest.raises(InvalidAction, match="expected 0 to 20"):
        env.step(21)
    with pytest.raises(InvalidAction, match=r"expected an integer, got 1\.0"):
        env.step(1.0)  # type: ignore[arg-type]
    env.step(19)


def test_actions_of_a_vector_are_one_integer_for_each_run() -> None:
    """Actions of another shape or type are an error, as is a vector in `gymnasium.make`."""
    envs = StepBindingVectorEnv(2, LAMBDA)
    envs.reset()
    for actions in ([0], [[0, 0]], [0.0, 0.0]):
        with pytest.raises(InvalidAction, match="expected 2 integers"):
            envs.step(np.array(actions))
    with pytest.raises(ValueError, match="make_vec"):
        gymnasium.make(STEP_BINDING, scenario=LAMBDA, num_envs=2)
    with pytest.raises(ValueError, match="num_envs: expected an integer >= 1, got 0"):
        StepBindingVectorEnv(0, LAMBDA)
