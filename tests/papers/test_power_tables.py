"""The study of power management: the arithmetic of its tables."""

from __future__ import annotations

from typing import Any

import pytest

from hpcosim_experiments.statistics.rows import Row
from hpcosim_papers.power.study import paper, radar, sensitivity
from hpcosim_papers.power.study import pareto_figure as pareto
from hpcosim_papers.power.study.paper import METRICS


def row_of(
    kind: str,
    manager: str,
    awareness: str = "aware",
    *,
    value: float | None = None,
    seed: int | None = None,
    cluster: str = "",
    **metrics: float,
) -> Row:
    """Return a row whose other metrics are 1."""
    about = {"scenario": "test", "cluster": cluster, "kind": kind, "manager": manager}
    columns = {"awareness": awareness, "seed": seed, "value": value}
    return {**about, **columns, **dict.fromkeys(METRICS, 1.0), **metrics}


def timeout_row(minutes: float, wasted_gj: float, wait_s: float = 1.0, **more: Any) -> Row:
    """Return the row of a timeout."""
    manager = f"timeout {minutes:g} min"
    wasted_j = wasted_gj * 1e9
    return row_of(
        "timeout", manager, value=minutes, wasted_energy_j=wasted_j, mean_wait_s=wait_s, **more
    )


def test_timeouts_beside_the_paper() -> None:
    """The table of timeouts equals a hand calculation for three timeouts."""
    rows = [
        row_of("always-on", "always on", "any", job_filling_rate=0.4),
        timeout_row(10, 8.0, 300),
        timeout_row(15, 9.0, 200, job_filling_rate=0.8),
        timeout_row(20, 10.0, 100),
    ]
    table = paper.timeout_claims(rows, ["aware"])
    assert [line.split(" | ")[-1].rstrip(" |") for line in table[2:]] == [
        "timeout 10 min",
        "8.00",
        "9.00",
        "200",
        "40.00 %",
        "80.0 %",
    ]


def test_the_best_agent_beside_the_paper() -> None:
    """The table of agents equals a hand calculation for two seeds."""
    gave = [(8e9, 90.0), (9e9, 110.0)]
    rows = [
        row_of("always-on", "always on", "any", job_filling_rate=0.5),
        timeout_row(10, 9.0, 150, node_shutdowns=300, job_filling_rate=0.7),
        timeout_row(15, 10.0, 125, node_shutdowns=200, job_filling_rate=0.7),
        *(
            row_of(
                "a2c",
                "A2C sampled-real-synthetic",
                seed=seed,
                wasted_energy_j=wasted_j,
                mean_wait_s=wait_s,
                node_shutdowns=250,
                job_filling_rate=0.75,
            )
            for seed, (wasted_j, wait_s) in enumerate(gave, 1)
        ),
        row_of("a2c", "A2C no curriculum", seed=1, wasted_energy_j=17e9, mean_wait_s=50),
    ]
    table = paper.agent_claims(rows)
    assert [line.split(" | ")[-1].rstrip(" |") for line in table[2:]] == [
        "-15.00 %",
        "-5.56 %",
        "-50.00 %",
        "-20.00 %",
        "+100.00 %",
        "+25.00 points",
        "+5.00 points",
        "between 10 and 15 min",
    ]
    assert paper.agent_claims(rows[-1:]) == []


def test_the_best_is_1_on_every_spoke() -> None:
    """Radar values equal a hand calculation: three metrics inverted, utilization not."""
    shapes = radar.shapes_of(
        [
            row_of("timeout", "a", max_wait_s=10, mean_response_s=4),
            row_of("a2c", "b", seed=1, max_wait_s=20, mean_response_s=1, job_filling_rate=0.5),
        ]
    )
    assert shapes["a"] == pytest.approx([1.0, 0.25, 1.0, 1.0])
    assert shapes["b"] == pytest.approx([0.5, 1.0, 1.0, 0.5])


def test_the_front_is_what_nothing_beats() -> None:
    """The Pareto front contains non-dominated runs, and the first of equal ones."""
    points = [(5, 50), (4, 90), (5, 60), (6, 50), (7, 10), (7, 10), (9, 11)]
    rows = [timeout_row(number, *point) for number, point in enumerate(points)]
    assert [row["value"] for row in pareto.front(rows)] == [1, 0, 4]


def test_the_front_leaves_out_the_oracle() -> None:
    """The Pareto front leaves out the oracle."""
    rows = [timeout_row(5, 8, 50), row_of("oracle", "oracle", wasted_energy_j=1e9, mean_wait_s=0)]
    assert pareto.front(rows) == rows[:1]


def test_the_two_best_timeouts_of_a_cluster_are_shown() -> None:
    """The two timeouts with the least wasted energy on a cluster are shown."""
    here, there = "128 nodes", "160 nodes"
    rows = [timeout_row(minutes, wasted, cluster=here) for minutes, wasted in ((5, 3), (10, 1))]
    rows += [timeout_row(15, 2, cluster=here), timeout_row(20, 0.5, cluster=there)]
    rows += [row_of("a2c", "agent", seed=1, cluster=here)]
    found = sensitivity.shown(rows, here, "aware")
    assert list(found) == ["agent", *sensitivity.BEST_TIMEOUTS]
    assert [found[name][0]["value"] for name in sensitivity.BEST_TIMEOUTS] == [10, 15]
