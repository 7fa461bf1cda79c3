"""Checks of a server: signals and their forecasts."""

from __future__ import annotations

from itertools import pairwise

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import ServerUnderTest
from hpcosim_conformance.servers.session import Map, OpenSession, of_kind
from hpcosim_protocol import MAX_FORECAST

SOME_EVENTS = 5  # of one signal


def signals(server: ServerUnderTest) -> None:
    """Signals are reported at the start and at each change, with forecasts of later changes."""
    session = server.open()
    if not session.options.get("signals"):
        raise NotTriedError("the scenario has no signals")
    kinds = [event["type"] for event in session.decide()]
    what = f"the first events are {kinds[:3]}; expected signal_changed after simulation_began"
    expect(kinds[1:2] == ["signal_changed"], "R-signals", what)
    announced = [event for event in of_kind(session.log, "signal_changed") if event["forecast"]]
    for _ in range(SOME_EVENTS):
        for event in of_kind(session.log, "signal_changed"):
            _check_forecast(event)
        if session.metrics is None:
            session.step()
    for event in announced:
        _check_change(session, event)


def _check_forecast(event: Map) -> None:
    times_s = [event["time_s"], *(at_s for at_s, _ in event["forecast"])]
    ascending = all(before < after for before, after in pairwise(times_s))
    what = f"the forecast of {event['name']} at {times_s[0]} s has the times {times_s[1:4]}"
    expect(ascending, "R-forecast", what)
    what = f"the forecast of {event['name']} has {len(times_s) - 1} changes"
    expect(len(times_s) <= MAX_FORECAST + 1, "R-forecast", what)


def _check_change(session: OpenSession, event: Map) -> None:
    """Check that the server reports a forecast change at its time."""
    at_s, name = event["forecast"][0][0], event["name"]
    session.advance_until(
        lambda: session.now_s >= at_s or None, "a forecast change of a signal has passed"
    )
    of_signal = [each for each in of_kind(session.log, "signal_changed") if each["name"] == name]
    what = f"the server sent no change of {name} at {at_s} s, which it had forecast"
    expect(of_signal[-1]["time_s"] >= at_s, "R-signals", what)
