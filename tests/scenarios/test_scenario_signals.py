"""The signals section of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_client import PolicyError, View
from hpcosim_client.scheduler_state import Signal
from hpcosim_protocol import Hello
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import draws_numbers
from hpcosim_scenarios.running.library import Library, scenario_warnings
from hpcosim_scenarios.running.oracle import plan_scenario
from hpcosim_scenarios.running.run import run_scenario, simulate
from hpcosim_server.errors import SessionRefused
from support.paths import SCENARIOS

SCENARIO = """
name: told
platform: {nodes: [{count: 2, processors: [{cores: 1, static_w: 100, dynamic_w: 10}]}]}
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 1, run_s: 3600, deadline_s: 20000}
    - {job_id: 2, submit_s: 60, cores: 2, run_s: 1800}
"""


def written(folder: Path, signals: str, economics: str = "") -> Path:
    """Write a scenario with these sections and return its path."""
    (folder / "prices.csv").write_text("time_s,price\n0,3\n7200,1\n")
    path = folder / "told.yaml"
    more = f"economics: {economics}\n" if economics else ""
    path.write_text(f"{SCENARIO}signals: {signals}\n{more}")
    return path


def first_signals(path: Path) -> dict[str, Signal]:
    """Return the signals that a scheduler sees at the start of a scenario."""
    seen: list[dict[str, Signal]] = []

    def policy(view: View) -> None:
        seen.append(dict(view.signals))
        for job in view.queue.values():
            view.start(job)

    simulate(path, policy)
    return seen[0]


@pytest.mark.parametrize(
    ("source", "value", "forecast"),
    [
        ("{value: 7}", 7.0, []),
        ("{changes: [[0, 3], [7200, 1]], forecast_s: 10000}", 3.0, [(7200.0, 1.0)]),
        ("{series: prices.csv, forecast_s: 10000}", 3.0, [(7200.0, 1.0)]),
        ("{changes: [[50, 3], [90, 1]], repeat_s: 100, forecast_s: 60}", 1.0, [(50.0, 3.0)]),
    ],
)
def test_a_scheduler_sees_the_signals_of_the_scenario(
    tmp_path: Path, source: str, value: float, forecast: list[tuple[float, float]]
) -> None:
    """Constant, listed, from a file, and periodic."""
    signals = first_signals(written(tmp_path, f"{{power_cap_w: {source}}}"))
    assert signals == {"power_cap_w": Signal(0.0, value, forecast)}


def test_signals_are_those_of_economics_by_default(tmp_path: Path) -> None:
    """With the forecast that the signals section states."""
    signals = "{price_per_kwh: {forecast_s: 10000}, co2_g_per_kwh: {}}"
    path = written(tmp_path, signals, "{tariff: prices.csv, co2_g_per_kwh: 300}")
    assert first_signals(path) == {
        "co2_g_per_kwh": Signal(0.0, 300.0, []),
        "price_per_kwh": Signal(0.0, 3.0, [(7200.0, 1.0)]),
    }


DATED = "{power_cap_w: {series: caps.csv, forecast_s: 10000}}"


def dated(folder: Path, economics: str = "") -> Path:
    """Write a scenario with a power cap that changes at 03:00 of 1 March."""
    (folder / "caps.csv").write_text("time,w\n2024-03-01T00:00,3\n2024-03-01T03:00,1\n")
    (folder / "co2.csv").write_text("time,g\n2024-03-01T00:00,400\n2024-03-01T03:00,200\n")
    return written(folder, DATED, economics)


@pytest.mark.parametrize("others", ["", "series: co2.csv, "])
def test_dates_of_signals_count_from_the_start_of_the_simulation(
    tmp_path: Path, others: str
) -> None:
    """`economics.start` may be the only key of its section."""
    path = dated(tmp_path, f"{{{others}start: 2024-03-01T01:00}}")
    assert first_signals(path) == {"power_cap_w": Signal(0.0, 3.0, [(7200.0, 1.0)])}


@pytest.mark.parametrize(("economics", "warnings"), [("", 1), ("{start: 2024-03-01T00:01}", 0)])
def test_a_selection_that_moves_jobs_but_not_the_dates_of_signals_gives_a_warning(
    tmp_path: Path, economics: str, warnings: int
) -> None:
    """The second job is submitted at 60 s."""
    path = dated(tmp_path, economics)
    loaded = Library([path], {"workload.jobs": [1, 2]}).default
    found = scenario_warnings(loaded)
    assert [what for what in found if "but not the signal power_cap_w; set" in what] == found
    assert len(found) == warnings


def test_start_s_does_not_move_the_dates_of_signals(tmp_path: Path) -> None:
    """The files would be misaligned."""
    what = (
        r"signals\.power_cap_w\.series: start_s moves time 0 of co2.csv, but not that of caps.csv"
    )
    with pytest.raises(ScenarioError, match=what):
        Library([dated(tmp_path, "{series: co2.csv, start_s: 3600}")])


def test_the_error_of_a_forecast_is_drawn_from_the_seed(tmp_path: Path) -> None:
    """With the stated deviation, and without effect on the values."""
    changes = [[at_s, 100] for at_s in range(1000)]
    source = f"{{changes: {changes}, forecast_s: 10000, forecast_error: 0.05}}"
    path = written(tmp_path, f"{{price_per_kwh: {source}}}")
    one, same = first_signals(path)["price_per_kwh"], first_signals(path)["price_per_kwh"]
    errors = one.values[1:] - 100.0
    assert one == same
    assert one.value == 100.0
    assert abs(errors.mean()) < 1.0
    assert np.std(errors) == pytest.approx(5.0, rel=0.1)
    assert draws_numbers(Library([path]).first)


@pytest.mark.parametrize(
    ("signals", "error"),
    [
        (
            "{power_cap: {value: 3}}",
            r"signals: unknown key 'power_cap'; did you mean",
        ),
        (
            "{power_cap_w: {value: 3, changes: [[0, 1]]}}",
            "expected one of .*, got value and",
        ),
        ("{power_cap_w: {}}", r"signals\.power_cap_w: expected one of value, .*, got none"),
        ("{price_per_kwh: {}}", "or price_per_kwh or tariff in economics, got none"),
        ("{power_cap_w: {value: 3, repeat_s: 5}}", "repeat_s applies to series and changes"),
        ("{power_cap_w: {changes: [[5, 1], [5, 2]]}}", "ascending order, got 5 after 5"),
        ("{power_cap_w: {changes: [[0, 1], [9, 2]], repeat_s: 9}}", "from 0 to less than repeat_s"),
        ("{co2_g_per_kwh: {series: prices.csv}}", "expected a carbon intensity .*, got 'price'"),
        ("{power_cap_w: {series: gone.csv}}", r"power_cap_w\.series: gone\.csv: cannot be read"),
        (
            "{power_cap_w: {value: 3, forecast_s: -1}}",
            r"forecast_s: expected a number >= 0, got -1",
        ),
    ],
)
def test_sections_that_are_invalid(tmp_path: Path, signals: str, error: str) -> None:
    """The error has the line and the field."""
    with pytest.raises(ScenarioError, match=error) as caught:
        Library([written(tmp_path, signals)])
    assert str(caught.value).startswith(f"{tmp_path / 'told.yaml'}:8: ")


def test_a_client_cannot_name_a_file(tmp_path: Path) -> None:
    """It may change other values of a signal."""
    library = Library([written(tmp_path, "{price_per_kwh: {series: prices.csv}}")])
    hello = Hello(versions=[1], overrides={"signals.price_per_kwh.series": "/etc/passwd"})
    with pytest.raises(SessionRefused, match="only the server can set it"):
        library.open(hello)
    library.open(Hello(versions=[1], overrides={"signals.price_per_kwh.forecast_s": 60.0}))


@pytest.mark.parametrize(
    ("scheduler", "overrides", "error"),
    [
        (
            "carbon-aware:signal=price",
            {},
            "the signal price, but the scenario has only power_cap_w; "
            "did you mean price_per_kwh. expected one of co2_g_per_kwh, price_per_kwh, power_cap_w",
        ),
        (
            "carbon-aware",
            {},
            "co2_g_per_kwh, but .* only power_cap_w; add signals.co2_g_per_kwh to the scenario",
        ),
        ("power-capped", {"signals": None}, "has none; add signals.power_cap_w to the scenario"),
    ],
)
def test_a_signal_that_is_missing_stops_the_run_before_its_start(
    tmp_path: Path, scheduler: str, overrides: dict[str, Any], error: str
) -> None:
    """No results folder is made, and the error names the likely signal."""
    path, out = written(tmp_path, "{power_cap_w: {value: 9000}}"), tmp_path / "out"
    with pytest.raises(PolicyError, match=error):
        run_scenario(path, scheduler=scheduler, transport="inproc", out=out, overrides=overrides)
    assert not out.exists()


@pytest.mark.slow
def test_signals_are_the_same_on_every_transport(tmp_path: Path) -> None:
    """The files of a run under carbon-aware are equal."""
    signals = "{co2_g_per_kwh: {changes: [[0, 300], [7200, 100]], forecast_s: 86400}}"
    path = written(tmp_path, signals)
    for transport in ("inproc", "ipc"):
        out = tmp_path / transport
        run_scenario(path, scheduler="carbon-aware", transport=transport, out=out)
    for name in ("jobs.csv", "metrics.json", "run.json"):
        assert (tmp_path / "inproc" / name).read_bytes() == (tmp_path / "ipc" / name).read_bytes()
    assert (tmp_path / "ipc" / "jobs.csv").read_text().splitlines()[1].startswith("1,0.0,7200.0")


@pytest.mark.slow
def test_the_plan_of_an_oracle_knows_the_signals() -> None:
    """The schedule for which the oracle plans is that of the scheduler that follows a signal."""
    pytest.importorskip("scipy")
    plan = plan_scenario(
        SCENARIOS / "carbon.yaml",
        scheduler="carbon-aware:slack_s=86400",
        overrides={"workload.synthetic.jobs": 5},
    )
    assert plan.wasted_j > 0.0
