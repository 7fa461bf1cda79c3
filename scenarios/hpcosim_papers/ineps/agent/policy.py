"""Policies that pair jobs with nodes: a trained agent and its file, and rules on the same forecast.

`PairingRounds` says when they decide, their valid actions, and the effect of an action. The
environment of training uses the same rounds.

A file that is invalid or does not fit the features is a `PolicyError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_papers.ineps.agent import forecast_features
from hpcosim_papers.ineps.agent.forecast_features import (
    Choices,
    Forecast,
    ForecastFeatures,
    actions_of,
    share_of,
)
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_schedulers.agents import networks
from hpcosim_schedulers.agents.rounds import by_rounds, sampled
from hpcosim_schedulers.heuristics.job_node import check_one_node_jobs, energy_estimates_j

# The actors of a pairing agent. They score rows, so they take any number of jobs and nodes.

PAPER_WIDTHS = (16, 16, 8, 8, 4, 4, 1)
"""Widths of the layers of Lopez, Stafford, Bosque 2025, section 3.4.1, SELU between them."""

WIDTH = 64
"""Width of the hidden layers of the actor of `foreseen`."""

DECIMALS = 4

COLUMNS = 10
"""Number of the features of Lopez, Stafford, Bosque 2025, table 1, each scaled to 0 to 1."""

ENERGY_COLUMNS = 3

Score = Callable[[networks.Rows, networks.Rows], Floats]
"""Takes the rows and their cost columns under one weight; returns scores, float64[rows]."""

SCORES: Mapping[str, Score] = {
    "cheapest": lambda _, costs: -costs[:, forecast_features.COST].astype(np.float64),
    "costliest": lambda _, costs: costs[:, forecast_features.COST].astype(np.float64),
    "longest": lambda rows, _: (
        rows[:, forecast_features.REQUESTED].astype(np.float64) * rows[:, forecast_features.CORES]
    ),
}
"""Scores by name; of the affordable pairs the one with the highest score is placed first."""

SLACKS = (0.0, 0.1, 0.3)


def pairing(model: Path | str, *, sample: bool = False) -> Policy:
    """Return the policy of a trained agent.

    Args:
        model: file of `hpcosim train pairing`.
        sample: whether actions are sampled, with the view's `rng`; otherwise they are greedy. An
            agent that corrects a rule is deterministic.
    """
    weights, about = load_pairing(Path(model))
    rule = about.rule
    if rule is not None and sample:
        raise PolicyError(f"{model}: the agent corrects a rule and has no distribution to sample")

    def choose(view: View, choices: Choices) -> int:
        if len(choices.rows) == 1:
            return 0
        if rule is not None:
            return rule.choose(choices, corrections_of(weights, choices.rows))
        logits = logits_of(about.pairing, weights, choices.rows)
        return sampled(logits, view.rng) if sample else best(logits)

    return by_rounds(lambda view: PairingRounds(about.pairing, view), choose)


def actor_shapes(pairing: Pairing) -> networks.Shapes:
    """Return the shapes of the weights of the actor for the observations of `pairing`."""
    features = features_of(pairing)
    if pairing.sees != "foreseen":
        return networks.dense_shapes("score", features, *PAPER_WIDTHS)
    return {
        **networks.dense_shapes("of_row", features, WIDTH, WIDTH),
        **networks.linear_shapes("alone", WIDTH, WIDTH),
        **networks.linear_shapes("among", 2 * WIDTH, WIDTH, bias=False),
        **networks.linear_shapes("score", WIDTH, 1),
    }


CORRECTION = "correction"

CORRECTION_SHAPES = networks.linear_shapes(CORRECTION, forecast_features.COLUMNS, 2)
"""Shapes of the weights of the network that corrects a rule: a linear layer with two outputs."""


def corrections_of(weights: networks.Weights, rows: networks.Rows) -> Floats:
    """Return the corrections of each row, float64[rows, 2]; see `Rule.choose`."""
    weight, bias = (weights[f"{CORRECTION}.{name}"] for name in ("weight", "bias"))
    # In double precision, so that compiled code with another order of sums takes equal choices.
    corrections: Floats = rows.astype(np.float64) @ weight.T.astype(np.float64)
    return corrections + bias.astype(np.float64)


def logits_of(pairing: Pairing, weights: networks.Weights, rows: networks.Rows) -> networks.Rows:
    """Return the logit of each choice, float32[choices]."""
    if pairing.sees != "foreseen":
        return networks.dense(weights, "score", rows, networks.selu)[:, 0]
    # Each row is scored together with mean and maximum over all rows.
    known = networks.silu(networks.dense(weights, "of_row", rows, networks.silu))
    pooled = np.concatenate([known.mean(axis=0), known.max(axis=0)])
    hidden = networks.silu(
        networks.linear(weights, "alone", known) + networks.linear(weights, "among", pooled)
    )
    return networks.linear(weights, "score", hidden)[:, 0]


def best(logits: networks.Rows) -> int:
    """Return the greedy choice: the first of the largest logits, rounded to `DECIMALS`."""
    return int(logits.round(DECIMALS).argmax())


FORMAT = "hpcosim pairing 1"
ROWS = 1
"""Version of the columns of rows. Files record it; a file of another version is rejected."""


class PairingMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of an actor's file.

    Attributes:
        rule: the rule that the network corrects; None: the network scores the choices by itself.
        rows: version of the columns, `ROWS`.
        training: settings and results of the training, for information.
    """

    pairing: Pairing
    rule: Rule | None = None
    rows: int = ROWS
    features: int = 0
    training: Mapping[str, str | int | float | bool] = {}


