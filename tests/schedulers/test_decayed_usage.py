"""Usage that decays, and its resets."""

import numpy as np
import pytest

from hpcosim_schedulers.slurm.charges import Usage, reset_times
from hpcosim_schedulers.slurm.settings import Priority
from support.usage_oracle import Run, usage_at


@pytest.mark.parametrize("seed", range(5))
def test_usage_is_that_of_the_slow_calculation(seed: int) -> None:
    """Many calculations at once are the same as one after the other, job by job."""
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(30):
        start_s = float(rng.uniform(0, 4000))
        length_s = float(rng.exponential(1500))
        runs.append(
            Run(int(rng.integers(2)), float(rng.integers(1, 9)), start_s, start_s + length_s)
        )
    changes = [(run.start_s, 0, number) for number, run in enumerate(runs)]
    changes += [(run.end_s, 1, number) for number, run in enumerate(runs)]
    usage = Usage(Priority(decay_half_life_s=5000.0, calc_period_s=300.0), 1, -50.0)
    rows = [usage.add_row(), usage.add_row()]
    for at_s, ends, number in sorted(changes):
        usage.advance(at_s)
        if ends:
            usage.end(number, at_s)
        else:
            usage.start(number, [rows[runs[number].row]], [runs[number].rate], at_s)
    until_s = max(run.end_s for run in runs) + 7000.0
    usage.advance(until_s)
    for row in rows:
        expected = usage_at(runs, row, until_s, 5000.0, 300.0, -50.0)
        assert usage.amounts[row, 0] == pytest.approx(expected, rel=1e-9)


def test_a_row_without_decay_keeps_its_usage() -> None:
    """QOS flag `no_decay`: usage is the plain sum of core-seconds."""
    usage = Usage(Priority(decay_half_life_s=100.0), 1, 0.0)
    kept, decayed = usage.add_row(decays=False), usage.add_row()
    usage.start(1, [kept, decayed], [4.0], 10.0)
    usage.advance(650.0)
    usage.end(1, 650.0)
    usage.advance(100_000.0)
    assert usage.amounts[kept, 0] == pytest.approx(4.0 * 640.0)
    assert usage.amounts[decayed, 0] < 1e-9


def test_usage_is_halved_after_the_half_life() -> None:
    """After PriorityDecayHalfLife, half of the usage is left (Slurm's constant: 0.693)."""
    usage = Usage(Priority(decay_half_life_s=3000.0, calc_period_s=300.0), 1, 0.0)
    row = usage.add_row()
    usage.amounts[row] = 1000.0
    usage.advance(3000.0)
    assert usage.amounts[row, 0] == pytest.approx(500.0, rel=2e-3)


def test_usage_is_reset_at_midnight() -> None:
    """With PriorityUsageResetPeriod=DAILY, the first calculation after midnight begins at 0."""
    settings = Priority(usage_reset_period="daily", start_time="2026-11-22T22:00:00")
    usage = Usage(settings, 1, 0.0)
    row = usage.add_row()
    usage.amounts[row] = 1000.0
    usage.advance(2 * 3600.0 - 1.0)
    assert usage.amounts[row, 0] > 980.0
    usage.advance(2 * 3600.0)
    assert usage.amounts[row, 0] == 0.0


@pytest.mark.parametrize(
    ("period", "days"),
    [
        ("daily", [1, 2, 3]),
        ("weekly", [7, 14, 21]),  # 2026-11-22 is a Sunday
        ("monthly", [9, 40, 71]),
        ("quarterly", [40, 130, 221]),
        ("yearly", [40, 405, 771]),
    ],
)
def test_resets_are_at_the_begin_of_calendar_periods(period: str, days: list[int]) -> None:
    """Usage is reset at midnight, on Sundays, and on the first of months, quarters and years."""
    times = reset_times(period, "2026-11-22T00:00:00", 0.0)  # type: ignore[arg-type]
    assert [next(times) / 86_400 for _ in range(3)] == days
