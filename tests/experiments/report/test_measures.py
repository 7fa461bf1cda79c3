"""Measures of tables and figures."""

from __future__ import annotations

from hpcosim_experiments.report.units import Measure


def test_a_measure_converts_units() -> None:
    """Values, means and spreads are in the unit of the measure."""
    energy = Measure("energy_j", "energy", "kJ", 1e3, 1)
    rows = [{"energy_j": 1000.0}, {"energy_j": 2000.0}, {"energy_j": 6000.0}]
    assert energy.named == "energy (kJ)"
    assert energy.mean(rows) == 3.0
    assert energy.spread(rows) == "3.0 (1.0 to 6.0)"
    assert energy.spread(rows[:1]) == "1.0"