def save_pairing(path: Path, weights: networks.Weights, about: PairingMetadata) -> None:
    """Write an actor, the same bytes for the same weights. It needs the extra `rl`."""
    about = msgspec.structs.replace(about, features=features_of(about.pairing))
    networks.write_network(path, weights, FORMAT, about)


def load_pairing(path: Path) -> tuple[networks.Weights, PairingMetadata]:
    """Return the weights of an actor and its metadata."""
    about, weights = networks.read_network(path, FORMAT, PairingMetadata, "pairing agent")
    if about.rows != ROWS:
        what = f"expected features of version {ROWS}, got {about.rows}"
        raise PolicyError(f"{path}: {what}; train it again")
    if about.features != (features := features_of(about.pairing)):
        sees = about.pairing.sees
        raise PolicyError(
            f"{path}: expected {features} features of a pair for {sees!r}, got {about.features}"
        )
    if about.rule is not None:
        _check_rule(path, about)
        return networks.check_weights(path, weights, CORRECTION_SHAPES), about
    return networks.check_weights(path, weights, actor_shapes(about.pairing)), about


def _check_rule(path: Path, about: PairingMetadata) -> None:
    rule, sees = about.rule, about.pairing.sees
    assert rule is not None
    if sees != "foreseen":
        raise PolicyError(f"{path}: a rule needs the features 'foreseen', not {sees!r}")
    has_weight = 0 <= rule.weight < len(forecast_features.WEIGHTS)
    if rule.score not in SCORES or not has_weight or not 0.0 <= rule.slack < np.inf:
        raise PolicyError(f"{path}: expected a rule, got {tuple(rule)}")


def paper_columns(settings: Pairing) -> int:
    """Return the number of columns of a row."""
    return COLUMNS - ENERGY_COLUMNS if settings.sees == "papers_no_energy" else COLUMNS


