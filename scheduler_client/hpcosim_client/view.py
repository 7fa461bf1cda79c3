"""The view: the state of the cluster, the decisions of a policy, and its alarms."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import index
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.demand import Devices
from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Allocation, Job
from hpcosim_client.scheduler_state import SchedulerState
from hpcosim_protocol import (
    REASON,
    AllocateJob,
    CancelAlarm,
    Decision,
    Event,
    EventKind,
    Explain,
    KillJob,
    Platform,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SetCheckpoint,
    SetNodePower,
    SubmitJob,
    SuspendJob,
)
from hpcosim_protocol.decisions import KilledAs, RejectedAs


class PowerExchange:
    """Shared state of a job scheduler and the power manager beside it.

    | attribute | written by | read by |
    |---|---|---|
    | `planned` | the job scheduler, at each call | the power manager, after it |
    | `wait_price_w` | the power manager, at each call | the job scheduler, at its next call |
    | `idle_since_s` | the power manager, at each call | the job scheduler, at its next call |
    | `switches` | the power manager, before each call of the job scheduler | the job scheduler |

    Attributes:
        planned: bool[nodes], idle nodes that the job scheduler has reserved; the power manager
            leaves them on. All false if the job scheduler is unaware of power states.
        wait_price_w: price of a job's wait in J/s, > 0. A job scheduler that is aware of power
            states delays a job if that saves more energy than the delay costs. Infinity, the
            default: no job is delayed to save energy.
        idle_since_s: float64[nodes], since when each node was idle at the last call, simulated
            seconds; NaN: it was not, or the manager keeps no such times.
        switches: whether there is a power manager that may switch nodes off.
    """

    def __init__(self, node_count: int) -> None:
        self.planned: NDArray[np.bool_] = np.zeros(node_count, dtype=np.bool_)
        self.wait_price_w = math.inf
        self.idle_since_s: NDArray[np.float64] = np.full(node_count, np.nan)
        self.switches = False


MAX_TIME_S = 1e15  # of the protocol


def _check_state(what: str, job: Job, state: str, known: Sequence[str]) -> None:
    if state not in known:
        raise PolicyError(
            f"job {job.job_id} cannot be {what} with the state {state!r:.80}: expected "
            f"{', '.join(known)}"
        )


def _check_grace(what: str, job: Job, grace_s: float) -> None:
    if not 0.0 <= grace_s <= MAX_TIME_S:
        raise PolicyError(
            f"job {job.job_id} cannot be {what}: grace_s is {grace_s}; expected seconds >= 0"
        )


SHOWN = 80  # characters of a wrong value in a message


def check_nodes(job: Job, nodes: Sequence[int], count: int) -> None:
    """Check the nodes for a job."""
    if not all(_is_whole(node) and 0 <= node < count for node in nodes):
        raise _wrong(job, f"nodes {_shown(nodes)}: expected numbers from 0 to {count - 1}")
    if len(set(nodes)) < len(nodes):
        raise _wrong(job, f"nodes {_shown(nodes)}: expected each node once")


def check_stated(
    job: Job,
    nodes: Sequence[int] | None,
    cores: Sequence[int] | None,
    gres: Devices,
    platform: Platform,
) -> None:
    """Check the cores and devices for a job.

    Args:
        nodes: the nodes of the job; None: not stated.
        cores: cores on each node; None: not stated.
        gres: numbers of the devices on each node, by name of the resource; empty: not stated.
    """
    if cores is None:
        raise _wrong(job, "stated devices without cores: expected nodes=, cores= and gres=")
    if nodes is None:
        raise _wrong(job, "stated cores without nodes: expected nodes= and cores=")
    if len(cores) != len(nodes):
        raise _wrong(job, f"cores {_shown(cores)}: expected {len(nodes)} numbers, one per node")
    if not all(_is_whole(count) and count > 0 for count in cores) or sum(cores) != job.cores:
        what = f"expected numbers above 0 that add up to {job.cores}"
        raise _wrong(job, f"cores {_shown(cores)}: {what}")
    if gres and len(gres) != len(nodes):
        raise _wrong(job, f"gres of {len(gres)} nodes: expected {len(nodes)}, one per node")
    known = {name for group in platform.nodes for name in group.gres}
    for name in (name for devices in gres for name in devices):
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise _wrong(job, f"gres {name!r:.{SHOWN}}: the nodes have {names:.{SHOWN}}")


def _is_whole(number: object) -> bool:
    """Return whether a number is an integer, of Python or of NumPy."""
    try:
        index(number)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _shown(numbers: Sequence[object]) -> str:
    text = str([*numbers[:SHOWN]])
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _wrong(job: Job, what: str) -> PolicyError:
    return PolicyError(f"job {job.job_id} cannot start on {what}")


def check_explanation(job: Job, reason: str, expected_start_s: float | None) -> None:
    """Check an explanation, so that the server accepts it."""
    if not isinstance(reason, str) or REASON.fullmatch(reason) is None:
        raise PolicyError(
            f"job {job.job_id}: the reason {reason!r:.80} is malformed: expected a letter, then up "
            "to 63 letters, digits and _, such as Resources"
        )
    if expected_start_s is not None and not expected_start_s <= MAX_TIME_S:
        raise PolicyError(
            f"job {job.job_id}: the expected start is {expected_start_s} s: expected at most "
            f"{MAX_TIME_S:g} s, or None if it is unknown"
        )


POLICY = 2  # stream of random numbers, distinct from those of workload and simulator


def policy_chance(seed: int) -> np.random.Generator:
    """Return the random number generator of the policy of a simulation."""
    return np.random.default_rng([seed, POLICY])


FIRST_ALLOCATED_ALARM = 2**62
"""The least alarm number that `View.new_alarm` returns. Smaller numbers are free for users."""


class View(SchedulerState):
    """The state of the cluster (see `SchedulerState`) and the decisions of a policy.

    Decisions take effect in the view immediately: a started job leaves the queue and occupies its
    cores. If the server rejects the start, the job is requeued and its cores are free again.

    Args:
        platform, wake_on_allocation: see `SchedulerState`.
        seed: seed of the simulation; the policy's random numbers derive from it.
        explains: whether `explain` sends explanations.

    Attributes:
        rng: the policy's random number generator.
        power_exchange: shared state of job scheduler and power manager.
        wake_on: kinds of events for which the policy is called next; None: the protocol's default.
            None before each call. For example, `("job_completed",)` skips submissions. The policy
            still sees the skipped events at its next call.
        elapsed_s: simulated seconds that the policy needs for this call, 0 before each call.
        explains: whether `explain` sends explanations. A policy that needs time to find reasons
            can leave them out if it is false.
        head: the job that `list_scheduling.explain_queue` explained last as the head of the
            queue; None: none.

    Example:
        >>> def first_come_first_served(view: View) -> None:
        ...     for job in view.queue.values():
        ...         if not view.start(job):
        ...             break
    """

    def __init__(
        self,
        platform: Platform,
        seed: int = 0,
        *,
        wake_on_allocation: bool = True,
        explains: bool = False,
    ) -> None:
        super().__init__(platform, wake_on_allocation=wake_on_allocation)
        self.decisions: list[Decision] = []
        self._rejected_now: set[int] = set()
        self.rng = policy_chance(seed)
        self.power_exchange = PowerExchange(len(self.nodes.free))
        self.wake_on: Collection[EventKind] | None = None
        self.elapsed_s = 0.0
        self.explains = explains
        self.head: Job | None = None
        self._next_alarm = FIRST_ALLOCATED_ALARM
        self._window_alarm: int | None = None

    def apply(self, now_s: float, events: Iterable[Event]) -> None:
        """Apply the events up to `now_s`, and clear the last decisions."""
        self.decisions, self.wake_on, self.elapsed_s = [], None, 0.0
        if self._rejected_now:
            self._rejected_now.clear()
        super().apply(now_s, events)
        if self.platform.reservations and self.queue:
            self._wake_at_next_window()

    def start(
        self,
        job: Job,
        nodes: Sequence[int] | None = None,
        *,
        cores: Sequence[int] | None = None,
        gres: Devices = (),
    ) -> bool:
        """Start a waiting job if its resources are free, and return whether it started.

        Args:
            nodes: node numbers, which the job fills in this order as its request permits; None: all
                nodes in ascending order.
            cores: cores of the job on each of `nodes`, above 0; None: as many as are free.
            gres: with `cores`, numbers of the devices on each of `nodes`, by name of the resource
                with its type; a device is named once for each part of it. Empty: those that the
                server would choose.

        Raises:
            PolicyError: the job is not in the queue, a node does not exist or is named twice, or
                `cores` and `gres` do not match the nodes.
        """
        if job.job_id not in self.queue:
            raise PolicyError(f"job {job.job_id} cannot start: it is not in the queue")
        if cores is not None or gres:
            check_stated(job, nodes, cores, gres, self.platform)
        if nodes is None:
            allocation = self.nodes.find(job)
        elif cores is None:
            allocation = self._place_on(job, nodes)
        else:
            check_nodes(job, nodes, len(self.nodes.free))
            allocation = self.nodes.complete(job, np.array(nodes), np.array(cores), gres)
        if allocation is None:
            return False
        self._start(job, allocation)
        return True

    def start_at(self, job: Job, allocation: Allocation) -> bool:
        """Start a waiting job on given cores if they are free, and return whether it started.

        Raises:
            PolicyError: the job is not in the queue.
        """
        if job.demand is not None:
            gres = () if allocation.held is None else allocation.held.gres
            found = self.nodes.complete(job, allocation.nodes, allocation.tasks, gres)
            if found is None:
                return False
            allocation = found
        elif (self.nodes.free[allocation.nodes] < allocation.cores_per_node).any():
            return False
        self._start(job, allocation)
        return True

    def reject(
        self, job: Job, *, state: RejectedAs = "rejected", reason: str = "", at_end: bool = False
    ) -> None:
        """End a waiting job; it leaves the queue, or the pending jobs, with the events of its end.

        Args:
            job: a job of `queue` or `pending`.
            reason: reason, for people; empty: none.
            at_end: whether the job goes on waiting until nothing can start it any more: no other
                job runs, becomes eligible or is submitted, and nobody changes this one. Until then
                a start or a change of the job revokes the decision. With a real Slurm the job goes
                on waiting.

        Raises:
            PolicyError: the state is none of `RejectedAs`.
        """
        _check_state("rejected", job, state, get_args(RejectedAs))
        if not at_end:
            self._rejected_now.add(job.job_id)
        self.decisions.append(RejectJob(job.job_id, state, reason, at_end))

    def kill(self, job: Job, *, grace_s: float = 0.0, state: KilledAs = "killed") -> None:
        """Kill a running or suspended job; it leaves the view with the events of its end.

        Args:
            grace_s: time for which the job goes on, simulated seconds.

        Raises:
            PolicyError: the job waits, the state is none of `KilledAs`, or the time is not one.
        """
        self._check_placed("killed", job)
        _check_state("killed", job, state, get_args(KilledAs))
        _check_grace("killed", job, grace_s)
        self.decisions.append(KillJob(job.job_id, grace_s, state))

    def requeue(self, job: Job, *, begin_s: float | None = None, grace_s: float = 0.0) -> None:
        """End the run of a job and let it wait again; it is in `pending` with the next events.

        Args:
            job: a running or suspended job with `request.requeue`.
            begin_s: earliest time at which it may start again, simulated seconds; None: now.
            grace_s: time for which the run goes on, simulated seconds.

        Raises:
            PolicyError: the job waits, or a time is not one.
        """
        self._check_placed("requeued", job)
        _check_grace("requeued", job, grace_s)
        if begin_s is not None and not abs(begin_s) <= MAX_TIME_S:
            raise PolicyError(
                f"job {job.job_id} cannot be requeued: begin_s is {begin_s}; expected seconds"
            )
        self.decisions.append(RequeueJob(job.job_id, begin_s, grace_s))

    def suspend(self, job: Job) -> None:
        """Suspend a running job. Its cores are free immediately; it keeps its other resources.

        Raises:
            PolicyError: the job does not run.
        """
        if job.job_id not in self.running:
            raise PolicyError(f"job {job.job_id} cannot be suspended: it is not running")
        self._suspend(job.job_id, self.now_s)
        self.decisions.append(SuspendJob(job.job_id))

    def resume(self, job: Job) -> bool:
        """Resume a suspended job if its cores are free, and return whether it runs again.

        Reservations must permit it on its nodes for the rest of its requested time.

        Raises:
            PolicyError: the job is not suspended.
        """
        if job.job_id not in self.suspended:
            raise PolicyError(f"job {job.job_id} cannot be resumed: it is not suspended")
        place = job.allocation
        if place is not None and (self.nodes.idle_cores(place.nodes) < place.cores_per_node).any():
            return False
        if place is not None and not self._may_resume(job, place):
            return False
        self._resume(job.job_id, self.now_s)
        self.decisions.append(ResumeJob(job.job_id))
        return True

    def _may_resume(self, job: Job, place: Allocation) -> bool:
        if job.demand is None:
            return True
        computed_s = self._suspended_at_s[job.job_id] - job.start_s - job.suspended_s
        end_s = self.now_s + max(job.requested_s - computed_s, 0.0)
        permitted = self.nodes.demands.permitted(job, job.demand, self.now_s, end_s)
        return permitted is None or bool(permitted[place.nodes].all())

    def set_checkpoint(self, job: Job, interval_s: float) -> None:
        """Set the computing time between two checkpoints of a waiting job.

        Args:
            job: a job of `queue` or `pending` with `request.checkpointing`.
            interval_s: simulated seconds, > 0.

        Raises:
            PolicyError: the job writes no checkpoints, or the interval is not above 0.
        """
        if job.request is None or job.request.checkpointing is None:
            raise PolicyError(f"job {job.job_id} writes no checkpoints: its request states no cost")
        if not 0.0 < interval_s < math.inf:
            raise PolicyError(
                f"checkpoint interval of job {job.job_id}: expected seconds > 0, got {interval_s}"
            )
        self.decisions.append(SetCheckpoint(job.job_id, interval_s))

    def _check_placed(self, what: str, job: Job) -> None:
        if job.job_id in self.queue or job.job_id in self.pending:
            raise PolicyError(f"job {job.job_id} cannot be {what}: it is not running")

    def submit(self, job: SubmitJob) -> None:
        """Submit a job, if the scenario has `dynamic_jobs: true`.

        Raises:
            PolicyError: it is no `hpcosim_protocol.SubmitJob`.
        """
        if not isinstance(job, SubmitJob):
            raise PolicyError(
                f"a {type(job).__name__} cannot be submitted: expected hpcosim_protocol.SubmitJob"
            )
        self.decisions.append(job)

    def explain(self, job: Job, reason: str, expected_start_s: float | None = None) -> None:
        """Say why a waiting job waits. That has no effect on the simulation.

        Nothing is sent unless the user asked for explanations (`--explain`) and the server knows
        them, nor if nothing has changed since the job's last explanation.

        Args:
            reason: name of the reason, if possible one of Slurm's such as `Priority` or
                `Resources`: a letter, then up to 63 letters, digits and underscores.
            expected_start_s: expected start, simulated seconds; a time before now means now. None:
                unknown.

        Raises:
            PolicyError: the job is not in the queue, or an argument is invalid.
        """
        if not self.explains or job.job_id in self._rejected_now:
            return
        if expected_start_s is not None:
            expected_start_s = max(float(expected_start_s), self.now_s + self.elapsed_s)
        explanation = (reason, expected_start_s)
        if explanation == job.explanation:
            return
        check_explanation(job, reason, expected_start_s)
        if job.job_id not in self.queue:
            raise PolicyError(f"job {job.job_id} cannot be explained: it is not in the queue")
        job.explanation = explanation
        self.decisions.append(Explain(job.job_id, reason, expected_start_s))

    def new_alarm(self) -> int:
        """Return an alarm number that is unused on this view, >= `FIRST_ALLOCATED_ALARM`.

        Policies and power managers that are combined each allocate their own numbers; see
        `PolicyAlarm`.
        """
        self._next_alarm += 1
        return self._next_alarm - 1

    def set_alarm(self, at_s: float, alarm_id: int = 0) -> None:
        """Set an alarm: the policy is called at a simulated time.

        Args:
            at_s: simulated second, > `now_s`.
            alarm_id: number of the alarm, from `new_alarm` or < `FIRST_ALLOCATED_ALARM`. An alarm
                of the same number is replaced.
        """
        at_s = float(at_s)  # a number of NumPy cannot be encoded
        self.pending_alarms[alarm_id] = at_s
        self.decisions.append(SetAlarm(at_s, alarm_id))

    def cancel_alarm(self, alarm_id: int = 0) -> None:
        """Cancel an alarm."""
        self.pending_alarms.pop(alarm_id, None)
        self.decisions.append(CancelAlarm(alarm_id))

    def set_node_power(self, node: int, *, on: bool) -> None:
        """Switch a node on or off.

        The view shows the new power state immediately, so a node that is switched off receives no
        more jobs. If the server rejects the decision, the node returns to its previous state.

        Raises:
            PolicyError: the node does not exist.
        """
        if not 0 <= node < len(self.nodes.free):
            last = len(self.nodes.free) - 1
            raise PolicyError(f"node {node} does not exist: expected a number from 0 to {last}")
        node = int(node)
        self._switched[len(self.decisions)] = node
        reported = (self.nodes.power[node], self.nodes.power_since_s[node])
        self._reported.setdefault(node, reported)
        self._set_power(node, "switching_on" if on else "switching_off", self.now_s)
        self.decisions.append(SetNodePower(node, "on" if on else "sleeping"))

    def _wake_at_next_window(self) -> None:
        """Set an alarm for when a reservation begins or ends: a waiting job may fit then."""
        changes_s = self.nodes.demands.window_changes_s(self.now_s, self.now_s)
        if not changes_s:
            return
        if self._window_alarm is None:
            self._window_alarm = self.new_alarm()
        if self.pending_alarms.get(self._window_alarm) != changes_s[0]:
            self.set_alarm(changes_s[0], self._window_alarm)

    def _start(self, job: Job, allocation: Allocation) -> None:
        if job.job_id not in self.queue:
            raise PolicyError(f"job {job.job_id} cannot start: it is not in the queue")
        self.nodes.take(allocation)
        job.allocation, job.start_s = allocation, self.now_s
        if self._any_off:
            job.start_s = self._ready_s(allocation, self.now_s)
        self.queue.pop(job.job_id)  # `del` would call `JobQueue.__setitem__`'s slot
        self.running[job.job_id] = job
        # On nodes of one core the server infers the tasks.
        tasks = [] if self.nodes.single_core else allocation.tasks.tolist()
        decision = AllocateJob(job.job_id, allocation.nodes.tolist(), tasks)
        if allocation.held is not None:
            decision.gres = allocation.held.gres
        self.decisions.append(decision)

    def _place_on(self, job: Job, nodes: Sequence[int]) -> Allocation | None:
        check_nodes(job, nodes, len(self.nodes.free))
        return self.nodes.place(job, np.array(nodes, dtype=np.int64))


Policy = Callable[[View], None]
"""A function that reads the view and decides through it. It may keep state between calls."""


class PolicyAlarm:
    """An alarm with a number of its own, for one simulation.

    The number is allocated by `View.new_alarm` when the alarm is first set. A policy that needs
    several alarms at the same time has a `PolicyAlarm` for each.
    """

    def __init__(self) -> None:
        self._number: int | None = None

    def set(self, view: View, at_s: float) -> None:
        """Set the alarm to a simulated second; replaces its earlier setting."""
        if self._number is None:
            self._number = view.new_alarm()
        view.set_alarm(at_s, self._number)

    def set_or_cancel(self, view: View, at_s: float) -> None:
        """Set the alarm to a simulated second, or cancel it if that is infinity.

        No decision is sent if the alarm is already set to that second.
        """
        if at_s == math.inf:
            self.cancel(view)
        elif self._number is None or at_s != view.pending_alarms.get(self._number):
            self.set(view, at_s)

    def cancel(self, view: View) -> None:
        """Cancel the alarm if it is set."""
        if self._number is not None and self._number in view.pending_alarms:
            view.cancel_alarm(self._number)
