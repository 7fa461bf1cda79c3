"""Signals as the scheduler knows them: value and forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats


@dataclass(frozen=True)
class Signal:
    """Value and forecast of a signal.

    A forecast value holds until the next forecast change, and the last one for ever.

    Attributes:
        since_s: time of the last event of the signal, simulated seconds.
        value: value since then, in the unit of the signal.
        forecast: the next changes: simulated second and value from then on, ascending by time.
    """

    since_s: float
    value: float
    forecast: Sequence[tuple[float, float]] = ()

    @property
    def known_until_s(self) -> float:
        """Time of the last change in the forecast, simulated seconds."""
        return self.forecast[-1][0] if self.forecast else self.since_s

    @cached_property
    def times_s(self) -> Floats:
        """float64[steps], begin of each step of value and forecast, simulated seconds."""
        return np.array([self.since_s, *(at_s for at_s, _ in self.forecast)])

    @cached_property
    def values(self) -> Floats:
        """float64[steps], value of each step."""
        return np.array([self.value, *(value for _, value in self.forecast)])

    def integrals(self, until_s: Floats) -> Floats:
        """Return the integral from `since_s` to each of these times, in the unit times seconds.

        Args:
            until_s: float64[n], simulated seconds, not before `since_s`.
        """
        step = np.searchsorted(self.times_s, until_s, side="right") - 1
        integrals: Floats = self._before[step] + self.values[step] * (until_s - self.times_s[step])
        return integrals

    @cached_property
    def _before(self) -> Floats:
        """float64[steps], integral up to the begin of each step."""
        return np.append(0.0, np.cumsum(self.values[:-1] * np.diff(self.times_s)))


def signal_of(signals: Mapping[str, Signal], name: str, scheduler: str) -> Signal:
    """Return a signal that a scheduler needs.

    Args:
        signals: the signals of the view.
        name: name of the signal.
        scheduler: name of the scheduler, for the message.

    Raises:
        PolicyError: the simulation has no such signal.
    """
    if name in signals:
        return signals[name]
    known = f"has only the signals {', '.join(signals)}" if signals else "has no signals"
    raise PolicyError(
        f"{scheduler} needs the signal {name}, but the simulation {known}; add signals.{name} to "
        "the scenario"
    )
