"""Units in the header of a time series: a column in another unit is an error."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from hpcosim_workloads.errors import WorkloadError

Quantity = Literal["price", "co2"]
"""Quantity of a series: price of 1 kWh, or carbon intensity in g of CO2 per kWh."""

EXPECTED: Mapping[Quantity, str] = {
    "price": "a price per kWh (a column such as eur_per_kwh)",
    "co2": "a carbon intensity in g/kWh (a column such as g_per_kwh)",
}
PER_MWH = {"mwh", "mwhe", "mwhel"}
CENTS = {"ct", "cts", "cent", "cents"}
KILOGRAMS = {"kg", "kgco2", "kgco2e", "kgco2eq"}
TONNES = {"t", "tco2", "tco2e", "tco2eq", "ton", "tons", "tonne", "tonnes"}
MONEY = {"price", "tariff", "cost", "eur", "usd", "gbp", "chf", "jpy", "cny", "sek", "nok", "dkk"}
MONEY |= {"pln", "czk", "huf", "cad", "aud", "inr", "brl", "krw", *CENTS}
SYMBOLS = str.maketrans({"€": "eur", "£": "gbp", "$": "usd"})
PER_KWH = re.compile("([a-z]{3})_(per_)?[km]wh")
CARBON = re.compile("k?g|k?gco2.*|co2.*|carbon.*|emissions?")


def check_unit(column: str, quantity: Quantity, path: Path) -> None:
    """Check that the name of a column does not state another quantity or unit.

    Names without a unit, such as `value`, are accepted.

    Args:
        column: the name in the header.
        quantity: the quantity that the values must have.
        path: the file, for errors.

    Raises:
        WorkloadError: the name states another unit; with the line and the conversion.
    """
    words = re.findall("[a-z0-9]+", column.lower().translate(SYMBOLS))
    wrong = _other_quantity(words, quantity) or _conversion(words, quantity)
    if wrong:
        raise WorkloadError(f"expected {EXPECTED[quantity]}, got {column[:80]!r}; {wrong}", path, 1)


def _other_quantity(words: list[str], quantity: Quantity) -> str:
    """Return the advice for a column of the other quantity; empty: it is not one."""
    carbon = any(CARBON.fullmatch(word) for word in words) or bool(TONNES & set(words))
    if quantity == "price":
        return "use a file with prices, or rename the column if it has prices" if carbon else ""
    currency = PER_KWH.fullmatch("_".join(words))
    money = bool(MONEY & set(words)) or (currency is not None and currency[1] != "ghg")
    what = "use a file with carbon intensities, or rename the column if it has them"
    return what if money and not carbon else ""


def _conversion(words: list[str], quantity: Quantity) -> str:
    """Return the advice for a column in another unit; empty: its unit is not known to be wrong."""
    factors = dict.fromkeys(PER_MWH, 1 / 1000)
    factors |= dict.fromkeys(CENTS, 1 / 100) if quantity == "price" else {}
    factors |= dict.fromkeys(KILOGRAMS, 1e3) | dict.fromkeys(TONNES, 1e6)
    found = [factors[word] for word in words if word in factors]
    if not found:
        return ""
    factor, column = math.prod(found), "g_per_kwh" if quantity == "co2" else "eur_per_kwh"
    if math.isclose(factor, 1.0):
        return f"the values are the same: rename the column to {column}"
    change = f"divide them by {1 / factor:g}" if factor < 1 else f"multiply them by {factor:g}"
    return f"{change} and rename the column, for example to {column}"
