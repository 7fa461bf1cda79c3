"""The baseline of Deep-EAS: the mean return of all runs of a sequence (paper, equation 5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hpcosim_client.job import Floats
from hpcosim_gym.learning.rollout import Rollout
from hpcosim_papers.deep_eas.agent.step_costs import costs_to_go
from hpcosim_papers.deep_eas.agent.step_runs import StepRuns
from hpcosim_papers.deep_eas.learners.agent import SceneBatch
from hpcosim_papers.deep_eas.learners.settings import DeepEasTraining


def subtract_sequence_baseline(
    rollout: Rollout[SceneBatch], runs: StepRuns, training: DeepEasTraining
) -> Rollout[SceneBatch]:
    """Return a rollout whose rewards are relative to the mean of all runs of the same sequence.

    The return of a decision becomes its return minus the mean return of the runs of its sequence
    from the same step on; finished runs count as 0. With a critic, rewards are divided by the
    standard deviation of these returns, so that all sequences have equal weight. With REINFORCE,
    rewards are multiplied by the number of decisions per run, because equation 5 is a mean over
    runs and the loss is a mean over decisions.

    Args:
        rollout: whole episodes; the runs of a sequence are consecutive.
        runs: the runs, all done.
        training: number of trajectories, and algorithm.
    """
    to_go = -costs_to_go(runs)
    by_sequence = to_go.reshape(-1, training.trajectories, to_go.shape[1])
    means = by_sequence.mean(axis=1).repeat(training.trajectories, axis=0)
    baseline = means[rollout.episode, rollout.observations.step.numpy()]
    rewards = rollout.rewards - _baseline_decreases(baseline, rollout)
    if training.algorithm == "reinforce":
        return replace(rollout, rewards=rewards * (len(rollout) / len(to_go)))
    spread = by_sequence[:, :, 0].std(axis=1).repeat(training.trajectories)
    return replace(rollout, rewards=rewards / np.where(spread > 0.0, spread, 1.0)[rollout.episode])


def _baseline_decreases(baseline: Floats, rollout: Rollout[SceneBatch]) -> Floats:
    """Return the decrease of a baseline from each decision to the next, or to the run's end."""
    goes_on = np.append(rollout.episode[1:] == rollout.episode[:-1], False)
    return baseline - np.where(goes_on, np.roll(baseline, -1), 0.0)
