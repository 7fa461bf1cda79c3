"""The economics section of a scenario: price and carbon intensity of electricity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.bounds import Currency
from hpcosim_scenarios.model.dates import date_of, seconds_to
from hpcosim_scenarios.model.source import sha256_of
from hpcosim_sim.record.economics import EconomicsSource, Rates, SeriesFile
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.series import MOST_VALUE, Series, constant, read_series

Rate = Annotated[float, Meta(ge=0, le=MOST_VALUE)]
Period = Annotated[float, Meta(ge=1, le=1e12)]
Moment = Annotated[float, Meta(ge=-1e12, le=1e12)]
Date = Annotated[str, Meta(min_length=1, max_length=100)]
File = Annotated[str, Meta(min_length=1, max_length=1000)]

FIELD = "$.economics"


class Economics(Struct, frozen=True, forbid_unknown_fields=True):
    """The price and the carbon intensity of electricity, for the metrics of cost and emissions.

    Each is constant or comes from a CSV file with a header and two columns: `time_s`, or `time` as
    a date and time such as `2020-01-01T00:30`, and the value from then on. Either all dates have a
    UTC offset (`Z`, `+01:00`) or none has. The last value holds for ever, and the first one also
    before its time. A header that states another unit, such as `eur_per_mwh`, is an error.

    Attributes:
        currency: the currency of the price, a code of ISO 4217 such as `EUR`.
        price_per_kwh: price of 1 kWh, in the currency.
        tariff: path of a file with the price of 1 kWh over time, relative to the scenario's folder.
            A price may be negative.
        tariff_repeat_s: period of a tariff that repeats, such as 86400 for every day. Null: the
            tariff does not repeat.
        co2_g_per_kwh: carbon intensity, g of CO2 per kWh.
        series: path of a file with the carbon intensity over time, g of CO2 per kWh, relative to
            the scenario's folder.
        series_repeat_s: period of a series that repeats. Null: the series does not repeat.
        start: date of simulation time 0, such as `2024-03-01T08:00`. It applies to all files with
            dates, also those of `signals`. Null: time 0 of a file is its first date, and all files
            with dates must begin at the same one.
        start_s: time of the tariff and of the series at simulation time 0, s: 28800 if the
            simulation starts at 8:00 and the files at 0:00. With `start` it applies to files
            without dates. Null: 0.
    """

    currency: Currency = "EUR"
    price_per_kwh: Rate | None = None
    tariff: File | None = None
    tariff_repeat_s: Period | None = None
    co2_g_per_kwh: Rate | None = None
    series: File | None = None
    series_repeat_s: Period | None = None
    start: Date | None = None
    start_s: Moment | None = None

    def __post_init__(self) -> None:
        for rate, file in (("price_per_kwh", "tariff"), ("co2_g_per_kwh", "series")):
            given = [name for name in (rate, file) if getattr(self, name) is not None]
            if len(given) == 2:
                raise ValueError(f"expected {rate} or {file}, got both; remove one of them")
            repeat = f"{file}_repeat_s"
            if file not in given and getattr(self, repeat) is not None:
                raise ValueError(f"{repeat} applies to {file}; add {file} or remove {repeat}")
        rates = (self.price_per_kwh, self.tariff, self.co2_g_per_kwh, self.series)
        if self.start is not None:
            date_of(self.start)
        elif all(each is None for each in rates):
            raise ValueError("expected price_per_kwh, tariff, co2_g_per_kwh or series, got none")


class LoadedEconomics(NamedTuple):
    """The economics of a scenario with the content of its files.

    Attributes:
        rates: price and carbon intensity.
        source: their origin, for `run.json`.
    """

    rates: Rates
    source: EconomicsSource


def load_economics(economics: Economics, folder: Path) -> LoadedEconomics:
    """Read the files of an economics section.

    Args:
        economics: the section.
        folder: the folder of the scenario's file.

    Raises:
        ScenarioError: a file cannot be read or is invalid. It has the field, and the file and line
            of the table, not those of the scenario.
    """
    tariff, series = economics.tariff, economics.series
    price = economics.price_per_kwh
    co2 = economics.co2_g_per_kwh
    return LoadedEconomics(
        Rates(
            _read(economics, "tariff", folder) if price is None else constant(price),
            _read(economics, "series", folder) if co2 is None else constant(co2),
        ),
        EconomicsSource(
            currency=economics.currency,
            tariff=None if tariff is None else _file(tariff, folder),
            series=None if series is None else _file(series, folder),
        ),
    )


def _read(economics: Economics, key: Literal["tariff", "series"], folder: Path) -> Series | None:
    """Return the series in the file that a key names; None: the key has no value."""
    name = getattr(economics, key)
    if name is None:
        return None
    try:
        series = read_series(
            folder / name,
            least=0.0 if key == "series" else -MOST_VALUE,
            repeat_s=getattr(economics, f"{key}_repeat_s"),
            origin_s=economics.start_s or 0.0,
            quantity="co2" if key == "series" else "price",
        )
    except WorkloadError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise ScenarioError(f"{where}: {error.what}", field=f"{FIELD}.{key}") from None
    if economics.start is None:
        return series
    if series.first_date is not None:
        return replace(series, origin_s=seconds_to(economics.start, series.first_date, name))
    if economics.start_s is None:
        what = f"{name} has no dates; also set start_s, its time at which the simulation starts, s"
        raise ScenarioError(what, field=f"{FIELD}.start")
    return series


def _file(name: str, folder: Path) -> SeriesFile:
    return SeriesFile(file=name, sha256=sha256_of(folder / name))
