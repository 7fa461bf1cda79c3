"""The records of a bridge's journal: what happened, in order, as JSON objects, one a line.

The records are all that the state of the bridge depends on. A bridge that starts again lets them
happen once more, and has the same state.
"""

from __future__ import annotations

import msgspec

from hpcosim_protocol import Decisions, Hello
from hpcosim_slurm.worlds.difference import Change
from hpcosim_slurm.worlds.site import Site

FORMAT = 2
"""Number of the format; another one cannot be read."""


class Record(msgspec.Struct, frozen=True, tag_field="record", kw_only=True):
    """Base of the records.

    Attributes:
        at_s: Unix time, s.
    """

    at_s: float


class Began(Record, frozen=True, tag="began", kw_only=True):
    """The journal was begun. The first record of each journal.

    Attributes:
        format: number of the format.
        hpcosim: version of hpcosim.
        mode: `shadow`, `hold` or `place`.
        site: the part of the cluster that the scheduler sees.
    """

    format: int
    hpcosim: str
    mode: str
    site: Site


class Seen(Record, frozen=True, tag="seen", kw_only=True):
    """The cluster changed.

    Attributes:
        change: what changed.
    """

    change: Change


class Quiet(Record, frozen=True, tag="quiet", kw_only=True):
    """The bridge has looked at the cluster, and nothing had changed for a while."""


class Opened(Record, frozen=True, tag="opened", kw_only=True):
    """A scheduler opened a session.

    Attributes:
        session: secret name of the session.
        hello: the message of the scheduler.
    """

    session: str
    hello: Hello


class Asked(Record, frozen=True, tag="asked", kw_only=True):
    """The scheduler decided.

    Attributes:
        request: its message.
    """

    request: Decisions


class Replied(Record, frozen=True, tag="replied", kw_only=True):
    """The scheduler got the reply to its last request.

    Attributes:
        seq: number of the request.
    """

    seq: int


class CameBack(Record, frozen=True, tag="came_back", kw_only=True):
    """The scheduler resumed its session and got a snapshot."""


class Closed(Record, frozen=True, tag="closed", kw_only=True):
    """The session was closed.

    Attributes:
        why: the reason.
    """

    why: str


class Refused(Record, frozen=True, tag="refused", kw_only=True):
    """Slurm refused what a decision asked for.

    Attributes:
        seq: number of the request.
        index: position of the decision in it.
        words: what Slurm says.
    """

    seq: int
    index: int
    words: str


class FellBack(Record, frozen=True, tag="fell_back", kw_only=True):
    """The bridge stopped acting, and closed the session. From then on its mode is shadow.

    Attributes:
        why: the reason.
    """

    why: str


AnyRecord = Began | Seen | Quiet | Opened | Asked | Replied | CameBack | Closed | Refused | FellBack
