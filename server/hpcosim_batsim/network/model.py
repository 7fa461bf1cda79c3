"""Types of networks: links, and zones with routes between their members."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

Links = tuple[int, ...]
"""Links of a route in order, by their index in `Network.links`."""
ZoneKind = Literal["full", "star", "none"]


class Link(Struct, frozen=True):
    """A link.

    Attributes:
        name: its name.
        bytes_per_s: bandwidth, bytes/s.
        latency_s: latency, s.
        fatpipe: each message has the whole bandwidth; otherwise all messages share it.
    """

    name: str
    bytes_per_s: float
    latency_s: float = 0.0
    fatpipe: bool = False


class RouteEntry(Struct, frozen=True):
    """A route between two members of a zone.

    Attributes:
        links: its links.
        leaves: the host or router at which it leaves its first member, if that is a zone.
        enters: the host or router at which it enters its second member, if that is a zone.
    """

    links: Links
    leaves: str = ""
    enters: str = ""


class Attachment(Struct, frozen=True):
    """Links between a member of a star and the star's centre.

    Attributes:
        up: links from the member to the centre.
        down: links from the centre to the member.
        loopback: links of the member's messages to itself; None: they go to the centre and back.
    """

    up: Links
    down: Links
    loopback: Links | None = None


class Zone(Struct, frozen=True):
    """A zone of a platform.

    Attributes:
        name: its name.
        parent: the zone that contains it; "": none does.
        kind: `full`: a route for each pair of members. `star`: members are attached to a centre.
            `none`: messages take no time.
        pairs: routes by pair of members, of a `full` zone.
        attachments: links of each member, of a `star`.
    """

    name: str
    parent: str
    kind: ZoneKind
    pairs: Mapping[tuple[str, str], RouteEntry] = MappingProxyType({})
    attachments: Mapping[str, Attachment] = MappingProxyType({})


LOOPBACK = Link("__loopback__", 1e10, 0.0, fatpipe=True)
"""Link of a host's messages to itself in a `full` zone without a route for them (SimGrid 3.32)."""