class PaperFeatures:
    """Features of every pair of an eligible job and a node with enough free cores."""

    def __init__(self, settings: Pairing, view: View) -> None:
        self._settings = settings
        nodes, groups = view.nodes, view.platform.nodes
        self._idle_w: Floats = np.array([group.idle_w for group in groups])[nodes.group]
        self._clock = nodes.ops_per_s / nodes.ops_per_s.max()
        self._first_s: float | None = None

    def choices(self, view: View, may_wait: bool) -> Choices | None:
        """Return the valid actions; None: no job fits."""
        settings, nodes = self._settings, view.nodes
        if self._first_s is None:
            self._first_s = view.now_s
        jobs = list(islice(view.queue.values(), settings.window_jobs))
        cores = np.array([[job.cores] for job in jobs])
        requested_s = np.array([[job.requested_s] for job in jobs])
        estimates_j = energy_estimates_j(view, requested_s, cores, nodes.jobs)
        most_j = np.array([[job.max_energy_j] for job in jobs])
        slot, node = ((nodes.free >= cores) & (estimates_j <= most_j)).nonzero()
        if not len(slot):
            return None
        rows = np.zeros((len(slot) + may_wait, COLUMNS), dtype=np.float32)
        pairs = rows[: len(slot)]
        pairs[:, :4] = self._of_jobs(jobs, view)[slot]
        pairs[:, 4:9] = self._of_nodes(nodes)[node]
        pairs[:, 9] = share_of(estimates_j[slot, node], settings.energy_j)
        rows = rows[:, : paper_columns(settings)]
        count = len(nodes.free)
        actions = actions_of(slot, node, settings.window_jobs, count, may_wait)
        return Choices(rows, actions, jobs, count, settings.window_jobs)

    def _of_jobs(self, jobs: Sequence[Job], view: View) -> networks.Rows:
        time_s, largest = self._settings.time_s, view.nodes.largest
        assert self._first_s is not None
        return np.array(
            [
                (
                    share_of(view.now_s - job.submit_s, time_s),
                    share_of(job.requested_s, time_s),
                    share_of(max(job.submit_s - self._first_s, 0.0), time_s),
                    job.cores / largest,
                )
                for job in jobs
            ],
            dtype=np.float32,
        )

    def _of_nodes(self, nodes: NodePool) -> networks.Rows:
        busy = nodes.capacity - nodes.free
        static_w = np.where(nodes.jobs > 0, nodes.static_w, self._idle_w)
        most_static_w = max(float(nodes.static_w.max()), 1e-12)
        most_dynamic_w = max(float((nodes.capacity * nodes.dynamic_w).max()), 1e-12)
        return np.stack(
            [
                nodes.free / nodes.capacity,
                self._clock,
                np.ones(len(busy)),
                static_w / most_static_w,
                busy * nodes.dynamic_w / most_dynamic_w,
            ],
            axis=1,
            dtype=np.float32,
        )


def features_of(settings: Pairing) -> int:
    """Return the number of columns of a row."""
    if settings.sees == "foreseen":
        return forecast_features.COLUMNS
    return paper_columns(settings)


class PairingRounds:
    """The rounds of one simulation: `begin` at each event, then `look` and `take` alternately."""

    def __init__(self, settings: Pairing, view: View) -> None:
        self.settings = settings
        self._shows: ForecastFeatures | PaperFeatures
        self._forecasting: ForecastFeatures | None = None
        if settings.sees == "foreseen":
            self._shows = self._forecasting = ForecastFeatures(settings, view)
        else:
            self._shows = PaperFeatures(settings, view)
        self._over = False  # no further round until the next event
        self._waits_since_s: float | None = None
        self._alarm = PolicyAlarm()

    @property
    def forecast(self) -> Forecast:
        """The forecast; only with `sees: foreseen`."""
        assert self._forecasting is not None, "there is a forecast only with sees: foreseen"
        return self._forecasting.forecast

    def begin(self, view: View) -> None:
        """Apply the events since the last call.

        Raises:
            PolicyError: a job cannot run on one node.
        """
        check_one_node_jobs(view, "a pairing agent places")
        self._over = False
        if self._forecasting is not None:
            self._forecasting.follow(view)

    def look(self, view: View) -> Choices | None:
        """Return the valid actions of the next round; None: no round until the next event.

        Raises:
            PolicyError: no action is valid and no event will come.
        """
        if self._over or not view.queue:
            return None
        choices = self._shows.choices(view, self._may_wait(view))
        if choices is None and not view.running and view.no_more_jobs:
            numbers = ", ".join(str(job_id) for job_id in list(view.queue)[:3])
            raise PolicyError(
                f"no waiting job can start on the idle cluster: the energy estimate of jobs "
                f"{numbers} and any others exceeds their max_energy_j on every node that fits"
            )
        return choices

    def take(self, view: View, choices: Choices, choice: int) -> None:
        """Carry out a choice: start the job on the node, or wait."""
        pair = choices.pair(choice)
        if pair is None:
            self._wait(view)
            return
        job, node = pair
        started = view.start(job, [node])
        assert started, "a valid pair fits"
        if self._forecasting is not None:
            self._forecasting.forecast.place(view, job, node)
        self._waits_since_s = None
        self._alarm.cancel(view)
        self._over = self.settings.placements_per_event == "one"

    def _may_wait(self, view: View) -> bool:
        settings = self.settings
        if not settings.wait or (not view.running and view.no_more_jobs):
            return False
        since_s = self._waits_since_s
        return since_s is None or view.now_s < since_s + settings.most_wait_s

    def _wait(self, view: View) -> None:
        self._over = True
        if self._waits_since_s is None:
            self._waits_since_s = view.now_s
        until_s = self._waits_since_s + self.settings.most_wait_s
        if self.settings.wait_s is not None:
            until_s = min(until_s, view.now_s + self.settings.wait_s)
        if until_s > view.now_s:
            self._alarm.set(view, until_s)


