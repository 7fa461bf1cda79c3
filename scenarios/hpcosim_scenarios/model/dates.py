"""The date at which a simulation starts: time series with dates have one common time 0."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.record.economics import Rates
from hpcosim_workloads.series import Series

if TYPE_CHECKING:
    from hpcosim_scenarios.model.scenario import Scenario

START = "$.economics.start"
RATES = ("tariff", "series of carbon intensity")


class ScenarioSeries(NamedTuple):
    """A series of a scenario that comes from a file.

    Attributes:
        name: name in warnings: one of `RATES`, or that of the signal.
        field: path of the field that names the file.
        file: the file as the scenario writes it.
        series: its content.
    """

    name: str
    field: str
    file: str
    series: Series


def date_of(text: str) -> datetime:
    """Return the date and time in a text.

    Raises:
        ValueError: the text is no date.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        what = f"expected a date and time such as 2024-03-01T00:00, got {text!r}"
        raise ValueError(f"start: {what}") from None


def date_text(date: datetime) -> str:
    """Return a date in ISO 8601, without seconds that are 0."""
    whole = not date.second and not date.microsecond
    return date.isoformat(timespec="minutes" if whole else "auto")


def seconds_to(start: str, first_date: datetime, file: str) -> float:
    """Return the time from the first date of a file to the start of the simulation, s.

    Raises:
        ScenarioError: only one of the two has a UTC offset; has the field.
    """
    date = date_of(start)
    if (date.tzinfo is None) == (first_date.tzinfo is None):
        return (date - first_date).total_seconds()
    expected = "a date without" if date.tzinfo else "a date with"
    what = f"expected {expected} a UTC offset, as in {file}: {date_text(first_date)}, got {start}"
    raise ScenarioError(what, field=START)


def series_of(scenario: Scenario, rates: Rates, signals: Iterable[Signal]) -> list[ScenarioSeries]:
    """Return the series of a scenario that come from files, each once."""
    found = []
    economics = scenario.economics
    values = (rates.price_per_kwh, rates.co2_g_per_kwh)
    for name, key, series in zip(RATES, ("tariff", "series"), values, strict=True):
        file = getattr(economics, key, None)
        if file is not None and series is not None:
            found.append(ScenarioSeries(name, f"$.economics.{key}", file, series))
    for signal in signals:
        file = getattr(scenario.signals, signal.name).series
        if file is not None:
            field = f"$.signals.{signal.name}.series"
            name = f"signal {signal.name}"
            found.append(ScenarioSeries(name, field, file, signal.series))
    return found


def check_dates(scenario: Scenario, series: Iterable[ScenarioSeries]) -> None:
    """Check that time 0 of the simulation has the same date in all files with dates.

    Args:
        scenario: the scenario.
        series: its series, as of `series_of`.

    Raises:
        ScenarioError: two files disagree, or `start` or `start_s` of `economics` applies to no
            file; has the field.
    """
    series = list(series)
    dated = [each for each in series if each.series.first_date is not None]
    economics = scenario.economics
    if economics is not None and economics.start is not None:
        if not dated:
            what = "applies to files with dates; use start_s, the time in the files, s, instead"
            raise ScenarioError(what, field=START)
        without = [each for each in series if each.name in RATES and each.series.first_date is None]
        if economics.start_s is not None and not without:
            what = "applies to a tariff or series without dates when start is set; remove it"
            raise ScenarioError(what, field="$.economics.start_s")
        return
    for other in dated[1:]:
        _check_same_start(dated[0], other)


def _check_same_start(one: ScenarioSeries, other: ScenarioSeries) -> None:
    """Check that time 0 of the simulation has the same date in two files.

    Raises:
        ScenarioError: it has not; has the field.
    """
    first, second = one.series.first_date, other.series.first_date
    assert first is not None
    assert second is not None
    both = f"{other.file} begins at {date_text(second)}, {one.file} at {date_text(first)}"
    if (first.tzinfo is None) != (second.tzinfo is None):
        what = f"{both}; expected dates with a UTC offset in all files or in none"
        raise ScenarioError(what, field=other.field)
    apart_s = (second - first).total_seconds()
    if apart_s + other.series.origin_s == one.series.origin_s:
        return
    if apart_s:
        start = f"such as {date_text(max(first, second))}"
        what = f"{both}; set economics.start to the date at which the simulation starts, {start}"
    else:
        what = f"start_s moves time 0 of {one.file}, but not that of {other.file}"
        what += "; set economics.start, the date at which the simulation starts, instead"
    raise ScenarioError(what, field=other.field)


def moved_warnings(
    scenario: Scenario, series: Iterable[ScenarioSeries], moved_s: float
) -> list[str]:
    """Return warnings if a selection moves the jobs to time 0, but not the series of the scenario.

    Args:
        scenario: the scenario.
        series: its series, as of `series_of`.
        moved_s: time of the first selected job in the source, as of `jobs.moved_s`.
    """
    workload = scenario.workload
    selections = [name for name in ("window_s", "jobs") if getattr(workload, name) is not None]
    moved = f"workload.{' and '.join(selections)} moves the job of {moved_s:.15g} s to time 0"
    by_fix: dict[str, list[str]] = {}
    for each in series:
        if moved_s and (fix := _fix(scenario, each, moved_s)):
            by_fix.setdefault(fix, []).append(each.name)
    return [f"{moved}, but not the {' and the '.join(of)}; {fix}" for fix, of in by_fix.items()]


def _fix(scenario: Scenario, each: ScenarioSeries, moved_s: float) -> str:
    """Return how to move a series as far as the jobs; empty: it is not needed."""
    economics, repeat_s = scenario.economics, each.series.repeat_s
    if len(each.series.times_s) == 1 or (repeat_s is not None and moved_s % repeat_s == 0.0):
        return ""
    start = None if economics is None else economics.start
    start_s = None if economics is None or each.name not in RATES else economics.start_s
    if start_s is not None:
        return ""
    if each.series.first_date is not None:
        return "" if start else "set economics.start to the date at which that job was submitted"
    if each.name not in RATES:  # times of a signal in seconds are those of the simulation
        return ""
    return f"set economics.start_s to {moved_s:.15g} if their times have the same origin"
