"""The state of a bridge: what the records of its journal have done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hpcosim_protocol import encode
from hpcosim_slurm.bridge.session import SchedulerSession
from hpcosim_slurm.ledger.records import (
    AnyRecord,
    Asked,
    Began,
    CameBack,
    Closed,
    FellBack,
    Opened,
    Refused,
    Replied,
    Seen,
)
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.worlds.difference import NO_STATE, applied
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.shadow import ShadowWorld, World
from hpcosim_slurm.worlds.site import Site

MakeWorld = Callable[[ClusterState, Site], World]
"""Returns a world for a new session."""


class Course:
    """The state of a bridge.

    A bridge makes a record of all that happens, appends it to its journal, and lets it happen here.
    A bridge that starts again lets all records happen first.

    Args:
        site: the part of the cluster that the scheduler sees.
        make_world: makes the world of each session.

    Attributes:
        site: see above.
        state: the cluster as it was last seen.
        session: the open session; None: there is none.
        sessions_over: number of closed sessions.
        last_s: time of the last record, s.
        fell_back: whether the bridge has stopped acting, so that new sessions see a shadow.
        suspended: jobs that schedulers had suspended when their sessions ended.
    """

    def __init__(self, site: Site, make_world: MakeWorld) -> None:
        self.site = site
        self.state = NO_STATE
        self.session: SchedulerSession | None = None
        self.sessions_over = 0
        self.last_s = 0.0
        self.fell_back = False
        self.suspended: frozenset[int] = frozenset()
        self._make_world = make_world

    def happen(self, record: AnyRecord) -> bytes:
        """Let a record happen.

        Returns:
            The encoded reply to the scheduler; empty: it gets none now.
        """
        self.last_s = max(self.last_s, record.at_s)
        if isinstance(record, Seen):
            self.state = applied(self.state, record.change)
            self.suspended &= {
                job.id for job in self.state.jobs.values() if job.state == "suspended"
            }
            if self.session is not None:
                self.session.world.note(record.change)
        elif isinstance(record, Opened):
            return self._open(record)
        elif isinstance(record, Closed | FellBack):
            self.fell_back = self.fell_back or isinstance(record, FellBack)
            if self.session is not None and isinstance(self.session.world, LiveWorld):
                self.suspended |= self.session.world.to_resume()
            self.sessions_over += self.session is not None
            self.session = None
        elif self.session is None or isinstance(record, Began):
            return b""
        elif isinstance(record, Asked):
            self.session.decide(record.request, record.at_s)
        elif isinstance(record, Replied):
            return self.session.reply(record.at_s)
        elif isinstance(record, CameBack):
            self.session.world.pass_to(record.at_s)
            return self.session.come_back()
        elif isinstance(record, Refused) and isinstance(self.session.world, LiveWorld):
            self.session.world.refused(record.seq, record.index, record.words)
        return b""

    def _open(self, record: Opened) -> bytes:
        make_world = ShadowWorld if self.fell_back else self._make_world
        world = make_world(replace(self.state, at_s=record.at_s), self.site)
        self.session = SchedulerSession(record.session, record.hello, world, self.site.name)
        return encode(self.session.welcome())
