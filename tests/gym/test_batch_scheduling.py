"""The environment `hpcosim/BatchScheduling-v1`: decisions, observations, rewards."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_client import PolicyError
from hpcosim_client.view import Policy
from hpcosim_scenarios.errors import RunError, ScenarioError
from hpcosim_scenarios.running.run import run_scenario, simulate
from hpcosim_schedulers.agents.batch.policy import scheduled_by
from hpcosim_schedulers.heuristics.easy import RULES, easy_by_rule
from hpcosim_sim.record.metrics import measure
from hpcosim_workloads.table import JobTable
from support.simulating import cluster_of, jobs_of
from support.simulating import simulate as simulate_jobs

WHY = "the extra rl is not installed: pip install 'hpcosim[rl]'"
gymnasium: Any = pytest.importorskip("gymnasium", reason=WHY)

from gymnasium.error import InvalidAction, ResetNeeded  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from hpcosim_gym.environments.batch_scheduling import BatchSchedulingEnv  # noqa: E402
from hpcosim_gym.environments.batch_task import BatchEpisode, BatchTask  # noqa: E402
from hpcosim_gym.gymnasium_envs import BATCH_SCHEDULING  # noqa: E402

SCENARIO = """
name: busy
seed: 3
platform: {{nodes: [{{count: 6, processors: [{{cores: 4, static_w: {watts}, dynamic_w: 0}}]}}]}}
workload:
  synthetic: {{model: poisson, jobs: 80, mean_interarrival_s: 20, cores: [1, 20], run_s: [1, 900],
               overestimate: 5}}
  placement: {placement}
