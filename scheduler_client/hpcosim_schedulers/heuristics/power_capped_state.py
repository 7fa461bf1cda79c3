"""What EASY backfilling below a power cap keeps: between its passes and about the head."""

from __future__ import annotations

from dataclasses import dataclass, field

from hpcosim_client.job import Job
from hpcosim_client.signals import Signal
from hpcosim_schedulers.heuristics.power_bounds import PowerBounds
from hpcosim_schedulers.heuristics.power_now import PowerNow
from hpcosim_schedulers.heuristics.power_profile import PowerStep
from hpcosim_schedulers.heuristics.sleep_wait import SleepWait


@dataclass
class Kept:
    """What the scheduler keeps from pass to pass.

    Attributes:
        bounds: power of the nodes.
        now: power of the nodes now.
        always_on: whether no node can be switched.
        cap: the cap of the last pass; None: there was no pass.
        possible: numbers of jobs that fit alone below a cap that does not change.
        sleep: the wait for nodes to be switched off.
    """

    bounds: PowerBounds
    now: PowerNow
    always_on: bool
    cap: Signal | None = None
    possible: set[int] = field(default_factory=set)
    sleep: SleepWait = field(default_factory=SleepWait)


@dataclass
class Head:
    """The first job of the queue that does not fit now.

    Attributes:
        job: the job.
        start_s: its earliest start, simulated seconds; infinity: there is none; None: not computed.
        step: power at that time with the jobs started beside; None: not computed.
        waits_for_sleep: whether it waits until nodes are switched off.
    """

    job: Job
    start_s: float | None = None
    step: PowerStep | None = None
    waits_for_sleep: bool = False
