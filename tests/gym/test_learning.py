"""The learning algorithms on small problems: returns, losses, updates, sessions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch: Any = pytest.importorskip("torch", reason="the extra rl is not installed")

from hpcosim_client.job import Floats, Ints  # noqa: E402
from hpcosim_gym.errors import CheckpointError  # noqa: E402
from hpcosim_gym.learning.checkpoint import read_checkpoint, write_checkpoint  # noqa: E402
from hpcosim_gym.learning.curve import Iteration, read_curve  # noqa: E402
from hpcosim_gym.learning.networks import (  # noqa: E402
    Evaluation,
    categorical,
    sample_categorical,
    sample_switches,
    switches,
)
from hpcosim_gym.learning.rollout import Rollout, collect, joined  # noqa: E402
from hpcosim_gym.learning.settings import TrainingSettings, checksum, description  # noqa: E402
from hpcosim_gym.learning.trainers import TrainingStopped  # noqa: E402
from hpcosim_gym.learning.training_session import (  # noqa: E402
    IterationOutcome,
    Learner,
    TrainingProgress,
    TrainingSession,
)
from hpcosim_gym.learning.update import (  # noqa: E402
    Agent,
    behaviour_cloning,
    clipped_surrogate,
    discounted_returns,
    generalised_advantages,
    learn,
    policy_gradient,
    skim_weights,
)
from hpcosim_papers.deep_eas.learners.settings import FORMS  # noqa: E402
from hpcosim_papers.power.learners.train import A2C, PPO  # noqa: E402
from hpcosim_schedulers.agents.networks import CHECKPOINT  # noqa: E402
from support.interrupted import StoppedError, stop_at  # noqa: E402
from support.simulating import cluster_of, jobs_of  # noqa: E402

# Returns and advantages


def advantages_by_definition(
    rewards: list[float], values: list[float], last: float, discount: float, gae_lambda: float
) -> list[float]:
    """Return the advantages of one episode by equation 16 of the paper."""
    states = [*values, last]
    errors = [reward + discount * states[at + 1] - states[at] for at, reward in enumerate(rewards)]
    return [
        sum(
            (discount * gae_lambda) ** (later - at) * errors[later]
            for later in range(at, len(errors))
        )
        for at in range(len(errors))
    ]


def returns_by_definition(rewards: list[float], last: float, discount: float) -> list[float]:
    """Return the discounted returns of one episode."""
    all_rewards = [*rewards, last]
    return [
        sum(discount ** (later - at) * reward for later, reward in enumerate(all_rewards[at:], at))
        for at in range(len(rewards))
    ]


number = st.floats(-10, 10)
episodes = st.lists(
    st.tuples(st.lists(st.tuples(number, number), min_size=1, max_size=6), number),
    min_size=1,
    max_size=4,
)
share = st.sampled_from([0.0, 0.3, 0.95, 1.0])


@given(episodes=episodes, discount=share, gae_lambda=share)
def test_advantages_are_those_of_the_definition(
    episodes: list[tuple[list[tuple[float, float]], float]], discount: float, gae_lambda: float
) -> None:
    """Advantages and returns equal their definitions, for each episode separately."""
    rewards = [[reward for reward, _ in steps] for steps, _ in episodes]
    values = [[value for _, value in steps] for steps, _ in episodes]
    last = [value for _, value in episodes]
    episode = np.repeat(np.arange(len(rewards)), [len(one) for one in rewards])
    given_rewards, last_values = np.concatenate(rewards), np.array(last)
    found = generalised_advantages(
        given_rewards, np.concatenate(values), episode, last_values, discount, gae_lambda
    )
    expected = [
        advantage
        for one in zip(rewards, values, last, strict=True)
        for advantage in advantages_by_definition(*one, discount, gae_lambda)
    ]
    assert found == pytest.approx(expected, abs=1e-9)
    returns = discounted_returns(given_rewards, episode, last_values, discount)
    sums = [
        one
        for each in zip(rewards, last, strict=True)
        for one in returns_by_definition(*each, discount)
    ]
    assert returns == pytest.approx(sums, abs=1e-9)


# Distributions


def test_a_categorical_choice_by_hand() -> None:
    """Log-probability and entropy are those of a softmax over the allowed actions."""
    logits = torch.tensor([[math.log(3.0), 0.0, -math.inf]])
    found = categorical(logits, torch.tensor([1]))
    assert found.log_probabilities.item() == pytest.approx(math.log(0.25))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found.entropies.item() == pytest.approx(entropy)


def test_categorical_actions_are_drawn_by_their_probabilities() -> None:
    """Sampled frequencies match the softmax; masked actions never occur."""
    logits = np.tile(np.array([math.log(3.0), 0.0, -np.inf], np.float32), (20_000, 1))
    noise = np.random.default_rng(0).exponential(size=logits.shape)
    actions, logs = sample_categorical(logits, noise)
    assert np.bincount(actions, minlength=3) / 20_000 == pytest.approx([0.75, 0.25, 0.0], abs=0.02)
    assert np.exp(logs) == pytest.approx(np.where(actions == 0, 0.75, 0.25))


def test_switches_by_hand() -> None:
    """Log-probability and entropy of each part are those of the softmax of its two logits."""
    logits = torch.tensor([[[1.0, 2.5], [0.3, -4.0]]])
    logs = torch.log_softmax(logits, dim=-1)
    actions = torch.tensor([[1, 0]])
    found = switches(logits, actions, torch.tensor([[True, False]]))
    expected = logs.gather(2, actions[..., None])[..., 0]
    assert torch.allclose(found.log_probabilities, expected, atol=1e-6)
    assert torch.allclose(found.entropies, -(logs * logs.exp()).sum(dim=-1), atol=1e-6)


def test_switches_are_drawn_only_where_there_is_a_choice() -> None:
    """Sampled frequencies match the logits; masked values never occur."""
    logits = torch.zeros((20_000, 3, 2))
    logits[:, 0, 1] = 1.0
    allowed = np.ones((20_000, 3, 2), dtype=np.bool_)
    allowed[:, 1, 0] = allowed[:, 2, 1] = False
    actions, logs = sample_switches(logits, allowed, np.random.default_rng(0))
    assert actions[:, 0].mean() == pytest.approx(1 / (1 + math.exp(-1)), abs=0.02)
    assert actions[:, 1:].mean(axis=0).tolist() == [1.0, 0.0]
    assert np.exp(logs[:, 0]).max() == pytest.approx(1 / (1 + math.exp(-1)))


# Losses


def evaluation_of(logs: Any, counted: Any = None) -> Evaluation:
    """Return an evaluation with these log-probabilities."""
    counted = torch.ones_like(logs, dtype=torch.bool) if counted is None else counted
    return Evaluation(logs, torch.zeros_like(logs), counted)


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate"),
    [(2.0, 1.0, 1.2), (0.5, 1.0, 0.5), (2.0, -1.0, -2.0), (0.5, -1.0, -0.8)],
)
def test_the_surrogate_is_clipped_only_where_that_is_less(
    ratio: float, advantage: float, surrogate: float
) -> None:
    """The surrogate is the minimum of the clipped and the unclipped term."""
    logs = torch.tensor([[math.log(ratio)]])
    loss = clipped_surrogate(
        evaluation_of(logs), torch.zeros((1, 1)), torch.tensor([advantage]), clip=0.2
    )
    assert loss.item() == pytest.approx(-surrogate)


def test_losses_leave_out_parts_without_a_choice() -> None:
    """PPO averages the parts with a choice; the policy gradient sums them."""
    logs, counted = torch.log(torch.tensor([[0.5, 0.25]])), torch.tensor([[True, False]])
    said, advantages = evaluation_of(logs, counted), torch.tensor([2.0])
    assert policy_gradient(said, logs, advantages).item() == pytest.approx(-2.0 * math.log(0.5))
    assert clipped_surrogate(said, logs, advantages, 0.2).item() == pytest.approx(-2.0)


# A test problem: choose the lamp that is on


class Lamps(NamedTuple):
    """Observations: which lamp is on, float32[decisions, 2]."""

    seen: Any

    def take(self, rows: Any) -> Lamps:
        """Return the selected decisions."""
        return Lamps(self.seen[rows])


class LampRuns:
    """Runs of different lengths; the reward is 1 for the lamp that is on, otherwise 0."""

    def __init__(self, lengths: list[int], seed: int = 0) -> None:
        self._left, self._rng = np.array(lengths), np.random.default_rng(seed)
        self.active = self._left > 0
        self._on = self._rng.integers(0, 2, len(lengths))

    def observe(self) -> Lamps:
        """Implement `Runs.observe`."""
        return Lamps(torch.eye(2)[self._on[self.active]])

    def step(self, actions: Ints) -> Floats:
        """Implement `Runs.step`."""
        rewards: Floats = (actions == self._on[self.active]).astype(np.float64)
        self._left[self.active] -= 1
        self.active = self._left > 0
        self._on = self._rng.integers(0, 2, len(self._left))
        return rewards


def join(parts: Any) -> Lamps:
    """Concatenate observations."""
    return Lamps(torch.cat([part.seen for part in parts]))


def lamp_agent(settings: TrainingSettings, *, critic: bool = True) -> Agent[Any, Lamps]:
    """Return an agent with uniform action probabilities."""
    actor, values = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    for weights in (*actor.parameters(), *values.parameters()):
        torch.nn.init.zeros_(weights)
    return Agent(
        actor,
        values if critic else None,
        lambda net, lamps, actions: categorical(net(lamps.seen), actions),
        lambda net, lamps: net(lamps.seen)[:, 0],
        settings,
    )


def lamp_rollout(
    agent: Agent[Any, Lamps], lengths: list[int], seed: int = 0, steps: int | None = None
) -> Rollout[Lamps]:
    """Return a rollout of an agent."""
    rng = np.random.default_rng(seed)

    def sample(lamps: Lamps, _: Ints) -> tuple[Ints, Floats]:
        logits = agent.actor(lamps.seen).detach().numpy()
        return sample_categorical(logits, rng.exponential(size=logits.shape))

    return collect(LampRuns(lengths, seed), sample, join, steps)


def chance_of_right(agent: Agent[Any, Lamps]) -> float:
    """Return the probability of the lamp that is on."""
    return float(torch.softmax(agent.actor(torch.eye(2)), dim=1).diagonal().mean().detach())


def test_decisions_of_a_run_lie_one_behind_the_other() -> None:
    """The decisions of a run are consecutive, and unfinished runs are truncated."""
    rollout = lamp_rollout(lamp_agent(TrainingSettings()), [1, 4, 2], steps=3)
    assert rollout.episode.tolist() == [0, 1, 1, 1, 2, 2]
    assert rollout.truncated.tolist() == [False, True, False]
    assert rollout.final is not None
    assert len(rollout.final.seen) == 1
    right = rollout.observations.seen.argmax(dim=1) == rollout.actions
    assert rollout.rewards.tolist() == right.double().tolist()


def test_rollouts_are_joined_in_their_order() -> None:
    """Joined rollouts number their episodes consecutively and keep their rewards."""
    agent = lamp_agent(TrainingSettings())
    parts = [lamp_rollout(agent, [1, 2], 1), lamp_rollout(agent, [3], 2)]
    both = joined(parts, join)
    assert both.episode.tolist() == [0, 1, 1, 2, 2, 2]
    assert both.rewards.tolist() == [*parts[0].rewards, *parts[1].rewards]
    assert torch.equal(both.observations.seen[3:], parts[1].observations.seen)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "reinforce"])
def test_every_algorithm_learns(algorithm: Any) -> None:
    """Each algorithm learns to choose the lamp that is on."""
    settings = TrainingSettings(
        algorithm=algorithm, learning_rate=0.1, discount=0.0, epochs=2 if algorithm == "ppo" else 1
    )
    agent = lamp_agent(settings, critic=algorithm != "reinforce")
    for turn in range(20):
        rollout = lamp_rollout(agent, [8] * 8, turn)
        learn(agent, rollout, settings, np.random.default_rng(turn), 1.0)
    assert chance_of_right(agent) > 0.9


def test_the_critic_learns_returns() -> None:
    """The critic learns the expected reward of a random actor, 0.5."""
    settings = TrainingSettings(learning_rate=1e-9, critic_learning_rate=0.05, discount=0.0)
    agent = lamp_agent(settings)
    for turn in range(30):
        rollout = lamp_rollout(agent, [16] * 16, turn)
        losses = learn(agent, rollout, settings, np.random.default_rng(turn), 1.0)
    values = agent.value(Lamps(torch.eye(2))).detach().tolist()
    assert values == pytest.approx([0.5, 0.5], abs=0.1)
    assert losses.value == pytest.approx(0.25, abs=0.05)
    assert losses.entropy == pytest.approx(math.log(2.0), abs=1e-3)


def test_a_truncated_run_is_bootstrapped() -> None:
    """The target of the last decision of a truncated run includes the value of the next state."""
    settings = TrainingSettings(learning_rate=1e-9, critic_learning_rate=0.05, discount=1.0)
    cut, whole = lamp_agent(settings), lamp_agent(settings)
    for agent in (cut, whole):
        assert agent.critic is not None
        torch.nn.init.constant_(agent.critic.bias, 10.0)
    learn(cut, lamp_rollout(cut, [9], steps=1), settings, np.random.default_rng(0), 1.0)
    learn(whole, lamp_rollout(whole, [1], steps=1), settings, np.random.default_rng(0), 1.0)
    seen = Lamps(torch.full((1, 2), 0.5))
    assert cut.value(seen).item() >= 9.9
    assert whole.value(seen).item() < 9.9


def test_an_update_ends_early_where_probabilities_fell_too_far() -> None:
    """`max_kl` ends an update early."""
    moved = []
    for max_kl in (None, 1e-6):
        settings = TrainingSettings(
            learning_rate=0.05, epochs=20, minibatch=16, max_kl=max_kl, clip=10.0
        )
        agent = lamp_agent(settings)
        learn(agent, lamp_rollout(agent, [8] * 8), settings, np.random.default_rng(0), 1.0)
        moved.append(chance_of_right(agent))
    assert moved[0] > moved[1] > 0.5


@pytest.mark.parametrize("skim", [1, 8])
def test_many_decisions_have_the_gradient_of_all_at_once(
    skim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splitting a minibatch into several forward passes gives the same weights, also with skim."""
    weights = []
    for at_a_time in (1024, 7):
        monkeypatch.setattr("hpcosim_gym.learning.update.MAX_FORWARD_BATCH", at_a_time)
        settings = TrainingSettings(minibatch=None, epochs=2, skim=skim)
        agent = lamp_agent(settings)
        rollout = lamp_rollout(agent, [8] * 8)
        rollout.log_probabilities[:24] = np.log(0.995)  # almost certain, beside uncertain ones
        learn(agent, rollout, settings, np.random.default_rng(0), 1.0)
        weights.append(agent.actor.weight.detach().clone())
    assert torch.allclose(*weights, atol=1e-6)


