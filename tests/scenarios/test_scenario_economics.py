"""The economics section of a scenario: its files, its errors and its traces in the results."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol import Hello
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.running import Transport
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.run import run_scenario
from hpcosim_server.errors import SessionRefused

TEXT = """name: small
platform:
  nodes:
    - count: 1
      processors: [{cores: 1, static_w: 2000, dynamic_w: 0, idle_fraction: 0.5}]
workload:
  inline:
    - {job_id: 1, submit_s: 0, run_s: 3600, requested_s: 3600, cores: 1}
    - {job_id: 2, submit_s: 10800, run_s: 3600, requested_s: 3600, cores: 1}
economics:
"""
TARIFF = "time_s,EUR\n0,0.2\n7200,0.4\n"
BOTH = "  {tariff: prices.csv, tariff_repeat_s: 86400, co2_g_per_kwh: 400, currency: CHF}\n"


def scenario(folder: Path, economics: str, tariff: str = TARIFF) -> Path:
    """Write a scenario of two jobs, and its tariff."""
    (folder / "prices.csv").write_text(tariff)
    file = folder / "small.yaml"
    file.write_text(TEXT + economics)
    return file


def run(file: Path, transport: Transport = "inproc", **options: Any) -> tuple[Any, Path]:
    """Run a scenario and return its metrics and its results folder."""
    out = file.parent / transport
    metrics, _ = run_scenario(file, transport=transport, out=out, force=True, **options)
    return metrics, out


def test_a_run_has_its_cost_and_its_emissions(tmp_path: Path) -> None:
    """2 kW for an hour at each end, 1 kW between; the price doubles after two hours."""
    metrics, _ = run(scenario(tmp_path, BOTH))
    assert metrics["energy_cost"] == pytest.approx(0.2 * (2 + 1) + 0.4 * (1 + 2))
    assert metrics["wasted_co2_kg"] == pytest.approx(0.4 * 2)


def dated(folder: Path, begin: str, more: str = "") -> Path:
    """Write a scenario with a tariff that doubles at 02:00 of 1 March, and a series of CO2.

    Args:
        folder: the folder of the files.
        begin: first date of the tariff.
        more: further keys of `economics`.
    """
    text = f"time,eur_per_kwh\n{begin},0.2\n2024-03-01T02:00,0.4\n2024-03-02T00:00,0.4\n"
    (folder / "co2.csv").write_text("time,g\n2024-03-01T00:00,400\n2024-03-01T02:00,200\n")
    return scenario(folder, f"  {{tariff: prices.csv, series: co2.csv{more}}}\n", text)


@pytest.mark.parametrize(
    ("begin", "start"),
    [
        ("2024-02-20T00:00", ", start: 2024-03-01"),
        ("2024-02-20T00:00", ", start: 2024-03-01T00:00"),
        ("2024-02-20T00:00", ", start: 2024-03-01T00:00:00"),
        ("2024-03-01T00:00", ""),
    ],
)
def test_files_with_dates_have_one_time_0(tmp_path: Path, begin: str, start: str) -> None:
    """It is the start that the scenario states, or the first date of all files."""
    metrics, _ = run(dated(tmp_path, begin, start))
    assert metrics["energy_cost"] == pytest.approx(0.2 * 3 + 0.4 * 3)
    assert metrics["co2_kg"] == pytest.approx(0.4 * 3 + 0.2 * 3)


def test_start_and_start_s_are_for_files_with_and_without_dates(tmp_path: Path) -> None:
    """A tariff in seconds, and a series with dates."""
    dated(tmp_path, "2024-03-01T00:00")
    more = "series: co2.csv, start: 2024-03-01T02:00, start_s: 7200"
    metrics, _ = run(scenario(tmp_path, f"  {{tariff: prices.csv, {more}}}\n"))
    assert metrics["energy_cost"] == pytest.approx(0.4 * 6)
    assert metrics["co2_kg"] == pytest.approx(0.2 * 6)


def test_files_that_begin_at_different_dates_need_a_start(tmp_path: Path) -> None:
    """The message names both dates and the fix."""
    with pytest.raises(ScenarioError) as caught:
        Library([dated(tmp_path, "2024-02-20T00:00")])
    both = "economics.series: co2.csv begins at 2024-03-01T00:00, prices.csv at 2024-02-20T00:00; "
    fix = "set economics.start to the date at which the simulation starts, such as 2024-03-01T00:00"
    assert str(caught.value).endswith(both + fix)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("start: soon", "start: expected a date and time such as 2024-03-01T00:00, got 'soon'"),
        (
            "start: 2024-03-01T00:00Z",
            r"economics\.start: expected a date without a UTC offset, as in prices\.csv: 2024-03-0",
        ),
        ("start: 2024-03-01, start_s: 60", r"economics\.start_s: applies to a tariff or series"),
    ],
)
def test_a_bad_start_is_an_error(tmp_path: Path, more: str, message: str) -> None:
    """Text that is no date, another kind of time, and a setting without effect."""
    with pytest.raises(ScenarioError, match=message):
        Library([dated(tmp_path, "2024-03-01T00:00", f", {more}")])


def test_a_start_without_dates_in_the_files_is_an_error(tmp_path: Path) -> None:
    """A file in seconds needs `start_s`."""
    more = "tariff: prices.csv, start: 2024-03-01"
    with pytest.raises(ScenarioError, match=r"prices\.csv has no dates; also set start_s"):
        Library([scenario(tmp_path, f"  {{{more}}}\n")])
    with pytest.raises(ScenarioError, match="applies to files with dates; use start_s"):
        Library([scenario(tmp_path, f"  {{{more}, start_s: 0}}\n")])


def test_dates_with_and_without_utc_offset_do_not_mix(tmp_path: Path) -> None:
    """Two files of a scenario have the same kind of date."""
    file = dated(tmp_path, "2024-03-01T00:00")
    (tmp_path / "co2.csv").write_text("time,g\n2024-03-01T00:00Z,400\n")
    with pytest.raises(ScenarioError, match="with a UTC offset in all files or in none"):
        Library([file])


def test_a_run_may_start_within_the_tariff(tmp_path: Path) -> None:
    """`start_s` is the time of the tariff at which the simulation starts."""
    file = scenario(tmp_path, BOTH)
    metrics, _ = run(file, overrides={"economics.start_s": 7200.0})
    assert metrics["energy_cost"] == pytest.approx(0.4 * 6)


@pytest.mark.slow
def test_every_transport_gives_the_same_cost(tmp_path: Path) -> None:
    """All files have the same bytes in one process and in two."""
    file = scenario(tmp_path, BOTH)
    (_, one), (_, two) = run(file), run(file, "ipc")
    for name in ("metrics.json", "run.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_results_record_the_currency_and_the_checksum(tmp_path: Path) -> None:
    """`run.json` has what the cost depends on."""
    _, out = run(scenario(tmp_path, BOTH))
    sha256 = hashlib.sha256(TARIFF.encode()).hexdigest()
    assert json.loads((out / "run.json").read_text())["economics"] == {
        "currency": "CHF",
        "tariff": {"file": "prices.csv", "sha256": sha256},
        "series": None,
    }


def test_a_tariff_that_ends_before_the_run_gives_a_warning(tmp_path: Path) -> None:
    """The warning is in `run.json`, too."""
    found: list[str] = []
    file = scenario(tmp_path, "  {tariff: prices.csv}\n", "time_s,EUR\n0,0.2\n3600,0.4\n")
    _, out = run(file, warn=found.append)
    assert found == json.loads((out / "run.json").read_text())["warnings"]
    what = "the tariff ends at 7200 s, before the end of the run; its last value holds afterwards"
    assert found == [what]


def warnings_of(file: Path, **selection: list[int]) -> list[str]:
    """Return the warnings of a run of selected jobs; the second one is submitted at 10800 s."""
    found: list[str] = []
    overrides = {f"workload.{name}": value for name, value in selection.items()}
    run(file, overrides=overrides, warn=found.append)
    return found


@pytest.mark.parametrize("selection", [{"jobs": [1, 2]}, {"window_s": [1, 20000]}])
def test_a_selection_that_moves_jobs_but_not_the_tariff_gives_a_warning(
    tmp_path: Path, selection: dict[str, list[int]]
) -> None:
    """The warning has the setting that moves the tariff as far."""
    file = scenario(tmp_path, "  {tariff: prices.csv}\n")
    assert warnings_of(file, **selection) == [
        f"workload.{next(iter(selection))} moves the job of 10800 s to time 0, but not the tariff; "
        "set economics.start_s to 10800 if their times have the same origin"
    ]


def test_a_selection_under_files_with_dates_gives_one_warning(tmp_path: Path) -> None:
    """It recommends a date."""
    assert warnings_of(dated(tmp_path, "2024-03-01T00:00"), jobs=[1, 2]) == [
        "workload.jobs moves the job of 10800 s to time 0, but not the tariff and the series of "
        "carbon intensity; set economics.start to the date at which that job was submitted"
    ]


@pytest.mark.parametrize(
    ("economics", "jobs"),
    [
        ("{tariff: prices.csv}", [0, 1]),
        ("{tariff: prices.csv, start_s: 0}", [1, 2]),
        ("{tariff: prices.csv, tariff_repeat_s: 10800}", [1, 2]),
        ("{price_per_kwh: 0.2}", [1, 2]),
    ],
)
def test_a_selection_without_effect_on_the_cost_gives_no_warning(
    tmp_path: Path, economics: str, jobs: list[int]
) -> None:
    """The first job, a stated start, a whole period, and a constant price."""
    assert warnings_of(scenario(tmp_path, f"  {economics}\n"), jobs=jobs) == []


@pytest.mark.parametrize(
    ("economics", "tariff", "message"),
    [
        ("  {}", TARIFF, "11: economics: expected price_per_kwh, tariff, co2_g_per_kwh or series"),
        (
            "  price_per_kwh: 0.3\n  tariff: prices.csv\n",
            TARIFF,
            "11: economics: expected price_per_kwh or tariff, got both; remove one of them",
        ),
        (
            "  co2_g_per_kwh: 300\n  series: prices.csv\n",
            TARIFF,
            "11: economics: expected co2_g_per_kwh or series, got both; remove one of them",
        ),
        (
            "  price_per_kwh: 0.3\n  tariff_repeat_s: 86400\n",
            TARIFF,
            "11: economics: tariff_repeat_s applies to tariff; add tariff or remove tariff_r",
        ),
        ("  price_per_kwh: -1\n", TARIFF, "11: economics.price_per_kwh: expected a number >= 0"),
        ("  price_per_kwh: .nan\n", TARIFF, "11: economics.price_per_kwh: expected a number >= 0"),
        (
            "  price_per_kwh: 0.3\n  currency: euro\n",
            TARIFF,
            "12: economics.currency: expected a currency of three capital letters, such as EUR, "
            "got 'euro'",
        ),
        ("  tarif: prices.csv\n", TARIFF, "11: economics: unknown key 'tarif'; did you mean 'tari"),
        (
            "  tariff: absent.csv\n",
            TARIFF,
            "11: economics.tariff: absent.csv: cannot be read: No such file or directory",
        ),
        (
            "  tariff: prices.csv\n",
            "time_s,EUR\n60,0.2\n0,0.4\n",
            "11: economics.tariff: prices.csv:3: expected times in ascending order, got 0 s after",
        ),
        (
            "  series: prices.csv\n",
            "time_s,g\n0,-5\n",
            "11: economics.series: prices.csv:2: expected a value from 0 to 1e+12, got -5",
        ),
        (
            "  tariff: prices.csv\n",
            "time_s,eur_per_mwh\n0,89.3\n",
            "11: economics.tariff: prices.csv:1: expected a price per kWh (a column such as",
        ),
        (
            "  series: prices.csv\n",
            TARIFF,
            "11: economics.series: prices.csv:1: expected a carbon intensity in g/kWh (a column",
        ),
    ],
)
def test_a_bad_section_is_an_error_with_its_line(
    tmp_path: Path, economics: str, tariff: str, message: str
) -> None:
    """The message has the file, the line and the field."""
    file = scenario(tmp_path, economics, tariff)
    with pytest.raises(ScenarioError) as caught:
        Library([file])
    assert str(caught.value).startswith(f"{file}:{message}")


@pytest.mark.parametrize("key", ["tariff", "series"])
def test_a_client_cannot_name_a_file(tmp_path: Path, key: str) -> None:
    """Files are those of the server's machine."""
    library = Library([scenario(tmp_path, BOTH)])
    hello = Hello(client="c", versions=[1], overrides={f"economics.{key}": "/etc/passwd"})
    with pytest.raises(SessionRefused, match="only the server can set it"):
        library.open(hello)


def test_a_client_can_set_a_price(tmp_path: Path) -> None:
    """A price is a number."""
    library = Library([scenario(tmp_path, "  {price_per_kwh: 0.3}\n")])
    hello = Hello(client="c", versions=[1], overrides={"economics.price_per_kwh": 0.5})
    price = library.open(hello).simulation.rates.price_per_kwh
    assert price is not None
    assert price.at(0.0) == 0.5
