"""Warnings before the run about schedulers that follow a signal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.running.compare import compare_policies
from hpcosim_scenarios.running.run import check, run_scenario

SCENARIO = """
name: told
platform:
  nodes:
    - count: 24
      processors: [{cores: 8, static_w: 143, dynamic_w: 5, idle_fraction: 0.5}]
      power_states:
        {sleep_w: 5, switch_on_s: 60, switch_on_w: 120, switch_off_s: 60, switch_off_w: 90}
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 8, run_s: 600}
"""  # 24 nodes: 1,716 W idle, 2,160 W switching off, 2,880 W booting, 120 W asleep
PRICE = {"changes": [[0, 3], [7200, 1]], "forecast_s": 86400}
TIMEOUT = {"name": "timeout", "timeout_s": 900}
KEEP = {"name": "keep-idle", "warm": 2}


def warnings_about(
    folder: Path, scheduler: str, signals: dict[str, Any], more: dict[str, Any] | None = None
) -> list[str]:
    """Return the warnings of `hpcosim validate` about the schedulers of a scenario."""
    path = folder / "told.yaml"
    path.write_text(f"{SCENARIO}signals: {json.dumps(signals)}\n")
    overrides = {"scheduler.name": scheduler, **(more or {})}
    return list(check(path, overrides).warnings)


@pytest.mark.parametrize(
    ("scheduler", "price", "more", "expected"),
    [
        ("carbon-aware:signal=price_per_kwh:slack_s=60", PRICE, {}, []),
        (
            "carbon-aware:signal=price_per_kwh:slack_s=60",
            {**PRICE, "forecast_s": 0},
            {},
            ["no forecast; set signals.price_per_kwh.forecast_s"],
        ),
        (
            "carbon-aware:signal=price_per_kwh",
            PRICE,
            {},
            ["slack_s is 0 and no job has a deadline_s"],
        ),
        (
            "carbon-aware:signal=price_per_kwh",
            PRICE,
            {"workload.inline.0.deadline_s": 9000},
            [],
        ),
        ("easy", {"value": 3}, {}, []),
    ],
)
def test_a_scheduler_that_delays_no_job_has_a_warning(
    tmp_path: Path, scheduler: str, price: dict[str, Any], more: dict[str, Any], expected: list[str]
) -> None:
    """The warning says which setting is missing."""
    found = warnings_about(tmp_path, scheduler, {"price_per_kwh": price}, more)
    assert len(found) == len(expected)
    assert all(part in warning for part, warning in zip(expected, found, strict=True))


@pytest.mark.parametrize(
    ("cap_w", "power", "expected"),
    [
        (1716, "always-on", ""),
        (1715, "always-on", "1,715 W, but all nodes without jobs draw at least 1,716 W"),
        (2.6, "always-on", "falls to 2.6 W, .* the unit is W; 2.6 kW are 2600"),
        (2160, TIMEOUT, ""),
        (2159, TIMEOUT, "2,159 W, .* draw up to 2,160 W if the power manager switches them"),
        (119, TIMEOUT, "119 W, but all nodes without jobs draw at least 120 W"),
        (2880, KEEP, ""),
        (2879, KEEP, "keeps only a cap of at least 2,880 W"),
    ],
)
def test_a_cap_below_the_power_of_nodes_without_jobs_has_a_warning(
    tmp_path: Path, cap_w: float, power: Any, expected: str
) -> None:
    """The lowest value counts, and whether and when the manager switches nodes."""
    cap = {"changes": [[0, 9000], [60, cap_w], [120, 9000]]}
    found = warnings_about(
        tmp_path, "power-capped", {"power_cap_w": cap}, {"scheduler.power": power}
    )
    assert len(found) == bool(expected)
    assert all(re.search(expected, warning) for warning in found)


def test_a_run_and_a_comparison_warn_once_before_they_start(tmp_path: Path) -> None:
    """On every way to run the scenario."""
    [expected] = warnings_about(tmp_path, "power-capped", {"power_cap_w": {"value": 2.6}})
    path, found = tmp_path / "told.yaml", list[str]()
    run_scenario(
        path, scheduler="power-capped", transport="inproc", out=tmp_path / "out", warn=found.append
    )
    assert found[0] == expected
    found.clear()
    compare_policies(path, ["power-capped"], warn=found.append)
    assert found[0] == expected
    assert expected not in found[1:]


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """It has the line and the field, as of `hpcosim validate`."""
    with pytest.raises(ScenarioError, match=r"told\.yaml:\d+: signals\.power_cap_w\.series: gone"):
        warnings_about(tmp_path, "power-capped", {"power_cap_w": {"series": "gone.csv"}})
    with pytest.raises(ScenarioError, match=r"told\.yaml:\d+: signals\.power_cap_w\.series: gone"):
        run_scenario(tmp_path / "told.yaml", scheduler="power-capped", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
