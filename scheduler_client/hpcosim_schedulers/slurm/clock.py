"""The clock of a site, and when slurmctld does its periodic work.

slurmctld counts in whole seconds of the system clock. Its main loop looks at all its timers once in
each iteration, of about a second.
"""

from __future__ import annotations

import math
from datetime import datetime

from hpcosim_schedulers.slurm.settings import SiteSettings

BACKFILL_BEGIN_S = 0.83
"""Time from the start of slurmctld to that of the backfill scheduler's thread, s; measured."""

ROUNDING_S = 1e-6


class SiteClock:
    """Conversion between simulated seconds and whole seconds of the site's clock.

    Args:
        site: the settings. `priority.start_time` is the time at simulated second 0.

    Attributes:
        begin: second in which the main loop begins.
        backfill_begin_s: start of the backfill scheduler, simulated seconds.
    """

    def __init__(self, site: SiteSettings) -> None:
        start = site.priority.start_time or "1970-01-01T00:00:00"
        since = datetime.fromisoformat(start).replace(tzinfo=None) - datetime(1970, 1, 1)
        self._origin_s = since.total_seconds()
        self._loop_s = site.scheduler.loop_begin_s - site.dtstart_s
        self._tick_s = site.scheduler.loop_s
        self.backfill_begin_s = BACKFILL_BEGIN_S - site.dtstart_s
        self.begin = self.second(self._loop_s)

    def second(self, at_s: float) -> int:
        """Return the whole second of the clock at a simulated time."""
        return math.floor(at_s + self._origin_s + ROUNDING_S)

    def simulated(self, second: int) -> float:
        """Return the simulated time at which a second of the clock begins."""
        return second - self._origin_s

    def tick_from(self, at_s: float) -> float:
        """Return the time of the first iteration of the main loop at or after a time."""
        number = math.ceil((at_s - self._loop_s - ROUNDING_S) / self._tick_s)
        return self._loop_s + max(number, 0) * self._tick_s

    def first_tick_of(self, second: int) -> float:
        """Return the time of the first iteration in or after a second of the clock."""
        return self.tick_from(self.simulated(second))


def whole_seconds(limit_s: float) -> int:
    """Return a time limit in whole seconds, rounded up, as slurmctld has it."""
    return math.ceil(limit_s - ROUNDING_S)