def test_an_update_leaves_out_almost_certain_decisions() -> None:
    """Uncertain decisions are all kept; the weights of certain ones are 1 in the mean."""
    logs = np.log(np.repeat(np.array([[0.5], [0.98], [0.999]], np.float32), 10_000, axis=0))
    weights = skim_weights(logs, 8, np.random.default_rng(0))[:, 0].numpy()
    assert (weights[:20_000] == 1.0).all()
    assert set(weights[20_000:]) == {0.0, 8.0}
    assert weights[20_000:].mean() == pytest.approx(1.0, abs=0.1)


def test_uncertain_decisions_have_the_same_update_with_skim() -> None:
    """With uncertain decisions only, a setting of `skim` changes nothing but rounding."""
    found = []
    for skim in (1, 8):
        settings = TrainingSettings(minibatch=None, epochs=2, skim=skim, entropy_coefficient=0.1)
        agent = lamp_agent(settings)
        learn(agent, lamp_rollout(agent, [8] * 4), settings, np.random.default_rng(0), 1.0)
        found.append(torch.cat([part.flatten() for part in agent.actor.parameters()]))
        found[-1] = torch.cat([found[-1], agent.value(Lamps(torch.eye(2)))]).detach()
    assert torch.allclose(*found, atol=1e-6)