class Rule(NamedTuple):
    """A rule that chooses a pair of job and node, or waits.

    A pair is affordable if it costs at most (1 + slack) times the job's cheapest option. Without
    an affordable pair the rule waits; if it may not wait, it takes the pair with the smallest cost
    ratio.

    A network can correct it: it moves the cost ratio and the score of each pair.

    Attributes:
        score: a key of `SCORES`.
        slack: tolerated relative extra cost, 0 or more.
        weight: index in `forecast_features.WEIGHTS` of the weight used for costs.
    """

    score: str
    slack: float
    weight: int

    @property
    def first(self) -> int:
        """The first column of the costs under its weight."""
        return forecast_features.FIRST_WEIGHT + forecast_features.PER_WEIGHT * self.weight

    @property
    def least_share(self) -> float:
        """The least cost of a job's options / cost of an affordable pair."""
        return 1.0 / (1.0 + self.slack) - 1e-6

    def choose(self, choices: Choices, corrections: Floats | None = None) -> int:
        """Return the index of its choice.

        Args:
            corrections: float64[choices, 2], added to the cost ratio and to the score of each pair;
                None: 0.
        """
        rows = choices.rows
        costs = rows[:, self.first : self.first + forecast_features.PER_WEIGHT]
        waits = rows[:, forecast_features.WAITS] > 0.0
        share: NDArray[np.floating] = costs[:, forecast_features.LEAST]
        scores = SCORES[self.score](rows, costs)
        if corrections is not None:
            share, scores = share + corrections[:, 0], scores + corrections[:, 1]
        cheap = (share >= self.least_share) & ~waits
        if not cheap.any():
            return int(waits.argmax() if waits.any() else share.argmax())
        # The cheaper pair breaks ties.
        scores = np.where(cheap, scores, -np.inf)
        best = np.flatnonzero(scores >= scores.max() - 1e-9)
        return int(best[costs[best, forecast_features.COST].argmin()])


RULES = [
    Rule(score, slack, weight)
    for score in SCORES
    for slack in SLACKS
    for weight in range(len(forecast_features.WEIGHTS))
]

BEST: Mapping[Objective, Rule] = {
    "energy": Rule("longest", 0.1, 2),
    "edp": Rule("longest", 0.0, 3),
}
"""The rule of `RULES` with the lowest mean cost on the validation workloads of
`hpcosim reproduce pairing-unseen`, by objective."""


def pairing_rule(objective: Objective, rule: Rule | None = None) -> Policy:
    """Return the policy of a rule on the forecast.

    Args:
        rule: the rule; None: that of `BEST`.
    """
    chosen = rule or BEST[objective]
    return by_rounds(
        lambda view: PairingRounds(Pairing(objective=objective), view),
        lambda _, choices: chosen.choose(choices),
    )
