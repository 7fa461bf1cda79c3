"""Price and carbon intensity of a scenario, for `hpcosim validate`."""

from __future__ import annotations

from typing import Any

from hpcosim_scenarios.model.economics import Economics

RATES = (
    ("electricity price", "price_per_kwh", "tariff", "{currency}/kWh"),
    ("carbon intensity", "co2_g_per_kwh", "series", "g/kWh"),
)
"""Label, key of the constant, key of the file, and unit of each rate."""


def economics_of(economics: Economics | None) -> dict[str, Any]:
    """Return the given keys of the section by name; empty: the scenario has none."""
    if economics is None:
        return {}
    given = ((key, getattr(economics, key)) for key in Economics.__struct_fields__)
    return {key: value for key, value in given if value is not None}


def economics_lines(given: dict[str, Any]) -> dict[str, str]:
    """Return the lines of the table, by label."""
    lines = {}
    for label, constant, file, unit in RATES:
        unit = unit.format(currency=given.get("currency", ""))
        if constant in given:
            lines[label] = f"{given[constant]:g} {unit}"
        elif file in given:
            lines[label] = f"{given[file]}, {unit}"
            if period_s := given.get(f"{file}_repeat_s"):
                lines[label] += f", repeated every {period_s:,g} s"
    if "start" in given:
        lines["date of time 0"] = given["start"]
    return lines
