"""Signals: their events, forecasts, and what they leave unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hpcosim_sim.engine.signals as signals_module
from hpcosim_protocol import (
    MAX_FORECAST,
    AllocateJob,
    Decision,
    Event,
    EventKind,
    RejectJob,
    SetAlarm,
    SignalChanged,
)
from hpcosim_protocol.requests import snake_case
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.errors import SimulationStuck
from hpcosim_workloads.series import Series, constant
from support.simulating import cluster_of, jobs_of

SIGNAL: tuple[EventKind, ...] = ("signal_changed",)


def series_of(*changes: tuple[float, float], repeat_s: float | None = None) -> Series:
    """Return a series of (time in s, value)."""
    times_s, values = np.array(changes, dtype=np.float64).T
    return Series(times_s, values, repeat_s)


def simulation_of(*signals: Signal, run_s: float = 100.0) -> Simulation:
    """Return a simulation of one node and one job, submitted at 0 s."""
    return Simulation(cluster_of(1), jobs_of((0.0, run_s, 1)), signals=signals)


def changes_in(events: Sequence[Event]) -> list[tuple[float, float, list[tuple[float, float]]]]:
    """Return time, value and forecast of each event of a signal."""
    return [
        (event.time_s, event.value, list(event.forecast))
        for event in events
        if isinstance(event, SignalChanged)
    ]


def reports(signal: Signal, until_s: float) -> list[tuple[float, float, list[tuple[float, float]]]]:
    """Return the events of a signal up to a time, each in a batch of its own."""
    simulation = simulation_of(signal, run_s=until_s)
    events = simulation.advance(wake_on=SIGNAL).events
    decisions = [AllocateJob(1, [0])]
    while not (batch := simulation.advance(decisions, wake_on=SIGNAL)).ended:
        events += batch.events
        decisions = []
    return changes_in(events)


def advance_often(simulation: Simulation, wake_on: list[EventKind] | None) -> None:
    """Advance without decisions."""
    for _ in range(20_000):
        simulation.advance(wake_on=wake_on)


def test_a_signal_is_reported_at_the_start_and_at_each_change() -> None:
    """Each event has the value from then on; without a horizon it has no forecast."""
    signal = Signal("price_per_kwh", series_of((0.0, 3.0), (10.0, 4.0), (20.0, 2.0)))
    assert reports(signal, 100.0) == [(0.0, 3.0, []), (10.0, 4.0, []), (20.0, 2.0, [])]


def test_a_change_is_announced_when_it_enters_the_forecast() -> None:
    """A long constant period does not hide the change that follows it."""
    signal = Signal("power_cap_w", series_of((0.0, 3.0), (50.0, 1.0)), forecast_s=20.0)
    assert reports(signal, 100.0) == [
        (0.0, 3.0, []),
        (30.0, 3.0, [(50.0, 1.0)]),
        (50.0, 1.0, []),
    ]


def test_a_forecast_has_at_most_its_limit_of_changes() -> None:
    """Later changes follow when earlier ones have passed."""
    changes = [(float(at_s), float(at_s % 7)) for at_s in range(MAX_FORECAST + 50)]
    first, second, *_ = reports(Signal("x", series_of(*changes), forecast_s=1e9), 3.0)
    assert first[2] == changes[1 : MAX_FORECAST + 1]
    assert second[2] == changes[2 : MAX_FORECAST + 2]


def test_a_forecast_may_differ_from_the_values() -> None:
    """The events have the values of the series, and the forecasts those of the forecast."""
    values, forecast = series_of((0.0, 1.0), (5.0, 2.0)), series_of((0.0, 9.0), (5.0, 8.0))
    signal = Signal("x", values, forecast_s=10.0, forecast=forecast)
    assert reports(signal, 100.0) == [(0.0, 1.0, [(5.0, 8.0)]), (5.0, 2.0, [])]


@pytest.mark.slow
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 39), st.integers(0, 3)),
        min_size=1,
        max_size=6,
        unique_by=lambda change: change[0],
    ).map(sorted),
    forecast_s=st.integers(0, 60),
    periodic=st.booleans(),
)
def test_events_are_those_of_the_slow_reference(
    changes: list[tuple[int, int]], forecast_s: int, periodic: bool
) -> None:
    """The reference computes value and forecast at every second and reports what is new."""
    if periodic:
        changes = [(0, changes[-1][1]), *changes] if changes[0][0] else changes
    series = series_of(*changes, repeat_s=40.0 if periodic else None)
    every = [(float(t), series.at(float(t))) for t in range(1000)]
    times = {t % 40 if periodic else t for t, _ in changes} if len(changes) > 1 else set()
    if not periodic:
        times -= {0}
    upcoming = [(t, value) for t, value in every[1:] if (t % 40 if periodic else t) in times]
    expected: list[tuple[float, float, list[tuple[float, float]]]] = []
    for t, value in every[:200]:
        forecast = [each for each in upcoming if t < each[0] <= t + forecast_s]
        gained = any(each[0] == t + forecast_s for each in upcoming)
        if t == 0 or gained or any(each[0] == t for each in upcoming):
            expected.append((t, value, forecast))
    assert reports(Signal("x", series, float(forecast_s)), 199.5) == expected


def test_signals_change_before_jobs_are_submitted() -> None:
    """At one instant: completions, signals, submissions, alarms."""
    signal = Signal("x", series_of((0.0, 1.0), (10.0, 2.0)))
    jobs = jobs_of((0.0, 10.0, 1), (10.0, 1.0, 1))
    simulation = Simulation(cluster_of(1), jobs, signals=[signal])
    first = simulation.advance().events
    decisions: list[Decision] = [AllocateJob(1, [0]), SetAlarm(10.0, 1)]
    second = simulation.advance(decisions, wake_on=["job_completed"]).events
    kinds = [snake_case(type(event).__name__) for event in [*first, *second]]
    assert kinds == [
        *("simulation_began", "signal_changed", "job_submitted"),
        *("job_started", "job_completed", "signal_changed", "job_submitted", "no_more_jobs"),
        "alarm",
    ]


def test_signals_do_not_prolong_a_simulation() -> None:
    """The simulation ends with its last job, before later changes."""
    simulation = simulation_of(Signal("x", series_of((0.0, 1.0), (1e6, 2.0))), run_s=10.0)
    simulation.advance()
    assert changes_in(simulation.advance([AllocateJob(1, [0])]).events) == []
    assert simulation.advance() == (10.0, [], True)


def test_a_batch_has_only_the_last_event_of_a_signal() -> None:
    """A scheduler that sleeps receives the present value, at the time of its change."""
    changes = [(float(at_s), float(at_s)) for at_s in range(5000)]
    signals = (Signal("a", series_of(*changes)), Signal("b", series_of((0.0, 1.0), (7.0, 2.0))))
    simulation = simulation_of(*signals, run_s=4000.5)
    simulation.advance()
    events = simulation.advance([AllocateJob(1, [0])], wake_on=["job_completed"]).events
    changed = [(e.time_s, e.name, e.value) for e in events if isinstance(e, SignalChanged)]
    assert changed == [(7.0, "b", 2.0), (4000.0, "a", 4000.0)]
    assert [event.time_s for event in events] == sorted(event.time_s for event in events)


def test_a_simulation_is_stuck_after_the_last_change() -> None:
    """As long as a signal changes, a scheduler may wait for it."""
    simulation = simulation_of(Signal("x", series_of((0.0, 1.0), (50.0, 2.0))))
    simulation.advance()
    assert simulation.advance().now_s == 50.0
    with pytest.raises(SimulationStuck, match="no signal changes any more"):
        simulation.advance()


@pytest.mark.parametrize("wake_on", [None, []])
def test_a_periodic_signal_does_not_keep_a_stuck_simulation_going(
    wake_on: list[EventKind] | None,
) -> None:
    """A client that only sleeps or only wakes up gets the error in the end."""
    signal = Signal("x", series_of((0.0, 1.0), (30.0, 2.0), repeat_s=60.0))
    simulation = simulation_of(signal)
    simulation.advance()
    with pytest.raises(SimulationStuck, match="10001 events were changes of signals"):
        advance_often(simulation, wake_on)


def test_events_of_signals_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client cannot make the server compute changes up to an alarm in the far future."""
    monkeypatch.setattr(signals_module, "MAX_SIGNAL_EVENTS", 100)
    signal = Signal("x", series_of((0.0, 1.0), (1.0, 2.0), repeat_s=2.0))
    simulation = simulation_of(signal)
    simulation.advance()
    events = simulation.advance([SetAlarm(1e15, 1)], wake_on=[]).events
    assert changes_in(events) == [(99.0, 2.0, [])]
    assert simulation.now_s == 1e15


