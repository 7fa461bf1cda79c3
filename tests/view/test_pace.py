"""The pace of a session: when a reply may be sent."""

from __future__ import annotations

import math

import pytest

from hpcosim_server.service.pace import AUTO_WALL_S, CATCH_UP_S, Pace, speed_for


class Clock:
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def paced(speed: float | None) -> tuple[Pace, Clock]:
    """Return a pace that begins at simulated time 1000 s, and its clock."""
    clock = Clock()
    return Pace(speed, 1000.0, clock), clock


def test_a_reply_waits_until_its_simulated_time_has_passed() -> None:
    """At speed 60 a reply one simulated hour later waits a minute."""
    pace, clock = paced(60.0)
    assert pace.wait_s(4600.0) == 60.0
    clock.now_s += 59.0
    assert pace.wait_s(4600.0) == 1.0
    clock.now_s += 1.0
    assert pace.wait_s(4600.0) == 0.0


def test_without_a_speed_no_reply_waits() -> None:
    """Without a speed a reply is due immediately."""
    assert paced(None)[0].wait_s(1e9) == 0.0


def test_many_late_replies_do_not_slow_the_simulation_down() -> None:
    """A small delay of each reply does not add up."""
    pace, clock = paced(1.0)
    for second in range(1, 101):
        clock.now_s += pace.wait_s(1000.0 + second) + 0.01
        pace.sent(1000.0 + second)
    assert clock.now_s == pytest.approx(200.01)


def test_a_slow_scheduler_causes_no_burst_of_replies() -> None:
    """After a decision of ten seconds, the pace makes up for a quarter of a second at most."""
    pace, clock = paced(1.0)
    clock.now_s += 10.0
    pace.sent(1001.0)
    assert pace.wait_s(1002.0) == pytest.approx(1.0 - CATCH_UP_S)


def test_a_paused_session_waits_without_end_and_goes_on_where_it_was() -> None:
    """The time of a pause does not count."""
    pace, clock = paced(1.0)
    clock.now_s += 4.0
    pace.pause()
    clock.now_s += 1e6
    assert pace.wait_s(1010.0) == math.inf
    pace.resume()
    assert pace.wait_s(1010.0) == 6.0


def test_a_step_sends_one_reply() -> None:
    """Each step of a paused session sends one reply, which may be of any later time."""
    pace, _ = paced(1.0)
    pace.step(2)
    for now_s in (2000.0, 3000.0):
        assert pace.wait_s(now_s) == 0.0
        pace.sent(now_s)
    assert pace.wait_s(3001.0) == math.inf
    pace.resume()
    assert pace.wait_s(3001.0) == 1.0


def test_a_change_of_speed_counts_from_now_on() -> None:
    """The time that has passed at the old speed is kept."""
    pace, clock = paced(10.0)
    clock.now_s += 1.0
    pace.change_speed(100.0)
    assert pace.wait_s(1210.0) == pytest.approx(2.0)


def test_the_simulated_time_at_full_speed_does_not_count() -> None:
    """A pace that is set later begins with the next reply."""
    pace, _ = paced(None)
    assert pace.is_free
    pace.change_speed(1.0)
    assert not pace.is_free
    assert pace.wait_s(1e9) == 0.0
    pace.sent(1e9)
    assert pace.wait_s(1e9 + 5.0) == 5.0


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan, math.inf, 1e13])
def test_an_impossible_speed_is_rejected(speed: float) -> None:
    """Zero, negative, infinite and undefined speeds are errors that name the range."""
    with pytest.raises(ValueError, match="expected a speed from 1e-06 to 1e"):
        paced(1.0)[0].change_speed(speed)


@pytest.mark.parametrize("steps", [0, -1, 1001])
def test_an_impossible_number_of_steps_is_rejected(steps: int) -> None:
    """The number of steps is bounded."""
    with pytest.raises(ValueError, match="expected from 1 to 1000 steps"):
        paced(1.0)[0].step(steps)


def test_auto_shows_a_run_in_a_minute() -> None:
    """The automatic speed depends on the length of the workload, and is at least real time."""
    assert speed_for("auto", 100 * AUTO_WALL_S) == 100.0
    assert speed_for("auto", 1.0) == 1.0
    assert speed_for(None, 5.0) is None
