"""Cost and emissions of a run, compared with a slow integration over every span of every node."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import Platform
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.economics import Rates, rate_warnings, rated_by_state
from hpcosim_sim.record.metrics import measure
from hpcosim_sim.record.run_record import RunRecord, node_spans
from hpcosim_workloads.series import Series, constant
from support.examples import examples
from support.power_states_runs import play, scenes
from support.random_scenes import Scene
from support.simulating import cluster_of, jobs_of, simulate

DAY_S = 86_400.0


@st.composite
def rates(draw: st.DrawFn) -> Series:
    """Draw a rate that changes within a run, negative at times, repeating or not."""
    times = sorted(draw(st.sets(st.integers(0, 400), min_size=1, max_size=6)))
    values = draw(st.lists(st.floats(-1, 3), min_size=len(times), max_size=len(times)))
    repeat_s = float(times[-1] + 7) if draw(st.booleans()) else None
    if repeat_s is not None:
        times[0] = 0
    origin_s = draw(st.floats(-100, 100))
    return Series(np.array(times, float), np.array(values), repeat_s, origin_s)


def slowly(record: RunRecord, per_kwh: Series) -> dict[str, float]:
    """Return the integral of power x rate by state: spans of nodes, split at each change."""
    parts: dict[str, list[float]] = defaultdict(list)
    for span in node_spans(record):
        rated = span.power_w * per_kwh.integral(span.start_s, span.end_s) / 3.6e6
        parts[span.state].append(len(span.nodes) * rated)
    return {state: math.fsum(each) for state, each in parts.items()}


@examples(150)
@given(scenes(vary=True), rates())
def test_cost_is_the_integral_of_power_and_price(scene: Scene, per_kwh: Series) -> None:
    """Power and price change at any time, and several nodes change together."""
    record = play(scene).simulation.record()
    found, expected = rated_by_state(record, per_kwh), slowly(record, per_kwh)
    scale = max(1e-6, record.energy_j / 3.6e6)
    for state, value in found.items():
        assert value == pytest.approx(expected.get(state, 0.0), abs=1e-9 * scale)


def two_jobs() -> Simulation:
    """Return a run of two jobs, 2 h after each other, on a node of 1 kW idle and 2 kW computing."""
    platform = cluster_of(1, 1, static_w=2000.0, dynamic_w=0.0, idle_fraction=0.5)
    return simulate(platform, jobs_of((0.0, 3600.0, 1), (10_800.0, 3600.0, 1)))


def rated(simulation: Simulation, **rates: Series) -> dict[str, Any]:
    """Return the metrics of a run at rates."""
    return measure(replace(simulation.record(), rates=Rates(**rates)))


HOURS = Series(np.array([0.0, 1800.0, 7200.0, 10_800.0]), np.array([1.0, 2.0, 3.0, 4.0]))


def test_by_hand() -> None:
    """2 kW in hours 0 and 3, 1 kW between; the price changes after half an hour and each hour."""
    metrics = rated(two_jobs(), price_per_kwh=HOURS, co2_g_per_kwh=constant(400.0))
    assert metrics["energy_kwh"] == pytest.approx(6.0)
    assert metrics["wasted_energy_kwh"] == pytest.approx(2.0)
    assert metrics["energy_cost"] == pytest.approx(1 * 1 + 1 * 2 + 1 * 2 + 1 * 3 + 2 * 4)
    assert metrics["wasted_energy_cost"] == pytest.approx(2 + 3)
    assert metrics["co2_kg"] == pytest.approx(2.4)
    assert metrics["wasted_co2_kg"] == pytest.approx(0.8)


def test_a_negative_price_earns() -> None:
    """While the price is negative, energy has a negative cost."""
    price = Series(np.array([0.0, 3600.0, 10_800.0]), np.array([0.5, -1.0, 0.0]))
    metrics = rated(two_jobs(), price_per_kwh=price)
    assert metrics["energy_cost"] == pytest.approx(2 * 0.5 - 2 * 1.0)
    assert metrics["wasted_energy_cost"] == pytest.approx(-2.0)


def test_metrics_of_cost_need_a_rate() -> None:
    """Without rates the metrics are absent; each rate has its own."""
    assert not {"energy_cost", "co2_kg"} & measure(two_jobs().record()).keys()
    assert "energy_cost" not in rated(two_jobs(), co2_g_per_kwh=constant(400.0))
    assert "co2_kg" not in rated(two_jobs(), price_per_kwh=constant(0.3))


def test_a_price_of_zero_is_a_cost_of_zero() -> None:
    """The metrics are there, also if energy is free."""
    assert rated(two_jobs(), price_per_kwh=constant(0.0))["energy_cost"] == 0.0


def test_rates_leave_the_record_unchanged() -> None:
    """The replay on another clock has columns of its own."""
    simulation = two_jobs()
    before = simulation.recording.start_s.tolist()
    rated(simulation, price_per_kwh=HOURS)
    assert simulation.recording.start_s.tolist() == before


@pytest.mark.parametrize(
    ("series", "warnings"),
    [
        (constant(0.3), []),
        (HOURS, []),  # its last hour ends with the run
        (
            Series(HOURS.times_s, HOURS.values, origin_s=1.0),
            [
                "the tariff ends at 14399 s, before the end of the run; "
                "its last value holds afterwards",
            ],
        ),
        (
            Series(HOURS.times_s, HOURS.values, origin_s=-1.0),
            ["the tariff begins at 1 s, after the start of the run; its first value holds before"],
        ),
        (Series(HOURS.times_s, HOURS.values, repeat_s=DAY_S, origin_s=-1.0), []),
    ],
)
def test_a_series_that_does_not_cover_the_run_gives_a_warning(
    series: Series, warnings: list[str]
) -> None:
    """The last value holds as long as the one before it, and longer with a warning."""
    record = replace(two_jobs().record(), rates=Rates(price_per_kwh=series))
    assert rate_warnings(record) == warnings


def test_an_empty_run_costs_nothing() -> None:
    """A run of no time has no energy."""
    platform: Platform = cluster_of(1)
    record = Simulation(platform, jobs_of(), rates=Rates(price_per_kwh=HOURS)).record()
    assert measure(record)["energy_cost"] == 0.0