def test_an_agent_learns_with_skim() -> None:
    """Learning goes on although most decisions become almost certain and are left out."""
    settings = TrainingSettings(learning_rate=0.1, discount=0.0, epochs=2, skim=8)
    agent = lamp_agent(settings)
    for turn in range(30):
        rollout = lamp_rollout(agent, [8] * 8, turn)
        learn(agent, rollout, settings, np.random.default_rng(turn), 1.0)
    assert chance_of_right(agent) > 0.95


def test_an_actor_clones_demonstrations() -> None:
    """Behaviour cloning learns the demonstrated actions and their returns."""
    settings = TrainingSettings(learning_rate=0.05, discount=1.0, cloning_epochs=60)
    agent = lamp_agent(settings)
    lamps, shown = Lamps(torch.eye(2).repeat(64, 1)), torch.tensor([1, 0]).repeat(64)
    rewards, episode = np.full(128, 3.0), np.arange(128)
    never, nothing = np.zeros(128, dtype=np.bool_), torch.zeros((128, 1))
    rollout = Rollout(lamps, shown, nothing, rewards, episode, None, never)
    losses = behaviour_cloning(agent, rollout, settings, np.random.default_rng(0))
    assert chance_of_right(agent) < 0.1
    assert losses.policy < 0.1
    assert agent.value(lamps).mean().item() == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize(
    ("settings", "factors"),
    [
        (TrainingSettings(), [1.0, 1.0, 1.0]),
        (TrainingSettings(anneal=True), [1.0, 0.5, 0.2]),
        (TrainingSettings(swa=True), [1.0, 1.0, 0.5]),
    ],
)
def test_learning_rates_fall(settings: TrainingSettings, factors: list[float]) -> None:
    """Learning rates stay constant, or decrease to 0 by annealing, or to half for averaging."""
    found = [settings.learning_rate_factor(progress) for progress in (0.0, 0.5, 0.8)]
    assert found == pytest.approx(factors)


