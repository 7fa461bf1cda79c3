"""Clusters of SimGrid's platform files: the hosts they stand for, and how these are linked."""

from __future__ import annotations

from collections.abc import Iterator

from hpcosim_batsim.inputs.platform_model import Star
from hpcosim_batsim.inputs.units import BANDWIDTHS, TIMES
from hpcosim_batsim.inputs.xml_tree import Element


def star_of(group: Element) -> Star | None:
    """Return how the hosts of a cluster are linked; None: in a way that is not modelled."""
    about = group.attributes
    if group.tag != "cluster" or about.get("topology", "FLAT") != "FLAT" or "bw" not in about:
        return None
    policy = about.get("sharing_policy", "SPLITDUPLEX")
    if policy not in ("SPLITDUPLEX", "FULLDUPLEX", "SHARED"):
        return None

    def bandwidth(name: str) -> float:
        bytes_per_s = group.amount(name, about[name], BANDWIDTHS, "125MBps")
        if bytes_per_s <= 0:
            raise group.wrong(f"{name} must be above 0")
        return bytes_per_s

    def latency_s(name: str) -> float:
        return group.amount(name, about.get(name, "0s"), TIMES, "50us")

    return Star(
        bytes_per_s=bandwidth("bw"),
        split=policy != "SHARED",
        latency_s=latency_s("lat"),
        backbone_bytes_per_s=bandwidth("bb_bw") if "bb_bw" in about else None,
        backbone_latency_s=latency_s("bb_lat"),
    )


def numbers_of(group: Element) -> Iterator[int]:
    """Yield the numbers in the names of a group's hosts, in the order of its `radical`.

    Raises:
        InputError: there is none, or it is no list of numbers; names the line.
    """
    text = group.need("radical")
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            begin, end = int(first), int(last if dash else first)
        except ValueError:
            raise group.wrong(f"the radical {text!r} is not a list such as 0-127,130") from None
        if end < begin:
            raise group.wrong(f"the radical has {part.strip()!r}, which goes backwards")
        yield from range(begin, end + 1)
