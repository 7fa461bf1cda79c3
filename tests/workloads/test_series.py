"""Series of prices and carbon intensity: values over time, integrals, and their CSV files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.series import Quantity, Series, constant, read_series
from support.examples import examples

DAY_S = 86_400.0


@st.composite
def series(draw: st.DrawFn) -> Series:
    """Draw a series of whole seconds, so that a reference can add up unit steps."""
    times = sorted(draw(st.sets(st.integers(-30, 30), min_size=1, max_size=6)))
    count = len(times)
    values = draw(st.lists(st.integers(-9, 9), min_size=count, max_size=count))
    origin_s = draw(st.integers(-40, 40))
    repeat_s = None
    if draw(st.booleans()):
        times = [time - times[0] for time in times]
        repeat_s = times[-1] + draw(st.integers(1, 9))
    return Series(np.array(times, float), np.array(values, float), repeat_s, origin_s)


def value_at(series: Series, time_s: float) -> float:
    """Return the value at a time by a search from the last change back: the slow reference."""
    moment_s = time_s + series.origin_s
    while series.repeat_s is not None and not 0 <= moment_s < series.repeat_s:
        moment_s += series.repeat_s if moment_s < 0 else -series.repeat_s
    rows = list(zip(series.times_s.tolist(), series.values.tolist(), strict=True))
    past = [value for time, value in rows if time <= moment_s]
    return float(past[-1] if past else rows[0][1])


SPANS = st.tuples(st.integers(-60, 60), st.integers(0, 80))


@examples(300)
@given(series(), SPANS)
def test_an_integral_is_the_sum_over_unit_steps(series: Series, span: tuple[int, int]) -> None:
    """Between whole seconds no value changes."""
    start, length = span
    expected = sum(value_at(series, start + step) for step in range(length))
    assert series.integral(start, start + length) == pytest.approx(expected, abs=1e-9)


@examples(300)
@given(series(), st.lists(st.floats(-90, 90), min_size=2, max_size=8))
def test_differences_of_the_cumulative_integral_are_integrals(
    series: Series, times_s: list[float]
) -> None:
    """The times are in any order."""
    cumulative = series.cumulative(np.array(times_s))
    for (start_s, before), (end_s, after) in pairwise(
        sorted(zip(times_s, cumulative.tolist(), strict=True))
    ):
        assert after - before == pytest.approx(series.integral(start_s, end_s), abs=1e-6)


@examples(300)
@given(series(), SPANS)
def test_changes_and_values_agree(series: Series, span: tuple[int, int]) -> None:
    """The changes inside a span, each with the value from then on."""
    start, length = span
    changes = series.changes(start, start + length)
    assert all(start < time < start + length for time, _ in changes)
    current = series.at(start)
    values = dict(changes)
    for step in range(start, start + length):
        current = values.get(step, current)
        assert current == series.at(step) == value_at(series, step)


def write(folder: Path, text: str) -> Path:
    """Write a series' file."""
    path = folder / "series.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_first_and_the_last_value_hold_outside(tmp_path: Path) -> None:
    """A series that does not repeat is constant before its first and after its last time."""
    read = read_series(write(tmp_path, "time_s,price\n10,0.1\n20,0.2\n\n30,0.3\n"))
    assert [read.at(time_s) for time_s in (-1e9, 9, 10, 19.9, 20, 30, 1e9)] == [
        0.1,
        0.1,
        0.1,
        0.1,
        0.2,
        0.3,
        0.3,
    ]


def test_a_daily_tariff_repeats(tmp_path: Path) -> None:
    """Before the first time of a day, the last value of the day before holds."""
    path = write(tmp_path, "time_s,price\n21600,0.35\n79200,0.25\n")
    tariff = read_series(path, repeat_s=DAY_S)
    hours = (0, 5, 6, 21, 22, 24, 30, -1)
    values = [tariff.at(hour * 3600.0) for hour in hours]
    assert values == [0.25, 0.25, 0.35, 0.35, 0.25, 0.25, 0.35, 0.25]


def test_a_simulation_starts_at_the_origin(tmp_path: Path) -> None:
    """At simulation time 0 the value is that of the series at its origin."""
    path = write(tmp_path, "time_s,price\n0,0.25\n21600,0.35\n79200,0.25\n")
    tariff = read_series(path, repeat_s=DAY_S, origin_s=21600.0)
    assert (tariff.at(0.0), tariff.at(16 * 3600.0)) == (0.35, 0.25)


def test_dates_count_from_the_first_row(tmp_path: Path) -> None:
    """The first date is time 0."""
    path = write(tmp_path, "\ufefftime,g\n2020-02-28T23:30,1\n2020-02-29T00:30,2\n")
    read = read_series(path)
    assert read.times_s.tolist() == [0.0, 3600.0]


@pytest.mark.parametrize(
    "rows",
    [
        ("2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00", "2024-03-31T04:00+02:00"),
        ("2024-10-27T02:00+02:00", "2024-10-27T02:00+01:00", "2024-10-27T03:00+01:00"),
        ("2024-03-31T00:00Z", "2024-03-31T01:00Z", "2024-03-31T02:00Z"),
    ],
)
def test_times_with_utc_offsets_are_exact_over_a_change_to_summer_time(
    tmp_path: Path, rows: tuple[str, str, str]
) -> None:
    """Hourly rows are an hour apart, also where the local time skips or repeats an hour."""
    text = "".join(f"{time},{value}\n" for value, time in enumerate(rows))
    read = read_series(write(tmp_path, f"time,g\n{text}"))
    assert read.times_s.tolist() == [0.0, 3600.0, 7200.0]


