"""Cost and emissions of a run: its energy, weighted with a rate per kWh that changes over time."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hpcosim_sim.physics.power import NODE_STATES, NodeState
from hpcosim_sim.record.replay import Replay, changes_of
from hpcosim_workloads.series import Series

if TYPE_CHECKING:
    from hpcosim_sim.record.run_record import RunRecord

J_PER_KWH = 3.6e6


class SeriesFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with a time series.

    Attributes:
        sha256: SHA-256 of the file, 64 hexadecimal digits.
    """

    file: str
    sha256: str


class EconomicsSource(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of the price and of the carbon intensity of a run.

    Attributes:
        currency: the currency of `energy_cost` and `wasted_energy_cost`, three letters.
        tariff: the file with the price. Null: the price is constant or unknown.
        series: the file with the carbon intensity. Null: it is constant or unknown.
    """

    currency: str
    tariff: SeriesFile | None = None
    series: SeriesFile | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """What 1 kWh costs and emits over simulation time.

    Attributes:
        price_per_kwh: price in the currency of the scenario; None: unknown.
        co2_g_per_kwh: carbon intensity, g of CO2; None: unknown.
    """

    price_per_kwh: Series | None = None
    co2_g_per_kwh: Series | None = None


UNKNOWN = Rates()


def rated_by_state(record: RunRecord, per_kwh: Series | None) -> Mapping[NodeState, float]:
    """Return the integral of power x rate over the run, by node state, in the unit of the rate.

    The integral is exact, since power and rate are piecewise constant. A replay integrates the
    power over a clock that runs at the speed of the rate: a change at time t is replayed at the
    integral of the rate up to t.

    Args:
        per_kwh: the rate, per kWh; None: the result is empty.
    """
    if per_kwh is None:
        return {}
    energy_j = record.state_energy_j
    lowest = float(per_kwh.values.min())
    if len(per_kwh.values) == 1:
        return {state: lowest * j / J_PER_KWH for state, j in energy_j.items()}
    # A clock cannot run backwards: negative rates are raised to 0, and what that adds is removed.
    raised_by = max(0.0, -lowest)
    clock = replace(per_kwh, values=per_kwh.values + raised_by)
    return {
        state: (rated - raised_by * energy_j[state]) / J_PER_KWH
        for state, rated in _metered(record, clock).items()
    }


def rate_warnings(record: RunRecord) -> list[str]:
    """Return the warnings about series of rates that do not cover the run."""
    rates = record.rates
    return [
        *_gaps("tariff", rates.price_per_kwh, record),
        *_gaps("series of carbon intensity", rates.co2_g_per_kwh, record),
    ]


def _metered(record: RunRecord, clock: Series) -> dict[NodeState, float]:
    """Return the energy by node state that meters measure on a clock: power x clock speed x s."""
    warped = copy(record.recording)
    warped.periods = copy(warped.periods)
    periods = warped.periods
    times = ((periods, "start_s"), (periods, "end_s"), (warped, "power_s"), (warped, "kind_s"))
    for of, column in times:
        times_s = np.array(getattr(of, column), dtype=np.float64)
        setattr(of, column, array("d", clock.cumulative(times_s).tobytes()))
    start, end = clock.cumulative(np.array([record.start_s, record.end_s])).tolist()
    replay = Replay(record.platform, warped, start)
    for change in changes_of(warped):
        replay.apply(change)
    replay.cluster.settle(end)
    columns = zip(*(meter.state_energy_j for meter in replay.cluster.meters), strict=True)
    return dict(zip(NODE_STATES, map(sum, columns), strict=True))


def _gaps(name: str, series: Series | None, record: RunRecord) -> Iterator[str]:
    """Yield a warning if a series begins after the run or ends before it."""
    if series is None or series.repeat_s is not None or len(series.times_s) == 1:
        return
    first_s, before_s, last_s = (series.times_s[[0, -2, -1]] - series.origin_s).tolist()
    end_s = last_s + (last_s - before_s)
    if record.start_s < first_s:
        when = f"begins at {first_s:.15g} s, after the start of the run"
        yield f"the {name} {when}; its first value holds before"
    if end_s < record.end_s:
        when = f"ends at {end_s:.15g} s, before the end of the run"
        yield f"the {name} {when}; its last value holds afterwards"