scheduler: {{name: easy}}
"""
REWARDS = ("wait", "bounded_slowdown", "energy")


@pytest.fixture
def busy(tmp_path: Path) -> str:
    """Return the path of a scenario in which jobs of several nodes wait."""
    return written(tmp_path, "cores", 100)


def written(folder: Path, placement: str, watts: float) -> str:
    """Write the scenario `busy`, and return its path."""
    path = folder / f"{placement}-{watts}.yaml"
    path.write_text(SCENARIO.format(placement=placement, watts=watts))
    return str(path)


def first(_: BatchSchedulingEnv) -> int:
    """Choose the first job."""
    return 0


def by(rule: str) -> Callable[[BatchSchedulingEnv], int]:
    """Return a chooser by a rule of the client."""
    return lambda env: RULES[rule](env.visible, env.view.now_s)


def played(env: BatchSchedulingEnv, choose: Callable[[BatchSchedulingEnv], int]) -> float:
    """Run an episode to its end, and return the sum of its rewards."""
    env.reset()
    total = 0.0
    while not env.done:
        total += env.step(choose(env))[1]
    return total


def schedule(env: BatchSchedulingEnv) -> list[tuple[int, float, float]]:
    """Return number, start and end of every job of the episode."""
    record = env.simulation.recording
    return list(zip(record.job_id, record.start_s, record.end_s, strict=True))


def schedule_of(policy: Policy | str, env: BatchSchedulingEnv) -> list[tuple[int, float, float]]:
    """Return the schedule of a policy for the cluster and the jobs of an environment."""
    record = simulate_jobs(env.task.platform, env.workload, policy).recording
    return list(zip(record.job_id, record.start_s, record.end_s, strict=True))


# The contract of Gymnasium and of Stable-Baselines3


@pytest.mark.parametrize("observation", ["dict", "flat"])
@pytest.mark.parametrize("reward", REWARDS)
def test_gymnasiums_own_checker_finds_nothing(busy: str, observation: str, reward: str) -> None:
    """`check_env` of Gymnasium passes without a warning, for all observations and rewards."""
    env = gymnasium.make(
        BATCH_SCHEDULING, scenario=busy, observation=observation, reward=reward, episode_jobs=30
    )
    check_env(env.unwrapped)


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["dict", "flat"])
def test_the_checker_of_stable_baselines3_finds_nothing(busy: str, observation: str) -> None:
    """`check_env` of Stable-Baselines3 passes without a warning, for both observations."""
    checker = pytest.importorskip(
        "stable_baselines3.common.env_checker",
        reason="the extra sb3 is not installed: pip install 'hpcosim[sb3]'",
    )
    checker.check_env(gymnasium.make(BATCH_SCHEDULING, scenario=busy, observation=observation))


@pytest.mark.parametrize(
    "mode", ["vector_entry_point", "sync", pytest.param("async", marks=pytest.mark.slow)]
)
def test_a_vector_is_as_many_single_environments(busy: str, mode: str) -> None:
    """A vector of environments equals single ones, in one process or in several.

    The single environments are reset after their ends, as Gymnasium resets those of a vector.
    """
    how: dict[str, Any] = {"scenario": busy, "observation": "flat", "episode_jobs": 30}
    fresh = {"vector_kwargs": {"context": "spawn"}} if mode == "async" else {}
    envs = gymnasium.make_vec(BATCH_SCHEDULING, 2, mode, **fresh, **how)
    singles: list[Any] = [BatchSchedulingEnv(**how) for _ in range(2)]
    seen, info = envs.reset(seed=[4, 5])
    alone = [(*env.reset(seed=seed), 0.0, False) for env, seed in zip(singles, (4, 5), strict=True)]
    rewards, over, ends = np.zeros(2), np.zeros(2, dtype=np.bool_), 0
    for _ in range(60):
        for run, (single_seen, single_info, reward, done) in enumerate(alone):
            assert isinstance(single_seen, np.ndarray)
            assert np.array_equal(seen[run], single_seen)
            assert np.array_equal(info["action_mask"][run], single_info["action_mask"])
            assert (rewards[run], over[run]) == (reward, done)
            if done:
                assert info["mean_wait_s"][run] == single_info["mean_wait_s"]
                assert info["_mean_wait_s"][run]
                ends += 1
        actions = np.array([int(mask.sum()) - 1 for mask in info["action_mask"]])
        seen, rewards, over, cut, info = envs.step(actions)
        alone = [stepped(env, action) for env, action in zip(singles, actions, strict=True)]
        assert not cut.any()
    assert ends > 1
    envs.close()


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("count", [1, 8, 40])
def test_the_compiled_vector_is_as_many_single_environments(
    busy: str, reward: str, count: int
) -> None:
    """Observations, masks, rewards, ends and metrics equal those of single environments."""
    pytest.importorskip("numba", reason="the compiled engine needs the extra fast")
    how: dict[str, Any] = {
        "scenario": busy,
        "observation": "flat",
        "episode_jobs": 30,
        "window_jobs": 7,
        "reward": reward,
    }
    envs = gymnasium.make_vec(BATCH_SCHEDULING, count, "vector_entry_point", **how)
    assert type(envs.unwrapped._runs).__name__ == "_Compiled"
    singles: list[Any] = [BatchSchedulingEnv(**how) for _ in range(count)]
    seen, info = envs.reset(seed=4)
    alone = [(*env.reset(seed=4 + at), 0.0, False) for at, env in enumerate(singles)]
    rewards, over, ends = np.zeros(count), np.zeros(count, dtype=np.bool_), 0
    rng = np.random.default_rng(count)
    for _ in range(60):
        for at, (single_seen, single_info, single_reward, done) in enumerate(alone):
            assert np.array_equal(seen[at], single_seen)
            assert np.array_equal(info["action_mask"][at], single_info["action_mask"])
            assert info["action_taken"][at] == single_info.get("action_taken", 0)
            assert (rewards[at], over[at]) == (single_reward, done)
            if done:
                for name in ("mean_wait_s", "mean_bounded_slowdown", "energy_j", "makespan_s"):
                    assert info[name][at] == single_info[name]
                ends += 1
        actions = rng.integers(7, size=count)
        seen, rewards, over, _, info = envs.step(actions)
        alone = [stepped(env, action) for env, action in zip(singles, actions, strict=True)]
    assert ends > 0


def stepped(env: BatchSchedulingEnv, action: int) -> tuple[Any, dict[str, Any], float, bool]:
    """Step an environment, or reset it after its end; return observation, info, reward, end."""
    if env.done:
        return (*env.reset(), 0.0, False)
    seen, reward, over, _, info = env.step(action)
    return seen, info, reward, over


def test_the_same_seed_brings_the_same_episodes(busy: str) -> None:
    """The seed of `reset` determines the parts of the workload; without a seed others follow."""
    env = BatchSchedulingEnv(busy, episode_jobs=10)
    jobs = []
    for seed in (1, None, 1, None):
        env.reset(seed=seed)
        jobs.append(list(env.simulation.recording.job_id) + [job.job_id for job in env.visible])
    assert jobs[0] == jobs[2] != jobs[1] == jobs[3]


# Decisions


@pytest.mark.parametrize("placement", ["cores", "whole_nodes", "one_node"])
def test_always_the_first_job_is_easy(tmp_path: Path, placement: str) -> None:
    """An agent that always chooses the first job gives the schedule of `easy`."""
    overrides = {"workload.max_cores": 4, "workload.load": 4} if placement == "one_node" else None
    env = BatchSchedulingEnv(written(tmp_path, placement, 0), overrides=overrides)
    played(env, first)
    assert schedule(env) == schedule_of("easy", env)
    played(env, by("saf"))
    assert schedule(env) != schedule_of("easy", env)


@pytest.mark.parametrize("rule", ["saf", "wfp3", "sjf-aged"])
def test_a_rule_in_the_environment_is_its_policy(busy: str, rule: str) -> None:
    """A rule gives the same schedule in the environment and as the scheduler `easy-RULE`."""
    env = BatchSchedulingEnv(busy)
    played(env, by(rule))
    assert schedule(env) == schedule_of(f"easy-{rule}", env)


def test_few_visible_jobs(busy: str) -> None:
    """Only the first `window_jobs` can be chosen, also by a rule; one alone is EASY."""
    env = BatchSchedulingEnv(busy, window_jobs=3)
    played(env, by("saf"))
    assert schedule(env) == schedule_of(easy_by_rule(RULES["saf"], 3), env)
    env = BatchSchedulingEnv(busy, window_jobs=1)
    played(env, by("saf"))
    assert schedule(env) == schedule_of("easy", env)


def test_the_chosen_job_is_reserved_and_others_backfill_behind_it() -> None:
    """Of a chosen job that does not fit no other job delays the start, on a case by hand."""
    jobs = jobs_of(
        (0, 10, 2, 10),  # runs on 2 of 4 nodes until 10
        (1, 20, 4, 20),  # 2: waits
        (2, 20, 3, 20),  # 3: waits; chosen: reserved at 10
        (3, 5, 2, 5),  # 4: would fit until 8: backfilled
        (4, 20, 1, 20),  # 5: on the node that job 3 leaves free: backfilled at 8
    )
    env = BatchSchedulingEnv(task=BatchTask(cluster_of(4)), jobs=jobs)
    env.reset()
    while not env.done:
        numbers = [job.job_id for job in env.visible]
        env.step(numbers.index(3) if 3 in numbers else 0)
    starts = dict(
        zip(env.simulation.recording.job_id, env.simulation.recording.start_s, strict=True)
    )
    assert starts == {1: 0.0, 3: 10.0, 4: 3.0, 5: 8.0, 2: 30.0}


@pytest.mark.slow
def test_the_same_policy_over_the_wire_brings_the_same_run(busy: str, tmp_path: Path) -> None:
    """A rule in two processes gives the results of the environment, job by job."""
    env = BatchSchedulingEnv(busy)
    total = played(env, by("saf"))
    metrics, folder = run_scenario(
        Path(busy), scheduler="easy-saf", transport="tcp", out=tmp_path / "out"
    )
    assert total == pytest.approx(-metrics["mean_bounded_slowdown"], rel=1e-12)
    rows = np.genfromtxt(
        folder / "jobs.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    found = {row["job_id"]: (row["start_s"], row["end_s"]) for row in rows}
    assert found == {number: (start, end) for number, start, end in schedule(env)}


# Observations and information


def test_an_observation_by_hand() -> None:
    """All columns of the jobs and of the cluster, on a case by hand."""
    # Job 1 has 6 of 8 cores and should end at 4000, job 2 has one and should end at 90.
    jobs = jobs_of((0, 100, 6, 4000), (0, 50, 1, 90), (5, 90, 4, 40), (10, 1, 1, 90))
    env = BatchSchedulingEnv(task=BatchTask(cluster_of(4, 2), window_jobs=3), jobs=jobs)
    env.reset()
    seen, *_ = env.step(0)
    assert env.view.now_s == 10.0
    expected = {
        "cluster": [1 / 8, 2 / 66, 250 / (250 + 8 * 86400), scaled(2.5), 2 / 8, 2 / 8, 1, 1],
        "visible": [1, 1, 0],
        "requested_time": [scaled(40), scaled(90), 0],
        "requested_area": [np.log(17) / np.log(1e11 + 1), np.log(10) / np.log(1e11 + 1), 0],
        "cores": [4 / 8, 1 / 8, 0],
        "log_cores": [np.log(5) / np.log(9), np.log(2) / np.log(9), 0],
        "wait": [scaled(5), 0, 0],
        "long_wait": [5 / (7 * 86400), 0, 0],
        "wait_share": [5 / 45, 0, 0],
        "fits": [0, 1, 0],
        "earliest_start": [scaled(3990), 0, 0],
        "cores_beside": [4 / 8, 0, 0],
        "place": [0, 1 / 2, 0],
    }
    assert isinstance(seen, dict)
    assert list(seen) == list(expected)
    for name, values in expected.items():
        assert seen[name] == pytest.approx(values, rel=1e-6), name


def scaled(time_s: float) -> float:
    """Return a time as observed."""
    return float(np.log(1 + time_s / 10) / np.log(1 + 30 * 86400 / 10))


def test_flat_is_the_dictionary_in_one_array(busy: str) -> None:
    """The flat observation is the cluster and then the columns of the dictionary."""
    dicts: Any = BatchSchedulingEnv(busy, observation="dict")
    flats: Any = BatchSchedulingEnv(busy, observation="flat")
    seen, flat = dicts.reset()[0], flats.reset()[0]
    for _ in range(20):
        cluster, *columns = seen.values()
        assert np.array_equal(np.concatenate([cluster, *columns]), flat)
        assert seen in dicts.observation_space
        seen, flat = dicts.step(1)[0], flats.step(1)[0]


def test_info_has_the_live_view(busy: str) -> None:
    """`info` shows the queue, the running jobs and the nodes of the scheduler's view."""
    env = BatchSchedulingEnv(busy)
    _, info = env.reset()
    view = info["view"]
    assert [job.job_id for job in view.queue.values()][:64] == [job.job_id for job in env.visible]
    assert info["action_mask"].sum() == len(env.visible)
    assert np.array_equal(env.action_masks(), info["action_mask"])
    copied = pickle.loads(pickle.dumps(view))
    assert copied == view
    env.step(0)
    assert copied != view