# Sessions


class LampLearner(Learner):
    """Learner of the lamps; `scores` are the results of its validations."""

    measures = ("right",)

    def __init__(
        self,
        settings: TrainingSettings,
        scores: list[float] | None = None,
        inputs: str = "jobs",
    ) -> None:
        self.settings, self.iterations = settings, settings.iterations
        self.agent = lamp_agent(settings)
        self.description = description(settings, inputs=inputs)
        self._scores = scores

    def clone(self) -> IterationOutcome:
        """Return an outcome without demonstrations."""
        return IterationOutcome("cloning")

    def iterate(self, done: int, remaining: float) -> IterationOutcome:
        """Collect a rollout and update the agent."""
        rollout = lamp_rollout(self.agent, [4] * 4, done)
        rng = np.random.default_rng(done)
        losses = learn(self.agent, rollout, self.settings, rng, remaining)
        return IterationOutcome(
            "", len(rollout), 0.0, losses, {"right": float(rollout.rewards.mean())}
        )

    def validate(self, _: Any) -> float:
        """Return the next score."""
        return self._scores.pop(0) if self._scores else 1.0 - chance_of_right(self.agent)


@pytest.mark.parametrize(("checkpoint_every", "last"), [(1, 7), (2, 6)])
def test_a_session_resumes_where_it_was(tmp_path: Path, checkpoint_every: int, last: int) -> None:
    """An interrupted and resumed session ends with the same weights and learning curve."""
    settings = TrainingSettings(iterations=8, swa=True, checkpoint_every=checkpoint_every)
    whole = TrainingSession(LampLearner(settings), tmp_path / "whole")
    whole.run()
    with pytest.raises(StoppedError):
        TrainingSession(LampLearner(settings), tmp_path / "parts").run(stop_at(7))
    resumed = TrainingSession(LampLearner(settings), tmp_path / "parts", resume=True)
    assert resumed.progress.iterations == last
    resumed.run()
    for name, weights in whole.weights().items():
        assert torch.equal(weights, resumed.weights()[name])
    curves = [
        [done._replace(seconds=0.0, environment_s=0.0) for done in read_curve(tmp_path / name)]
        for name in ("whole", "parts")
    ]
    assert repr(curves[0]) == repr(curves[1])
    assert len(curves[0]) == 9


