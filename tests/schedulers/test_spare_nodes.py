"""The power manager `learned`: plans of `predictive` with corrected forecasts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="the extra rl is not installed")

from safetensors.numpy import save_file

from hpcosim_client.errors import PolicyError
from hpcosim_client.view import View
from hpcosim_schedulers import make_policy, managed
from hpcosim_schedulers.agents.spare_nodes import (
    COLUMNS,
    FORMAT,
    MEMORY,
    OUTPUTS,
    NeedNetwork,
    NodeUsage,
    by_network,
    load_network,
    more_energy_j,
    neutral,
    save_network,
)
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.power.settings import Learned, Predictive
from hpcosim_schedulers.predictive.manager import HOLDS, Spares
from support.power_manager_runs import STATES, nodes_of, switched
from support.simulating import jobs_of, simulate

PRICE = Predictive(500.0)
JOBS = jobs_of(*[(37.0 * number, 90.0, 1 + number % 3) for number in range(60)])


def network(**outputs: float) -> NeedNetwork:
    """Return a network with constant outputs: of needs (`used`) and of waits saved (`saved`)."""
    found = neutral(3, np.random.default_rng(0))
    found.outer[-1] = np.repeat([outputs.get("used", 0.0), outputs.get("saved", 0.0)], HOLDS)
    return found


def switches(corrections: NeedNetwork) -> list[tuple[float, int, str]]:
    """Return the changes of power states in a run with a network."""
    policy = managed(make_policy("easy", "planned"), by_network(PRICE, corrections))
    return switched(simulate(nodes_of(4, STATES), JOBS, policy))


def test_a_network_without_training_is_the_rule() -> None:
    """It switches the same nodes at the same times; one that says otherwise does not."""
    rule = switched(simulate(nodes_of(4, STATES), JOBS, with_power("easy", PRICE, "planned")))
    assert switches(network()) == rule
    assert switches(network(used=-6.0, saved=-4.0)) != rule


def test_a_network_that_expects_no_job_keeps_fewer_nodes_on() -> None:
    """One that expects many keeps them on."""
    off = [
        sum(state == "switching_off" for _, _, state in switches(network(used=value, saved=value)))
        for value in (-4.0, 4.0)
    ]
    assert off[0] > 2 * off[1]


def test_the_energy_of_a_node_follows_the_corrected_distribution() -> None:
    """The integral of the probability that it is still idle, less or more a cycle."""
    spares = Spares(2, 1, np.full(5, 90.0), np.full(5, 7000.0), np.full(5, 100.0))
    holds_s = np.array([20.0, 60.0, 130.0, 400.0])
    more = np.random.default_rng(0).uniform(-0.2, 0.2, (4, 5))
    found = more_energy_j(spares, holds_s, more)
    for node, from_s in ((0, 0.0), (1, 0.0), (3, 100.0), (4, 100.0)):
        for hold, hold_s in enumerate(holds_s):
            at_s = np.linspace(from_s, max(hold_s, from_s), 20_001)
            used = np.interp(at_s, [0.0, *holds_s], [0.0, *more[:, node]])
            idle_j = -90.0 * float(np.trapezoid(used, at_s))
            expected_j = idle_j - 7000.0 * more[hold, node]
            assert found[hold, node] == pytest.approx(expected_j, rel=1e-3, abs=0.1)
    assert not found[:, 2].any()


def test_the_history_is_that_of_the_demand() -> None:
    """Rises, shares of time and ages of each level, compared with a list of the changes."""
    changes: list[tuple[float, int]] = []
    usage: list[NodeUsage] = []

    def manage(view: View) -> None:
        usage[:] = usage or [NodeUsage(view, 50.0)]
        usage[0].update(view)
        changes.append((view.now_s, int(np.count_nonzero(view.nodes.jobs)) + len(view.queue)))

    jobs = jobs_of(*[(37.0 * number, 20.0 + 9.0 * (number % 7), 1) for number in range(30)])
    simulate(nodes_of(4, None), jobs, managed(make_policy("easy"), manage))
    end_s = changes[-1][0]
    found = usage[0].above(0, 4)
    for level in range(4):
        at = [(at_s, demand) for at_s, demand in changes if demand > level]
        spans = [(a, b) for (a, n), (b, _) in pairwise(changes) if n > level]
        until_s = [b for _, b in spans] + [at_s for at_s, _ in at] + [0.0]
        assert found[0, level] == pytest.approx((end_s - max(until_s)) / 50.0)
        for each, memory in enumerate(MEMORY):
            scale_s = 50.0 * memory
            share = sum(
                np.exp(-(end_s - b) / scale_s) - np.exp(-(end_s - a) / scale_s) for a, b in spans
            )
            assert found[1 + each, level] == pytest.approx(share)
            before = [0, *(demand for _, demand in changes)]
            rises = [t for (t, n), old in zip(changes, before, strict=False) if old <= level < n]
            forgotten = sum(np.exp(-(end_s - t) / scale_s) for t in rises)
            assert found[4 + each, level] == pytest.approx(forgotten)


def test_a_file_has_the_network_and_the_same_bytes(tmp_path: Path) -> None:
    """Facts of the training included."""
    one = network(used=1.5)
    for name in ("a", "b"):
        save_network(tmp_path / name, one, {"seed": 1, "validation": 0.5})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    for found, written in zip(load_network(tmp_path / "a"), one, strict=True):
        assert found.tolist() == written.tolist()


INNER, OUTER = np.zeros((COLUMNS + 1, 2)), np.zeros((3, OUTPUTS))


@pytest.mark.parametrize(
    ("inner", "outer", "said", "message"),
    [
        (INNER, OUTER, {"hpcosim batch 1": "64"}, "expected metadata 'hpcosim spare nodes 1'"),
        (INNER[1:], OUTER, {FORMAT: "{}"}, r"weights of shape \(\d+, any\) and \(any, 16\)"),
        (INNER, OUTER[1:], {FORMAT: "{}"}, "each of 2 hidden units, and one of biases; got 2 rows"),
        (INNER[:, 0], OUTER, {FORMAT: "{}"}, "is it a file of hpcosim train spare-nodes"),
        (INNER, OUTER + np.nan, {FORMAT: "{}"}, "expected weights that are finite numbers"),
        (INNER.astype("f4"), OUTER, {FORMAT: "{}"}, "of type float64"),
    ],
)
def test_other_files_are_errors_in_one_line(
    inner: Any, outer: Any, said: dict[str, str], message: str, tmp_path: Path
) -> None:
    """Also those of other agents."""
    file = tmp_path / "network.safetensors"
    save_file(
        {"inner": np.ascontiguousarray(inner), "outer": np.ascontiguousarray(outer)}, file, said
    )
    with pytest.raises(PolicyError, match=message) as error:
        with_power("easy", Learned(str(file), 500.0), "planned")
    assert str(error.value).startswith(f"power.model: {file}: ")
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_no_safetensors_is_an_error(tmp_path: Path) -> None:
    """It names the file."""
    with pytest.raises(PolicyError, match="none: cannot be read as a network: there is no such"):
        load_network(tmp_path / "none")
    (tmp_path / "a").write_bytes(b"{}")
    with pytest.raises(PolicyError, match="a: cannot be read as a network"):
        load_network(tmp_path / "a")
