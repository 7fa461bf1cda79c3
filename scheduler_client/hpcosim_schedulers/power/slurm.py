"""The power manager that switches nodes like the power saving of Slurm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Bools, Ints
from hpcosim_client.view import Policy, View
from hpcosim_protocol import AllocateJob, Decision, SetNodePower
from hpcosim_schedulers.power.manager import managed
from hpcosim_schedulers.power.settings import Slurm, kept_on, without_kept


@dataclass
class Scans:
    """The times of scans, in whole seconds.

    Attributes:
        shortest_s: two scans are more than this many seconds apart.
        interval_s: two scans are more than this many seconds apart if no node changes.
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


class PowerSaving:
    """The state of Slurm's power saving."""

    def __init__(self, view: View, rules: Slurm) -> None:
        if not view.wake_on_allocation:
            raise PolicyError("the power manager slurm needs wake_on_allocation: true")
        rules.check(view.platform)
        nodes, interval_s = view.nodes, rules.power_save_interval_s
        self._rules = rules
        self._sets = kept_on(rules.suspend_exc_nodes, "suspend_exc_nodes", view.platform)
        off_s = rules.suspend_timeout_s
        self._timeout_s = nodes.switch_off_s if off_s is None else np.full(len(nodes.on), off_s)
        self._idle: Bools = np.zeros(len(nodes.on), dtype=np.bool_)
        self._last_busy: Ints = np.zeros(len(nodes.on), dtype=np.int64)
        self._was_on: Bools = nodes.on.copy()
        self._scans = Scans.begun(view.now_s, rules.power_save_min_interval_s, interval_s)
        self._alarm_s = math.inf  # the scan for which the alarm is set
        self._off_tokens = Bucket.of(rules.suspend_rate_per_min, interval_s)
        self._on_tokens = Bucket.of(rules.resume_rate_per_min, interval_s)
        self._powering_down: dict[int, int] = {}  # second from which step 3 may free a node
        self._just_suspended: list[int] = []  # those that the server has not confirmed yet
        self._deferred: list[AllocateJob] = []  # allocations of sleeping nodes that wait for tokens

    def before(self, view: View) -> None:
        """Withhold suspended nodes from the job scheduler; the view frees a node once it sleeps."""
        nodes = view.nodes
        freed = [node for node in self._powering_down if nodes.can_be_given(node)]
        for node in [*self._just_suspended, *freed]:
            if nodes.power[node] == "on":  # the server rejected the switch
                self._powering_down.pop(node, None)
            else:
                nodes.withhold(node, float(self._scans.first(self._powering_down[node])))
        self._just_suspended = []
        self._deferred = [wanted for wanted in self._deferred if wanted.job_id in view.running]
        for wanted in self._deferred:
            on_s = nodes.expected_on_s(view.now_s)[wanted.nodes]
            view.running[wanted.job_id].start_s = float(on_s.max())

    def after(self, view: View) -> float | None:
        """Scan if a scan is due; return the second of the next call, None: none is needed."""
        now_s, scans = view.now_s, self._scans
        scans.pass_to(now_s)
        if self._note_changes(view):
            scans.changed_s = now_s
        found = False
        if self._alarm_s < now_s or scans.following() <= now_s:
            scans.last = math.floor(now_s)
            found = self._scan(view, scans.last)
        return self._next_s(view, found)

    def _note_changes(self, view: View) -> bool:
        """Update idle nodes and deferred allocations, and return whether a node changed."""
        nodes = view.nodes
        idle = nodes.can_sleep & nodes.idle()
        self._last_busy[idle & ~self._idle] = math.floor(view.now_s)
        self._idle = idle
        booted = bool((nodes.on & ~self._was_on).any())
        self._was_on = nodes.on.copy()
        return self._defer(view) or booted or bool(view.left)

    def _defer(self, view: View) -> bool:
        """Defer allocations of sleeping nodes to a scan; return whether there are allocations."""
        if any(isinstance(decision, SetNodePower) for decision in view.decisions):
            raise PolicyError(
                "the power manager slurm does not permit a job scheduler that switches nodes"
            )
        given = [decision for decision in view.decisions if isinstance(decision, AllocateJob)]
        if given and not view.nodes.on.all():
            held = [wanted for wanted in given if _asleep(view, wanted)]
            kept: set[int] = {id(wanted) for wanted in held}
            rest: list[Decision] = [each for each in view.decisions if id(each) not in kept]
            view.decisions[:] = rest
            self._deferred += held
        return bool(given)

    def _scan(self, view: View, now: int) -> bool:
        """Carry out a scan, and return whether it made nodes available while jobs wait."""
        booted, stopped = self._resume(view, now), self._suspend(view, now)
        found = self._power_down(view, now)
        if booted or stopped or found:
            self._scans.changed_s = view.now_s
        self._idle &= view.nodes.on
        return found and bool(view.queue)

    def _resume(self, view: View, now: int) -> bool:
        bucket = self._on_tokens
        bucket.fill(now)
        waiting, booted = [], False
        for wanted in self._deferred:
            asleep = _asleep(view, wanted)
            granted = asleep[: bucket.take(len(asleep))]
            for node in granted:
                view.set_node_power(node, on=True)
            booted |= bool(granted)
            if len(granted) == len(asleep):
                view.decisions.append(wanted)
            else:
                waiting.append(wanted)
        self._deferred = waiting
        return booted

    def _suspend(self, view: View, now: int) -> bool:
        self._off_tokens.fill(now)
        long_idle = self._last_busy < now - self._rules.suspend_time_s
        due = np.flatnonzero(self._may_stop(view) & long_idle)
        due = due[: self._off_tokens.take(len(due))]
        self._just_suspended = due.tolist()
        for node in self._just_suspended:
            self._powering_down[node] = math.floor(now + self._timeout_s[node]) + 1
            view.set_node_power(node, on=False)
        return bool(self._just_suspended)

    def _power_down(self, view: View, now: int) -> bool:
        nodes = view.nodes
        done = [
            node
            for node, at_s in self._powering_down.items()
            if now >= at_s and nodes.power[node] == "sleeping"
        ]
        for node in done:
            del self._powering_down[node]
            nodes.set_power(node, "sleeping", nodes.power_since_s[node], None)
        return bool(done)

    def _may_stop(self, view: View) -> Bools:
        """Return bool[nodes]: the idle nodes that are not excluded now."""
        may_stop = without_kept(self._idle, view.nodes.idle(), self._sets)
        if self._rules.suspend_exc_states == "PLANNED":
            may_stop &= ~view.power_exchange.planned
        return may_stop

    def _next_s(self, view: View, found: bool) -> float | None:
        """Return the second of the next scan with an effect, or of the next scheduling."""
        due = min(self._due(view), default=math.inf)
        self._alarm_s = self._scans.first(int(due)) if due < math.inf else math.inf
        next_s = math.floor(view.now_s + view.elapsed_s) + 1
        at_s = next_s if found else max(self._alarm_s, next_s)
        return float(at_s) if at_s < math.inf else None

    def _due(self, view: View) -> Iterator[float]:
        """Yield the seconds from which a scan has an effect if no event comes first."""
        may_stop = self._may_stop(view)
        if may_stop.any():
            first = math.floor(self._last_busy[may_stop].min() + self._rules.suspend_time_s) + 1
            yield max(first, self._off_tokens.next_s())
        if self._powering_down:
            yield self._next_down(view)
        if self._deferred:
            yield self._on_tokens.next_s()

    def _next_down(self, view: View) -> float:
        """Return the second from which step 3 may free a node; infinity: an event reports it."""
        first = min(self._powering_down.values())
        if first > view.now_s:
            return first
        # An event reports the end of a switch that exceeds its timeout.
        power = view.nodes.power
        asleep = (
            at_s
            for node, at_s in self._powering_down.items()
            if at_s > view.now_s or power[node] == "sleeping"
        )
        return min(asleep, default=math.inf)


