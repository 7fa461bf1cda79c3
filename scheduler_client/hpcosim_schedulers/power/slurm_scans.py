"""The times of the scans of Slurm's power saving, and its token buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass
class Scans:
    """The times of scans, in whole seconds.

    Attributes:
        shortest_s: two scans are more than this many seconds apart.
        interval_s: two scans are more than this many seconds apart if no node changes.
        last: second of the last scan.
        changed_s: when a node last changed, simulated seconds.
    """

    shortest_s: int
    interval_s: int
    last: int
    changed_s: float

    @classmethod
    def begun(cls, now_s: float, shortest_s: int, interval_s: int) -> Scans:
        """Return scans that begin at the next whole second."""
        last = math.ceil(now_s) - shortest_s - 1
        return cls(shortest_s, max(interval_s, shortest_s), last, now_s)

    def following(self) -> int:
        """Return the second of the next scan if no node changes."""
        if self.changed_s >= self.last:
            return max(self.last + self.shortest_s + 1, math.ceil(self.changed_s))
        return self.last + self.interval_s + 1

    def pass_to(self, now_s: float) -> None:
        """Skip to the last scan before `now_s`."""
        while self.changed_s >= self.last and self.following() < now_s:
            self.last = self.following()
        if self.changed_s < self.last:
            step = self.interval_s + 1
            self.last += max(math.ceil(now_s) - 1 - self.last, 0) // step * step

    def first(self, due: int) -> int:
        """Return the second of the first scan at or after `due` if no node changes."""
        then = replace(self)
        then.pass_to(due)
        return then.following()


@dataclass
class Bucket:
    """A token bucket: one token permits one switch. A rate of 0 means no limit.

    Attributes:
        size: the maximum number of tokens.
        period_ms: a token is added at each multiple of this.
        tokens: the number of tokens.
        periods: number of periods passed when tokens were last added.
    """

    size: float
    period_ms: int
    tokens: float
    periods: int = 0

    @classmethod
    def of(cls, rate_per_min: int, interval_s: int) -> Bucket:
        """Return the full bucket of a rate; see `slurm`."""
        if not rate_per_min:
            return cls(math.inf, 1, math.inf)
        size = max(1, rate_per_min * max(1, interval_s) // 60)
        return cls(size, 60_000 // rate_per_min, size)

    def fill(self, now: int) -> None:
        """Add the tokens due by a whole second."""
        periods = now * 1000 // self.period_ms
        self.tokens = min(self.size, self.tokens + periods - self.periods)
        self.periods = periods

    def take(self, wanted: int) -> int:
        """Take `wanted` tokens, or all if there are fewer, and return the number taken."""
        taken = int(min(wanted, self.tokens))
        self.tokens -= taken
        return taken

    def next_s(self) -> int:
        """Return the first whole second at which there is a token."""
        if self.tokens >= 1:
            return 0
        return -(-(self.periods + 1) * self.period_ms // 1000)