def test_a_session_keeps_the_best_weights_and_gives_up(tmp_path: Path) -> None:
    """A session keeps the weights of the best validation, and ends after `patience` validations."""
    settings = TrainingSettings(iterations=10, patience=2, learning_rate=0.1)
    learner = LampLearner(settings, scores=[3.0, 1.0, 2.0, 1.5, 0.0])
    done_iterations: list[Iteration] = []
    best: list[Any] = []

    def record(done: Iteration) -> None:
        done_iterations.append(done)
        best.append(learner.agent.actor.weight.detach().clone())

    session = TrainingSession(learner, tmp_path)
    session.run(record)
    assert [done.validation for done in done_iterations] == [3.0, 1.0, 2.0, 1.5]
    assert (session.progress.best, session.progress.best_at) == (1.0, 1)
    assert torch.equal(session.weights()["weight"], best[1])


def test_a_stopped_session_goes_on(tmp_path: Path) -> None:
    """A report that stops a session leaves a checkpoint, whatever the interval of these is."""

    def stop(done: Iteration) -> None:
        if done.iteration == 2:
            raise TrainingStopped

    settings = TrainingSettings(iterations=4, checkpoint_every=100)
    session = TrainingSession(LampLearner(settings), tmp_path)
    session.run(stop)
    assert session.progress.iterations == 2
    rest = TrainingSession(LampLearner(settings), tmp_path, resume=True)
    rest.run()
    whole = TrainingSession(LampLearner(settings), tmp_path / "whole")
    whole.run()
    assert torch.equal(rest.weights()["weight"], whole.weights()["weight"])
    assert [done.iteration for done in read_curve(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_session_validates_at_its_end(tmp_path: Path) -> None:
    """A session validates at its end too, unless validation is switched off."""
    for every, expected in ((4, [0, 4, 6]), (0, [])):
        settings = TrainingSettings(iterations=6, validate_every=every)
        TrainingSession(LampLearner(settings), tmp_path / str(every)).run()
        curve = read_curve(tmp_path / str(every))
        found = [done.iteration for done in curve if not math.isnan(done.validation)]
        assert found == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainingSettings(validate_every=1), "set validate_every to 0"),
        (TrainingSettings(validate_every=0, cloning_epochs=1), "set cloning_epochs to 0"),
    ],
)
def test_settings_that_a_learner_does_not_support_are_an_error(
    settings: TrainingSettings, message: str, tmp_path: Path
) -> None:
    """Validation and behaviour cloning require a learner that provides them."""
    learner = LampLearner(settings)
    learner.clone = learner.validate = None  # type: ignore[method-assign,assignment]
    with pytest.raises(ValueError, match=message):
        TrainingSession(learner, tmp_path)


