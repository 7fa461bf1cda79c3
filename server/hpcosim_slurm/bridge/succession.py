"""A scheduler that replaces another one waits until Slurm has started the jobs of the other."""

from __future__ import annotations

from hpcosim_protocol import Hello
from hpcosim_server.service.held import Envelope
from hpcosim_slurm.bridge.course import Course
from hpcosim_slurm.worlds.live import LiveWorld


class Succession:
    """The hello of a scheduler that waits for its turn.

    The scheduler would see the jobs that were placed by the one before wait, and their nodes free,
    and start them a second time.

    Args:
        course: the state of the bridge.
    """

    def __init__(self, course: Course) -> None:
        self._course = course
        self._starting: frozenset[int] = frozenset()  # jobs of a scheduler that is gone
        self._waiting: tuple[Hello, Envelope, float] | None = None  # until then at the latest

    def note(self) -> None:
        """Note which jobs of the open session Slurm still starts."""
        session = self._course.session
        if session is not None and isinstance(session.world, LiveWorld):
            self._starting = session.world.promised()

    def postpones(self, hello: Hello, envelope: Envelope, now_s: float) -> bool:
        """Return whether a hello must wait; if so, keep it."""
        until_s = now_s + self._course.site.start_timeout_s
        if self._waiting is not None:  # it repeats its hello
            until_s = self._waiting[2]
        if not self._must_wait(until_s, now_s):
            return False
        self._waiting = (hello, envelope, until_s)
        return True

    def take(self, now_s: float) -> tuple[Hello, Envelope] | None:
        """Return the hello whose turn it is; None: there is none."""
        if self._waiting is None or self._must_wait(self._waiting[2], now_s):
            return None
        (hello, envelope, _), self._waiting = self._waiting, None
        return hello, envelope

    def _must_wait(self, until_s: float, now_s: float) -> bool:
        self.note()
        jobs = self._course.state.jobs
        is_pending = any(job in jobs and jobs[job].state == "pending" for job in self._starting)
        return is_pending and now_s < until_s
