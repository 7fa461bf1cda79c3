"""Titles, units and digits of metrics."""

from __future__ import annotations

import math

import pytest

from hpcosim_experiments.report.units import measure_of, with_digits


@pytest.mark.parametrize(
    ("metric", "largest", "title", "scale"),
    [
        ("mean_wait_s", 30.0, "mean wait (s)", 1.0),
        ("mean_wait_s", 900.0, "mean wait (min)", 60.0),
        ("p95_wait_s", 7200.0, "95th-percentile wait (h)", 3600.0),
        ("makespan_s", 30 * 86400.0, "makespan (days)", 86400.0),
        ("energy_j", 5000.0, "energy (J)", 1.0),
        ("idle_energy_j", 3.6e6, "idle energy (kWh)", 3.6e6),
        ("energy_j", 1e12, "energy (MWh)", 3.6e9),
        ("energy_kwh", 500.0, "energy (kWh)", 1.0),
        ("edp_js", 1e12, "EDP (kWh h)", 1.296e10),
        ("co2_kg", 5e4, "CO2 (t)", 1000.0),
        ("utilization", 0.5, "utilization (%)", 0.01),
        ("mean_normalised_edp", 20.0, "mean normalised EDP (W)", 1.0),
        ("jobs_completed", 2000, "jobs completed", 1.0),
        ("energy_cost", 12.0, "energy cost", 1.0),
    ],
)
def test_the_unit_follows_from_name_and_size(
    metric: str, largest: float, title: str, scale: float
) -> None:
    """The suffix of a metric gives its unit, and large values a larger one."""
    measure = measure_of(metric, [None, 0.0, -largest, math.nan])
    assert (measure.named, measure.scale) == (title, scale)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([3, 4000], ["3", "4,000"]),
        ([0.12345, 12.3456, 1234.56], ["0.1", "12.3", "1,234.6"]),
        ([1234.5], ["1,234"]),
        ([0.00001], ["0.0000"]),
        ([0.0, 0.5], ["0.000", "0.500"]),
        ([], []),
    ],
)
def test_the_median_has_three_significant_digits(values: list[float], texts: list[str]) -> None:
    """All values of a column have the same number of digits, at most four; integers have none."""
    measure = with_digits(measure_of("node_shutdowns", []), values)
    assert [measure.text(value) for value in values] == texts