def test_the_last_info_has_the_metrics(busy: str) -> None:
    """The last info contains the server's metrics of the run."""
    env = BatchSchedulingEnv(busy)
    env.reset()
    info: dict[str, Any] = {}
    while not env.done:
        assert "mean_wait_s" not in info
        _, _, over, cut, info = env.step(0)
        assert (over, cut) == (env.done, False)
    metrics = measure(env.simulation.record())
    for name in ("mean_wait_s", "mean_bounded_slowdown", "energy_j", "edp_js", "makespan_s"):
        assert info[name] == metrics[name] > 0.0
    assert info["action_mask"].sum() == 1


# Rewards


@pytest.mark.parametrize("reward", REWARDS)
def test_rewards_add_up_to_the_metric(busy: str, reward: str) -> None:
    """The rewards of an episode sum to minus its metric, divided by the scale."""
    env = BatchSchedulingEnv(busy, reward=reward, reward_scale=10.0)  # type: ignore[arg-type]
    total = played(env, by("wfp3"))
    metrics = measure(env.simulation.record())
    names = {"wait": "mean_wait_s", "energy": "energy_j"}
    expected = metrics[names.get(reward, "mean_bounded_slowdown")]
    assert total == pytest.approx(-expected / 10.0, rel=1e-9)


@pytest.mark.parametrize("reward", ["wait", "bounded_slowdown"])
def test_a_cost_is_charged_when_it_arises(busy: str, reward: str) -> None:
    """At each decision the rewards so far are minus the costs of the jobs until now."""
    env = BatchSchedulingEnv(busy, reward=reward)  # type: ignore[arg-type]
    env.reset()
    total = 0.0
    while True:
        total += env.step(1)[1]
        if env.done:
            return
        assert total == pytest.approx(-cost_by_hand(env, reward), rel=1e-9)