def test_a_checkpoint_of_another_training_is_an_error(tmp_path: Path) -> None:
    """A checkpoint of another training, a missing one and another file are errors."""
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: there is no checkpoint"):
        TrainingSession(LampLearner(TrainingSettings()), tmp_path, resume=True)
    TrainingSession(LampLearner(TrainingSettings(iterations=1)), tmp_path).run()
    other = LampLearner(TrainingSettings(iterations=1, seed=1))
    with pytest.raises(CheckpointError, match="the checkpoint has seed 0, the recipe 1;"):
        TrainingSession(other, tmp_path, resume=True)
    changed = LampLearner(TrainingSettings(iterations=1), inputs="other jobs")
    with pytest.raises(CheckpointError, match="the jobs or the validation jobs have changed"):
        TrainingSession(changed, tmp_path, resume=True)
    (tmp_path / CHECKPOINT).write_bytes(b"weights")
    with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
        TrainingSession(LampLearner(TrainingSettings(iterations=1)), tmp_path, resume=True)


def test_of_settings_that_come_together_only_the_main_one_is_named(tmp_path: Path) -> None:
    """A training with another form or algorithm is described by that alone."""
    for one, other, message in (
        (FORMS["pairs"], FORMS["queue"], "has sees pairs, the recipe queue;"),
        (A2C, PPO, "has algorithm a2c, the recipe ppo;"),
    ):
        write_checkpoint(tmp_path, {}, TrainingProgress(training=description(one)))
        with pytest.raises(CheckpointError, match=message):
            read_checkpoint(tmp_path, TrainingProgress, description(other))


@pytest.mark.filterwarnings("default")
def test_resuming_a_complete_training_warns(tmp_path: Path) -> None:
    """The warning says that all iterations are done."""
    settings = TrainingSettings(iterations=1)
    TrainingSession(LampLearner(settings), tmp_path).run()
    session = TrainingSession(LampLearner(settings), tmp_path, resume=True)
    with pytest.warns(UserWarning, match=r"the training is complete \(1 of 1 iterations\)"):
        session.run()


def test_the_checksum_is_that_of_platform_and_jobs() -> None:
    """Another platform and other jobs have another checksum."""
    jobs, other = jobs_of((0, 9, 2), (1, 9, 4)), jobs_of((0, 9, 2), (1, 8, 4))
    found = [checksum(cluster_of(2), [jobs, jobs]), checksum(cluster_of(2), [jobs, jobs])]
    assert found[0] == found[1]
    assert found[0] != checksum(cluster_of(3), [jobs, jobs])
    assert found[0] != checksum(cluster_of(2), [jobs, other])


def test_a_curve_is_read_by_its_columns(tmp_path: Path) -> None:
    """Unknown columns become measures, and missing columns are NaN."""
    path = tmp_path / "old.csv"
    path.write_text("iteration,decisions,normalised_edp,seconds\n3,40,1.5,0.25\n")
    (done,) = read_curve(path)
    assert (done.iteration, done.decisions, done.seconds) == (3, 40, 0.25)
    assert dict(done.measures) == {"normalised_edp": 1.5}
    assert math.isnan(done.validation)
