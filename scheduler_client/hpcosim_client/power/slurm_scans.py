"""When Slurm's power saving scans, and how many nodes a scan may switch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass
class Scans:
    """When there are scans; all in whole seconds, but for when something changed.

    Attributes:
        shortest_s, interval_s: more than this many seconds lie between two scans: at least, and if
            no node changes.
        last: the last scan.
        changed_s: when a node last changed.
    """

    shortest_s: int
    interval_s: int
    last: int
    changed_s: float

    @classmethod
    def begun(cls, now_s: float, shortest_s: int, interval_s: int) -> Scans:
        """Return the scans of which the first is at the next whole second."""
        last = math.ceil(now_s) - shortest_s - 1
        return cls(shortest_s, max(interval_s, shortest_s), last, now_s)

    def following(self) -> int:
        """Return when the next scan is if no node changes."""
        if self.changed_s >= self.last:
            return max(self.last + self.shortest_s + 1, math.ceil(self.changed_s))
        return self.last + self.interval_s + 1

    def pass_to(self, now_s: float) -> None:
        """Let all scans before now be over."""
        while self.changed_s >= self.last and self.following() < now_s:
            self.last = self.following()
        if self.changed_s < self.last:
            step = self.interval_s + 1
            self.last += max(math.ceil(now_s) - 1 - self.last, 0) // step * step

    def first(self, due: int) -> int:
        """Return when the first scan from `due` on is if no node changes."""
        then = replace(self)
        then.pass_to(due)
        return then.following()


@dataclass
class Bucket:
    """Tokens to switch nodes by; `rate` 0: always enough.

    Attributes:
        size: it holds no more tokens.
        period_ms: one comes at each multiple of this.
        tokens: those in it when it was last filled, less those taken since.
        periods: how many had passed then.
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
        """Add the tokens that have come by a whole second."""
        periods = now * 1000 // self.period_ms
        self.tokens = min(self.size, self.tokens + periods - self.periods)
        self.periods = periods

    def take(self, wanted: int) -> int:
        """Take the tokens wanted, or all there are, and return how many were taken."""
        taken = int(min(wanted, self.tokens))
        self.tokens -= taken
        return taken

    def next_s(self) -> int:
        """Return the first whole second at which there is a token."""
        if self.tokens >= 1:
            return 0
        return -(-(self.periods + 1) * self.period_ms // 1000)