def cost_by_hand(env: BatchSchedulingEnv, reward: str) -> float:
    """Return the mean cost of the jobs that were submitted, with their waits until now."""
    recording, costs = env.simulation.recording, 0.0
    for row, (submit_s, start_s) in enumerate(
        zip(recording.submit_s, recording.start_s, strict=True)
    ):
        wait_s = (env.simulation.now_s if np.isnan(start_s) else start_s) - submit_s
        run_s = float(env.workload.run_s[row])
        slowdown = max(1.0, (wait_s + run_s) / max(run_s, 10.0))
        costs += wait_s if reward == "wait" else slowdown
    return costs / len(env.workload)


def test_a_reward_is_a_function_of_the_episode(busy: str) -> None:
    """With a function the rewards are minus the increases of its value."""

    def longest_wait_s(episode: BatchEpisode) -> float:
        waiting = episode.view.queue.values()
        return max((episode.view.now_s - job.submit_s for job in waiting), default=0.0)

    env = BatchSchedulingEnv(busy, reward=longest_wait_s)
    env.reset()
    total = sum(env.step(0)[1] for _ in range(10))
    assert total == -longest_wait_s(env._episode) < 0.0


# Arguments and errors


def test_actions_without_a_job(busy: str) -> None:
    """They choose the first job, or are errors; so are actions out of range."""
    env = BatchSchedulingEnv(busy)
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(0)
    with pytest.raises(ResetNeeded, match="call reset"):
        env.action_masks()
    env.reset()
    assert env.step(63)[4]["action_taken"] == 0
    assert env.step(1)[4]["action_taken"] == 1
    for action in (64, -1):
        with pytest.raises(InvalidAction, match=f"expected 0 to 63, got {action}"):
            env.step(action)
    with pytest.raises(InvalidAction, match="expected an integer"):
        env.step("next")  # type: ignore[arg-type]
    strict = BatchSchedulingEnv(busy, invalid="raise")
    strict.reset()
    with pytest.raises(InvalidAction, match=r"action 63 is masked: \d+ jobs are visible"):
        strict.step(63)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"window_jobs": 0}, "window_jobs: expected an integer from 1 to 1000, got 0"),
        ({"episode_jobs": 81}, "episode_jobs: expected an integer from 1 to 80, got 81"),
        ({"reward": "speed"}, "reward: expected one of wait, bounded_slowdown, energy or a"),
        ({"reward_scale": 0.0}, "reward_scale: expected a finite number > 0"),
        ({"observation": "image"}, "observation: expected one of dict, flat, got 'image'"),
        ({"invalid": "skip"}, "invalid: expected one of first, raise"),
        ({"windows": 3}, "unknown argument 'windows'; did you mean window_jobs"),
    ],
)
def test_invalid_arguments(busy: str, argument: dict[str, Any], message: str) -> None:
    """An invalid argument is an error that names the valid values."""
    with pytest.raises(ValueError, match=message):
        BatchSchedulingEnv(busy, **argument)