def _asleep(view: View, wanted: AllocateJob) -> list[int]:
    """Return the sleeping nodes of an allocation by number, without those that boot."""
    power = view.nodes.power
    return sorted(node for node in wanted.nodes if power[node] == "sleeping")


def slurm(policy: Policy, rules: Slurm) -> Policy:
    """Return the policy of a job scheduler beside Slurm's power saving.

    The model follows `src/slurmctld/power_save.c` of Slurm 26.11-dev (284c3b95). Nodes are switched
    in scans, at whole seconds t: at the first whole second, and then at each t

    - later than the last scan + `power_save_min_interval_s`, and
    - if no node has changed since the last scan, later than the last scan +
      `power_save_interval_s`. "Later" is strict: an interval of 10 without changes means a scan
      every 11 s.

    A node changes when it is allocated or released, when it has booted, and when a scan switches
    it. A scan takes place at the end of its instant, after all events and the job scheduler's
    decisions. It does the following, in this order:

    1. Resume: it boots sleeping nodes that are allocated, one per resume token: jobs in the order
       of their allocations, the nodes of each by number. The other nodes wait for tokens.
    2. Suspend: it switches off nodes by number, one per suspend token, that are on, not allocated,
       not excluded, and have `last_busy < t - suspend_time_s`. `last_busy` is the whole second in
       which the node was last released or booted, or the first second of the simulation.
    3. It makes nodes available again that it switched off before `t - suspend_timeout_s`.

    A token bucket holds at most `max(1, rate * max(1, power_save_interval_s) // 60)` tokens. It is
    full at the first scan and gains a token at each multiple of `60000 // rate` ms.

    A job that is allocated sleeping nodes holds them immediately. They boot in a scan, as tokens
    permit, and the allocation is sent to the server when the last one boots. This changes neither
    the job's start nor the power of a node; nodes of the job that are on draw idle power meanwhile.
    Scans without effect are skipped.

    Differences from Slurm:

    - No boot fails. A boot may take longer than `resume_timeout_s`.
    - A node that takes longer than `suspend_timeout_s` to switch off becomes available at the first
      scan after it sleeps. In Slurm it would become available too early.
    - A job starts when all its nodes are on, as with `--wait-all-nodes=1`. There is no COMPLETING
      state.
    - Slurm's job scheduler runs at its own times. Here it runs at each event, and, if jobs wait, in
      the second after step 3 made nodes available.
    - A scan during the job scheduler's own simulated time (`View.elapsed_s`) takes place after it.
    - Slurm prefers nodes that are on. Here the job scheduler chooses.
    - The job scheduler must not switch nodes. It cannot kill a job that waits for tokens, because
      the server does not know its allocation and rejects the decision.

    The policy raises `PolicyError` at its first call if the settings do not fit the platform or
    `wake_on_allocation` is false, and later if the job scheduler switches a node.
    """
    saving: PowerSaving | None = None

    def informed(view: View) -> None:
        nonlocal saving
        if saving is None:
            saving = PowerSaving(view, rules)
        saving.before(view)
        policy(view)

    def manage(view: View) -> float | None:
        assert saving is not None
        return saving.after(view)

    return managed(informed, manage)
