"""Adaptive timeouts: features, outputs and files; the price of waiting."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hpcosim_client import Policy, PolicyError, View
from hpcosim_protocol import (
    DecisionRejected,
    JobSubmitted,
)
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.account import Submissions
from hpcosim_schedulers.power.adaptive import (
    FEW,
    TimeoutRule,
    adaptive,
    controls,
    features,
    load_rule,
    save_rule,
)
from hpcosim_schedulers.power.manager import managed
from hpcosim_schedulers.power.settings import Awareness
from hpcosim_schedulers.power.timeout import timeout
from support.power_manager_runs import nodes_of, power_history
from support.simulating import jobs_of, simulate, starts

pytest.importorskip("safetensors", reason="learned rules need the extra rl")

CYCLE_J = 10 * 80 + 4 * 20
MONDAY_NOON_S = 12 * 3600.0


def constant(few_s: float, rest_s: float, price_w: float = 3.5e5) -> TimeoutRule:
    """Return a rule that says the same of every moment."""
    weights = np.zeros((3, 9))
    weights[:, 0] = np.log([few_s, rest_s, price_w])
    return TimeoutRule(weights, 0.0)


def test_the_features_of_a_moment() -> None:
    """Monday noon, two submissions in the last hour, one of four nodes held, one job waiting."""
    view = View(nodes_of(4))
    view.apply(0.0, [JobSubmitted(0.0, 1, 1, 50.0), JobSubmitted(0.0, 2, 4, 50.0)])
    view.start(view.queue[1])
    seen = features(view, 2, MONDAY_NOON_S)
    expected = [1, 0, -1, 0, 1, 0, 2 * 2 / 22 - 1, 2 * 0.25 - 1, 2 * 0.1 - 1]
    assert seen.tolist() == pytest.approx(expected, abs=1e-12)


def test_submissions_are_forgotten_after_an_hour() -> None:
    """One of exactly an hour ago no longer counts."""
    view, submissions = View(nodes_of(4)), Submissions()
    view.apply(0.0, [JobSubmitted(0.0, 1, 1, 50.0)])
    submissions.update(view)
    assert [submissions.in_last_hour(now_s) for now_s in (0.0, 3599.0, 3600.0)] == [1, 1, 0]


def test_a_job_that_returns_to_the_queue_is_no_new_submission() -> None:
    """Its start was rejected; it arrives a second time."""
    view, submissions = View(nodes_of(4)), Submissions()
    view.apply(0.0, [JobSubmitted(0.0, 1, 1, 50.0)])
    submissions.update(view)
    view.start(view.queue[1])
    rejected = DecisionRejected(0.0, 1, 0, "allocate_job", "node_busy", "taken", job_id=1)
    view.apply(0.0, [rejected])
    submissions.update(view)
    assert view.arrived
    assert (submissions.count, submissions.in_last_hour(0.0)) == (1, 1)


def test_saturday_differs_from_friday() -> None:
    """The weekend begins on Saturday, 00:00, and ends on Monday, 00:00."""
    view = View(nodes_of(1))
    days = [features(view, 0, day * 86400.0 + 1.0)[5] for day in range(8)]
    assert days == [0, 0, 0, 0, 0, 1, 1, 0]


def test_the_controls_stay_within_bounds() -> None:
    """Whatever was learned, a timeout is at least 20 s and at most 20,000 s."""
    seen = np.ones(9)
    assert controls(np.full((3, 9), -50.0), seen) == pytest.approx((20.0, 20.0, 350.0))
    assert controls(np.full((3, 9), 50.0), seen) == pytest.approx((2e4, 2e4, 3.5e5))


def test_the_first_idle_nodes_wait_longer() -> None:
    """The first eight go after 100 s, all others after 30 s."""
    rule = constant(100.0, 30.0)
    jobs = jobs_of((0.0, 500.0, 1))
    simulation = simulate(nodes_of(FEW + 4), jobs, managed(make_policy("fcfs"), adaptive(rule)))
    off_s = [power_history(simulation.recording, node)[:1] for node in range(1, FEW + 4)]
    firsts = [at_s for ((at_s, _),) in off_s]
    assert firsts == pytest.approx([100.0] * FEW + [30.0] * 3)


def priced(awareness: Awareness, price_w: float) -> Policy:
    """Return EASY beside a timeout of 1 s, at a price of waiting."""
    manager = timeout(1.0)

    def manage(view: View) -> float | None:
        view.power_exchange.wait_price_w = price_w
        return manager(view)

    return managed(make_policy("easy", awareness), manage)


@pytest.mark.parametrize("awareness", ["aware", "planned"])
def test_a_job_waits_where_that_costs_less_than_waking(awareness: Awareness) -> None:
    """A boot has job 2 start at 30 s, the end of job 1 at 50 s: 20 s later, for 880 J saved."""
    jobs = jobs_of((0.0, 50.0, 1), (20.0, 5.0, 1))
    at_s = {
        price_w: starts(simulate(nodes_of(2), jobs, priced(awareness, price_w)))[2]
        for price_w in (math.inf, CYCLE_J / 20 + 0.1, CYCLE_J / 20 - 0.1)
    }
    assert list(at_s.values()) == [30.0, 30.0, 50.0]


def test_a_rule_survives_its_file(tmp_path: Path) -> None:
    """Weights and origin come back to the last bit; another origin may be given."""
    rule = TimeoutRule(np.random.default_rng(1).normal(size=(3, 9)), 1234.5)
    save_rule(tmp_path / "rule", rule)
    back = load_rule(tmp_path / "rule")
    assert (back.weights == rule.weights).all()
    assert (back.origin_s, load_rule(tmp_path / "rule", 7.0).origin_s) == (1234.5, 7.0)


def test_a_file_that_is_no_rule_is_refused(tmp_path: Path) -> None:
    """The error names the file and the expected content."""
    (tmp_path / "text").write_text("no")
    save_rule(tmp_path / "wide", TimeoutRule(np.zeros((3, 10)), 0.0))
    save_rule(tmp_path / "nan", TimeoutRule(np.full((3, 9), np.nan), 0.0))
    for name, why in (
        ("none", "read"),
        ("text", "read"),
        ("wide", r"shape \(3, 9\)"),
        ("nan", "finite"),
    ):
        with pytest.raises(PolicyError, match=rf"{name}.*{why}"):
            load_rule(tmp_path / name)