def test_a_constant_has_one_value() -> None:
    """It holds at all times."""
    assert constant(0.3).integral(-5.0, 5.0) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, ":1: expected a header with two columns, such as `time_s,value`, got nothing"),
        ("hour,price\n0,1\n", {}, ":1: expected a header"),
        ("time_s,a,b\n0,1,2\n", {}, ":1: expected a header"),
        ("time_s,price\n", {}, ": expected at least one row below the header"),
        ("time_s,price\n0,1\n5,x\n", {}, ":3: expected a finite number, got 'x'"),
        ("time_s,price\n0,1\n5,nan\n", {}, ":3: expected a finite number, got 'nan'"),
        ("time_s,price\n0,1\n5\n", {}, ":3: expected 2 columns, got 1"),
        ("time_s,price\n5,1\n5,2\n", {}, ":3: expected times in ascending order, got 5 s after 5"),
        ("time_s,price\n0,1\n1e13,2\n", {}, ":3: expected times from -1e+12 to 1e+12 s"),
        ("time_s,g\n0,1\n5,-3\n", {"least": 0.0}, ":3: expected a value from 0 to 1e+12, got -3"),
        (
            "time_s,price\n0,1\n86400,2\n",
            {"repeat_s": DAY_S},
            ":3: expected times from 0 to before 86400 s, when the series repeats, got 86400 s",
        ),
        ("time,g\n2020-13-01T00:00,1\n", {}, ":2: expected a date and time such as"),
        (
            "time,g\n2020-01-01T00:00+01:00,1\n2020-01-01T01:00,2\n",
            {},
            ":3: expected a UTC offset, such as Z or +01:00, in all rows or in none, "
            "got '2020-01-01T01:00' after 2020-01-01T00:00:00+01:00",
        ),
        ("time,g\n2020-01-01T00:00,1\n2020-01-01T01:00Z,2\n", {}, ":3: expected a UTC offset"),
    ],
)
def test_a_bad_file_is_an_error_with_its_line(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    """The message says where and what was expected."""
    path = write(tmp_path, text)
    with pytest.raises(WorkloadError) as caught:
        read_series(path, **options)
    assert str(caught.value).startswith(f"{path}{message}")


@pytest.mark.parametrize("name", ["missing.csv", ".", "a\0b.csv"])
def test_an_unreadable_file_is_an_error(tmp_path: Path, name: str) -> None:
    """A missing file, a folder, and a name that no file can have."""
    with pytest.raises(WorkloadError, match="cannot be read"):
        read_series(tmp_path / name)


def test_a_binary_file_is_an_error(tmp_path: Path) -> None:
    """A file that is not UTF-8 is no table."""
    path = tmp_path / "series.csv"
    path.write_bytes(b"time_s,price\n0,\xff\xfe\n")
    with pytest.raises(WorkloadError, match="expected a CSV table in UTF-8"):
        read_series(path)


@pytest.mark.parametrize("options", [{"repeat_s": 0.0}, {"repeat_s": 1e13}, {"origin_s": 1e13}])
def test_settings_out_of_range_are_errors(tmp_path: Path, options: dict[str, Any]) -> None:
    """The period and the origin have bounds."""
    with pytest.raises(WorkloadError, match="must be from"):
        read_series(write(tmp_path, "time_s,price\n0,1\n"), **options)


@pytest.mark.parametrize(
    ("quantity", "column", "advice"),
    [
        ("price", "eur_per_mwh", "divide them by 1000 and rename the column"),
        ("price", "Price [EUR/MWh]", "divide them by 1000 and rename the column"),
        ("price", "ct_per_kwh", "divide them by 100 and rename the column"),
        ("price", "g_per_kwh", "use a file with prices"),
        ("price", "co2_g_per_kwh", "use a file with prices"),
        ("price", "gCO2eq/kWh", "use a file with prices"),
        ("co2", "eur_per_kwh", "use a file with carbon intensities"),
        ("co2", "zar_per_kwh", "use a file with carbon intensities"),
        ("co2", "EUR", "use a file with carbon intensities"),
        ("co2", "g_per_mwh", "divide them by 1000 and rename the column"),
        ("co2", "kg_per_mwh", "the values are the same: rename the column to g_per_kwh"),
        ("co2", "t_per_mwh", "multiply them by 1000 and rename the column"),
        ("co2", "kg_per_kwh", "multiply them by 1000 and rename the column"),
    ],
)
def test_a_column_in_another_unit_is_an_error_with_the_conversion(
    tmp_path: Path, quantity: Quantity, column: str, advice: str
) -> None:
    """The message has the line of the header and the name of the column."""
    path = write(tmp_path, f"time_s,{column}\n0,1\n")
    with pytest.raises(WorkloadError) as caught:
        read_series(path, quantity=quantity)
    assert str(caught.value).startswith(f"{path}:1: expected a ")
    assert f"got {column!r}; {advice}" in str(caught.value)


@pytest.mark.parametrize(
    ("quantity", "column"),
    [
        ("price", "eur_per_kwh"),
        ("price", "EUR"),
        ("price", "value"),
        ("price", "zar/kWh"),
        ("co2", "g_per_kwh"),
        ("co2", "co2_g_per_kwh"),
        ("co2", "Carbon intensity gCO2eq/kWh"),
        ("co2", "ghg_per_kwh"),
        ("co2", "value"),
    ],
)
def test_a_column_in_the_unit_of_the_series_is_accepted(
    tmp_path: Path, quantity: Quantity, column: str
) -> None:
    """A name without a unit is accepted, too."""
    path = write(tmp_path, f"time_s,{column}\n0,1\n")
    assert read_series(path, quantity=quantity).at(0.0) == 1.0
