"""Small clusters and workloads for a client to schedule: real simulations, in this process."""

from __future__ import annotations

from dataclasses import dataclass

from hpcosim_protocol import Hello, NodeGroup, Options, Placement, Platform, Processor
from hpcosim_server.engine.simulation import Rules, Simulation
from hpcosim_server.record.results import Run
from hpcosim_server.service.session import Opened, Session
from hpcosim_workloads.table import PLACEMENTS, job_table


@dataclass(frozen=True, slots=True)
class Job:
    """A job: its number, submission, run time and cores; see `JobTable`."""

    job_id: int
    submit_s: float
    run_s: float
    cores: int
    placement: Placement = "cores"


@dataclass(frozen=True, slots=True)
class World:
    """What a client is given to schedule.

    Attributes:
        jobs: in order of submission.
        platform: the cluster.
        wake_on_allocation: as the option.
    """

    jobs: tuple[Job, ...]
    platform: Platform
    wake_on_allocation: bool = False

    def session(self, hello: Hello) -> Session:
        """Return a new session of it."""
        jobs = job_table(
            job_id=[job.job_id for job in self.jobs],
            submit_s=[job.submit_s for job in self.jobs],
            run_s=[job.run_s for job in self.jobs],
            requested_s=[2.0 * job.run_s for job in self.jobs],
            cores=[job.cores for job in self.jobs],
            placement=[PLACEMENTS.index(job.placement) for job in self.jobs],
        )
        rules = Rules(wake_on_allocation=self.wake_on_allocation)
        run = Run(hpcosim="", scenario="conformance", scheduler=hello.client, seed=hello.seed or 0)
        options = Options(
            wake_on_allocation=self.wake_on_allocation,
            max_message_bytes=16 * 2**20,
            max_decisions=100_000,
            idle_timeout_s=600.0,
        )
        return Session(hello, Opened(Simulation(self.platform, jobs, rules), run, 0), options, 0.0)


def _processor(cores: int) -> Processor:
    return Processor(cores, 2.0, 40.0, 5.0, 0.5)


# Seven cores: nodes 0 and 1 of two, node 2 of three, on two processors.
MIXED = Platform(
    (NodeGroup(2, (_processor(2),)), NodeGroup(1, (_processor(2), _processor(1)))),
)

PLAIN = World(
    jobs=(
        Job(1, 1e6, 10.0, 1),
        Job(2, 1e6, 25.0, 2),
        Job(3, 1e6, 30.5, 7),  # the whole cluster: whoever counts cores wrong never starts it
        Job(4, 1e6 + 12.0, 10.0, 3),
        Job(5, 1e6 + 12.0, 40.0, 4),
        Job(6, 1e6 + 200.0, 5.0, 5),
        Job(7, 1e6 + 400.0, 60.0, 7),
    ),
    platform=MIXED,
)

# Numbers that a float64, and those that a signed number of 32 bits, can't hold.
LARGE_NUMBERS = World(
    jobs=tuple(
        Job(job_id, 5.0 * number, 20.0, 1 + number % 4)
        for number, job_id in enumerate((0, 2**53 + 1, 2**63 - 1, 2**53, 2**31, 2**32 + 5))
    ),
    platform=MIXED,
)

EVERY_PLACEMENT = World(
    jobs=(
        Job(1, 0.0, 50.0, 1, "whole_nodes"),
        Job(2, 0.0, 10.0, 2, "one_node"),
        Job(3, 0.0, 20.0, 4, "cores"),
        Job(4, 5.0, 20.0, 3, "one_node"),
        Job(5, 5.0, 20.0, 5, "whole_nodes"),
        Job(6, 6.0, 20.0, 2, "whole_nodes"),
        Job(7, 7.0, 20.0, 2, "one_node"),
        Job(8, 8.0, 20.0, 7, "cores"),
    ),
    platform=MIXED,
)

# So that an allocation may be rejected while others run, and while jobs are still to come.
TWO_AT_ONCE = World(
    jobs=(Job(1, 0.0, 30.0, 2), Job(2, 0.0, 50.0, 2), Job(3, 80.0, 10.0, 4), Job(4, 90.0, 5.0, 4)),
    platform=Platform((NodeGroup(2, (_processor(2),)),)),
)

MANY_AT_ONCE = World(
    jobs=tuple(Job(number, 0.0, 1.0 + number % 7, 1 + number % 2) for number in range(1, 2001)),
    platform=Platform((NodeGroup(500, (_processor(4),)),)),
)