def test_an_energy_reward_needs_power(tmp_path: Path) -> None:
    """Only the reward `energy` needs a power model."""
    scenario = written(tmp_path, "cores", 0)
    BatchSchedulingEnv(scenario).reset()
    with pytest.raises(ScenarioError, match="set a power above 0"):
        BatchSchedulingEnv(scenario, reward="energy")


def test_the_first_job_of_an_episode(busy: str) -> None:
    """The option `first_job` chooses the part of the workload; out of range it is an error."""
    env = BatchSchedulingEnv(busy, episode_jobs=20)
    env.reset(options={"first_job": 60})
    assert env.simulation.recording.job_id[0] == env.workload.job_id[60]
    for bad in (61, -1, 0.5):
        with pytest.raises(ValueError, match="expected an integer from 0 to 60"):
            env.reset(options={"first_job": bad})


def test_a_workload_without_a_decision_is_an_error() -> None:
    """If never two jobs wait while one of them fits, `reset` says so."""
    idle: JobTable = jobs_of((0, 1, 1), (10, 1, 1), (20, 1, 1))
    with pytest.raises(PolicyError, match="there is no decision to take"):
        BatchSchedulingEnv(task=BatchTask(cluster_of(2)), jobs=idle).reset()


# Models of other libraries


class Model:
    """A model that chooses the last visible job, with or without a mask."""

    def __init__(self, last: object = 1) -> None:
        self.last = last

    def predict(self, observation: Any, *, deterministic: bool) -> tuple[Any, None]:
        """Return the second place."""
        assert deterministic
        return np.array(self.last), None


class MaskedModel(Model):
    """A model with the parameter `action_masks`."""

    def predict(  # type: ignore[override]
        self, observation: Any, *, deterministic: bool, action_masks: Any
    ) -> tuple[Any, None]:
        """Return the last visible place."""
        assert action_masks.sum() == observation[8 : 8 + 64].sum()
        return np.int64(action_masks.sum() - 1), None


def test_a_model_schedules_as_in_the_environment(busy: str) -> None:
    """`scheduled_by` gives the schedule of the environment, with and without a mask."""
    env = BatchSchedulingEnv(busy)
    played(env, lambda _: 1)
    assert schedule(env) == schedule_of(scheduled_by(Model()), env)
    played(env, lambda env: len(env.visible) - 1)
    assert schedule(env) == schedule_of(scheduled_by(MaskedModel(), observation="flat"), env)


def test_what_is_no_model(busy: str) -> None:
    """An object without `predict`, an unknown form and a wrong action are errors."""
    with pytest.raises(PolicyError, match="int has no method predict"):
        scheduled_by(3)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="observation: expected one of dict, flat"):
        scheduled_by(Model(), observation="image")  # type: ignore[arg-type]
    with pytest.raises(RunError, match=r"action of the model: expected an integer, got"):
        simulate(Path(busy), scheduled_by(Model(0.5)))
