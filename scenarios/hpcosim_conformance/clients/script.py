"""The script of one check of a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from hpcosim_conformance.clients.replies import Map, unchanged
from hpcosim_protocol import (
    Dependency,
    Hello,
    JobRequest,
    NodeGroup,
    Options,
    Placement,
    Platform,
    Processor,
)
from hpcosim_server.service.session import Opened, Session
from hpcosim_server.service.sessions import new_name
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import NO_SITE_EVENTS, JobAction, SiteEvents
from hpcosim_sim.record.results import Run
from hpcosim_workloads.table import PLACEMENTS, job_table

NO_REQUEST = -1  # as in the column `JobTable.request`


class SmallJob(NamedTuple):
    """A job. The attributes are those of `JobTable`."""

    job_id: int
    submit_s: float
    run_s: float
    cores: int
    placement: Placement = "cores"


@dataclass(frozen=True, slots=True)
class SmallScenario:
    """A cluster and its jobs.

    Attributes:
        jobs: the jobs, in order of submission.
        requests: requests of jobs, by job number.
        site_events: what happens without the client.
    """

    jobs: tuple[SmallJob, ...]
    platform: Platform
    requests: Mapping[int, JobRequest] = field(default_factory=dict)
    site_events: SiteEvents = NO_SITE_EVENTS

    def session(self, hello: Hello) -> Session:
        """Return a new session that simulates the scenario in this process."""
        numbered = list(self.requests)
        job_id, submit_s, run_s, cores, placement = zip(*self.jobs, strict=True)
        jobs = job_table(
            job_id=job_id,
            submit_s=submit_s,
            run_s=run_s,
            requested_s=[2.0 * each for each in run_s],
            cores=cores,
            placement=[PLACEMENTS.index(each) for each in placement],
            request=[
                numbered.index(each) if each in self.requests else NO_REQUEST for each in job_id
            ],
            requests=tuple(self.requests.values()),
        )
        run = Run(hpcosim="", scenario="conformance", scheduler=hello.client, seed=hello.seed or 0)
        options = Options(
            workload_manager=hello.workload_manager,
            max_message_bytes=16 * 2**20,
            max_decisions=100_000,
            idle_timeout_s=600.0,
        )
        simulation = Simulation(self.platform, jobs, site_events=self.site_events)
        return Session(new_name(), hello, Opened(simulation, run, 0), options, 0.0)


def _processor(cores: int) -> Processor:
    return Processor(cores, 2.0, 40.0, 5.0, 0.5)


# Seven cores: nodes 0 and 1 have two cores, node 2 has three on two processors.
MIXED = Platform(
    (NodeGroup(2, (_processor(2),)), NodeGroup(1, (_processor(2), _processor(1)))),
)

PLAIN = SmallScenario(
    jobs=(
        SmallJob(1, 1e6, 10.0, 1),
        SmallJob(2, 1e6, 25.0, 2),
        SmallJob(3, 1e6, 30.5, 7),  # all cores: a client that miscounts them never starts it
        SmallJob(4, 1e6 + 12.0, 10.0, 3),
        SmallJob(5, 1e6 + 12.0, 40.0, 4),
        SmallJob(6, 1e6 + 200.0, 5.0, 5),
        SmallJob(7, 1e6 + 400.0, 60.0, 7),
    ),
    platform=MIXED,
)

# Job numbers that exceed a float64 or a signed 32-bit integer.
LARGE_NUMBERS = SmallScenario(
    jobs=tuple(
        SmallJob(job_id, 5.0 * number, 20.0, 1 + number % 4)
        for number, job_id in enumerate((0, 2**53 + 1, 2**63 - 1, 2**53, 2**31, 2**32 + 5))
    ),
    platform=MIXED,
)

EVERY_PLACEMENT = SmallScenario(
    jobs=(
        SmallJob(1, 0.0, 50.0, 1, "whole_nodes"),
        SmallJob(2, 0.0, 10.0, 2, "one_node"),
        SmallJob(3, 0.0, 20.0, 4, "cores"),
        SmallJob(4, 5.0, 20.0, 3, "one_node"),
        SmallJob(5, 5.0, 20.0, 5, "whole_nodes"),
        SmallJob(6, 6.0, 20.0, 2, "whole_nodes"),
        SmallJob(7, 7.0, 20.0, 2, "one_node"),
        SmallJob(8, 8.0, 20.0, 7, "cores"),
    ),
    platform=MIXED,
)

# The rejected allocation happens while another job runs and before further submissions.
TWO_AT_ONCE = SmallScenario(
    jobs=(
        SmallJob(1, 0.0, 30.0, 2),
        SmallJob(2, 0.0, 50.0, 2),
        SmallJob(3, 80.0, 10.0, 4),
        SmallJob(4, 90.0, 5.0, 4),
    ),
    platform=Platform((NodeGroup(2, (_processor(2),)),)),
)

MANY_AT_ONCE = SmallScenario(
    jobs=tuple(
        SmallJob(number, 0.0, 1.0 + number % 7, 1 + number % 2) for number in range(1, 2001)
    ),
    platform=Platform((NodeGroup(500, (_processor(4),)),)),
)

# Job 2 waits for job 1, job 3 for a time, job 4 for its release. A client that starts one of them
# earlier has a core for it.
NOT_ELIGIBLE = SmallScenario(
    jobs=(
        SmallJob(1, 0.0, 30.0, 2),
        SmallJob(2, 0.0, 10.0, 1),
        SmallJob(3, 0.0, 20.0, 2),
        SmallJob(4, 0.0, 20.0, 3),
        SmallJob(5, 40.0, 5.0, 7),
    ),
    platform=MIXED,
    requests={
        2: JobRequest(dependencies=(Dependency("afterok", (1,)),)),
        3: JobRequest(begin_s=100.0),
        4: JobRequest(hold=True),
    },
    site_events=SiteEvents(job_actions=(JobAction(at_s=60.0, job_id=4, kind="release"),)),
)

# Users cancel jobs 2 and 4, which wait: job 2 at the head of the queue, job 4 at its end.
CANCELLED = SmallScenario(
    jobs=(
        SmallJob(1, 0.0, 30.0, 4),
        SmallJob(2, 1.0, 10.0, 7),
        SmallJob(3, 2.0, 20.0, 7),
        SmallJob(4, 3.0, 20.0, 2),
        SmallJob(5, 20.0, 5.0, 3),
    ),
    platform=MIXED,
    site_events=SiteEvents(
        job_actions=(
            JobAction(at_s=10.0, job_id=4, kind="cancel"),
            JobAction(at_s=15.0, job_id=2, kind="cancel"),
        )
    ),
)

# Users requeue job 1, which runs, with a later begin for its next run, and hold job 3 for a while.
REQUEUED = SmallScenario(
    jobs=(
        SmallJob(1, 0.0, 30.0, 7),
        SmallJob(2, 5.0, 10.0, 2),
        SmallJob(3, 6.0, 10.0, 7),
        SmallJob(4, 60.0, 10.0, 5),
    ),
    platform=MIXED,
    requests={1: JobRequest(requeue=True)},
    site_events=SiteEvents(
        job_actions=(
            JobAction(at_s=10.0, job_id=1, kind="requeue", begin_s=50.0),
            JobAction(at_s=11.0, job_id=3, kind="hold"),
            JobAction(at_s=40.0, job_id=3, kind="release"),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Script:
    """The script of one check of a client.

    Replies are numbered: the welcome is 0, the others have the `seq` of their request.

    Attributes:
        rule: id of the rule that the check tests. A client that does not complete the script
            broke this rule unless it broke another rule before.
        scenario: the cluster and the jobs to schedule.
        alter: returns the replacement of a reply: a message or the bytes of a body.
        stops_at: number of the reply after which the client must stop. Only this reply is
            altered. None: all replies are altered, and the simulation continues to its end.
        pack: encodes a message.
        withheld: numbers of the delayed replies.
        holds: whether the kit sends `held` before a delayed reply to a client that understands it.
        rejects_once: whether the kit rejects the first allocation.
        explains: value of the option `explain`.
        knows_workload_managers: whether the kit's server knows `workload_manager`.
    """

    name: str
    rule: str
    scenario: SmallScenario = PLAIN
    alter: Callable[[Map], Map | bytes] = unchanged
    stops_at: int | None = None
    pack: Callable[[Map], bytes] = msgspec.msgpack.encode
    withheld: frozenset[int] = frozenset()
    holds: bool = False
    rejects_once: bool = False
    explains: bool = False
    knows_workload_managers: bool = True

    def altered(self, number: int, reply: Map) -> Map | bytes:
        """Return the altered reply of a number."""
        return self.alter(reply) if self.stops_at in (None, number) else reply