def test_a_resumed_session_has_the_last_event_of_each_signal() -> None:
    """The snapshot restores value and forecast."""
    signals = [
        Signal("a", series_of((0.0, 1.0), (5.0, 2.0), (50.0, 3.0)), forecast_s=100.0),
        Signal("b", constant(7.0)),
    ]
    simulation = simulation_of(*signals)
    simulation.advance()
    simulation.advance(wake_on=SIGNAL)
    assert simulation.snapshot()[1:3] == [
        SignalChanged(5.0, "a", 2.0, [(50.0, 3.0)]),
        SignalChanged(0.0, "b", 7.0, []),
    ]


def test_without_signals_the_events_are_those_without_the_argument() -> None:
    """Signals change no other event."""
    plain = Simulation(cluster_of(1), jobs_of((0.0, 30.0, 1), (5.0, 3.0, 1)))
    told = Simulation(
        cluster_of(1),
        jobs_of((0.0, 30.0, 1), (5.0, 3.0, 1)),
        signals=[Signal("x", series_of((0.0, 1.0), (10.0, 2.0)))],
    )
    others: list[list[Event]] = []
    for simulation in (plain, told):
        events = simulation.advance().events
        for decisions in ([AllocateJob(1, [0])], [RejectJob(2)], []):
            events += simulation.advance(
                decisions, wake_on=["job_completed", "no_more_jobs"]
            ).events
        others.append([event for event in events if not isinstance(event, SignalChanged)])
    assert others[0] == others[1]
