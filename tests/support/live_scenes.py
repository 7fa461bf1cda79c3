"""A bridge in mode hold or place to a cluster in memory, and a scheduler that talks to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpcosim_protocol import AllocateJob, Event, JobStarted
from hpcosim_slurm.bridge.bridge import Bridge, OrderExecutor, SafetyLimits
from hpcosim_slurm.bridge.run import began_now, course_of
from hpcosim_slurm.commands import (
    Action,
    Begin,
    Cancel,
    Hold,
    Order,
    Place,
    Refusal,
    Release,
    Requeue,
    Resume,
    Suspend,
    Terminate,
    Withdraw,
)
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.site import Site
from support.bridges import Talk
from support.fake_cluster import FakeCluster

CREDENTIAL_S = 120.0
"""Time after which Slurm starts a job again that was requeued, s."""
LIMITS = SafetyLimits(silent_s=10.0, unreachable_s=5.0, rejected=3)


class FakeCarrier:
    """Carries orders out on a cluster in memory, or refuses them.

    Args:
        cluster: the cluster.

    Attributes:
        actions: the actions so far.
        refuses: Slurm's words for each order; empty: it carries them out.
        starts: whether jobs that were placed start.
        obeys: whether jobs are requeued, suspended, resumed and ended.
        silent: whether the controller does not answer.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.actions: list[Action] = []
        self.refuses = ""
        self.starts = True
        self.obeys = True
        self.silent = False

    def carry_out(self, orders: list[Order]) -> list[Refusal]:
        """See `Carrier`."""
        if self.silent:
            raise SlurmError("no answer")
        self.actions += [order.action for order in orders]
        if self.refuses:
            return [Refusal(order, self.refuses) for order in orders]
        for order in orders:
            self._do(order.action)
        return []

    def _do(self, action: Action) -> None:
        cluster, now_s = self.cluster, self.cluster.now_s
        match action:
            case Place() if self.starts:
                self._change(
                    action.job, state="running", slurm_state="RUNNING", started_s=now_s,
                    nodes=action.nodes, partition=action.partition,
                )  # fmt: skip
            case Withdraw():
                self._change(action.job, partition=action.partition)
            case Begin():
                self._change(action.job, eligible_s=action.at_s)
            case Hold():
                cluster.hold(int(action.job))
            case Release():
                cluster.release(int(action.job))
        if not self.obeys:
            return
        match action:
            case Cancel():
                cluster.cancel(int(action.job))
            case Requeue():
                cluster.requeue(int(action.job))
                self._change(action.job, eligible_s=now_s + CREDENTIAL_S)
            case Suspend():
                cluster.suspend(int(action.job))
            case Resume():
                cluster.resume(int(action.job))
            case Terminate() if cluster.hidden[int(action.job)].fails:  # it does not catch SIGTERM
                cluster.cancel(int(action.job))
                self._change(action.job, slurm_state="FAILED", exit_code=143)

    def _change(self, job: str, **changes: object) -> None:
        jobs = self.cluster.jobs
        jobs[int(job)] = replace(jobs[int(job)], **changes)  # type: ignore[arg-type]


class Scene:
    """A bridge to a cluster in memory, and a scheduler that talks to it.

    Args:
        mode: mode of the bridge.
        waiting: partition in which jobs wait; empty: they wait held.
        journal: journal of the bridge; None: none is written.
    """

    def __init__(
        self, mode: str = "place", waiting: str = "queue", journal: Path | None = None
    ) -> None:
        self.cluster = FakeCluster(nodes=3, starts=False)
        self.carrier = FakeCarrier(self.cluster)
        self.site = Site(
            name="fake",
            partitions=("main",),
            mode=mode,
            waiting=(waiting,) if waiting else (),
            start_timeout_s=5.0,
        )
        self.journal = journal
        self.bridge = self.new_bridge()
        self.talk = Talk(self.bridge)
        self.talk.decide()

    def new_bridge(self) -> Bridge:
        """Return a bridge that goes on where the journal ends, and has seen the cluster."""
        began = began_now(self.site, self.site.mode, "test", self.cluster.now_s)
        course, journal = course_of(self.journal, began, LiveWorld, lambda _: None)
        acting = OrderExecutor(self.carrier, LIMITS)  # type: ignore[arg-type]
        bridge = Bridge(course, journal, lambda: self.cluster.now_s, "", acting)
        bridge.note(self.cluster.state())
        return bridge

    def submit(self, **options: float) -> int:
        """Submit a job and wait until the scheduler has heard of it."""
        job = self.cluster.submit(**options)  # type: ignore[arg-type]
        if self.site.waiting:
            self.cluster.jobs[job] = replace(self.cluster.jobs[job], partition=self.site.waiting[0])
        else:
            self.cluster.hold(job)
        if self.bridge.course.session.waiting is None:  # type: ignore[union-attr]
            self.talk.ask()
        self.look()
        return job

    def run(self, node: int = 0, **options: float) -> int:
        """Submit a job, and let it run on a node."""
        job = self.submit(**options)
        self.talk.decide(AllocateJob(job, [node]), wake_on=["job_started"])
        (event,) = self.look(1.0)
        assert isinstance(event, JobStarted)
        return job

    def look(self, after_s: float = 0.0) -> list[Event]:
        """Let time pass and the bridge look; return the events of the reply that is due.

        As in a step of the loop, replies are due before the look and after it.
        """
        self.cluster.advance(self.cluster.now_s + after_s)
        before = self.talk.due()
        self.bridge.note(self.cluster.state())
        return before + self.talk.due()
