"""Reader of the clusters in SimGrid platform files: host numbers and network."""

from __future__ import annotations

from collections.abc import Iterator

from hpcosim_batsim.inputs.platform_model import Star
from hpcosim_batsim.inputs.units import BANDWIDTHS, TIMES
from hpcosim_batsim.inputs.xml_tree import Element


def star_of(group: Element) -> Star | None:
    """Return the star network of a cluster; None: its network is not supported."""
    attributes = group.attributes
    if (
        group.tag != "cluster"
        or attributes.get("topology", "FLAT") != "FLAT"
        or "bw" not in attributes
    ):
        return None
    policy = attributes.get("sharing_policy", "SPLITDUPLEX")
    if policy not in ("SPLITDUPLEX", "FULLDUPLEX", "SHARED"):
        return None

    def bandwidth(name: str) -> float:
        bytes_per_s = group.amount(name, attributes[name], BANDWIDTHS, "125MBps")
        if bytes_per_s <= 0:
            raise group.error(f"{name}: expected a bandwidth > 0, got {attributes[name]!r}")
        return bytes_per_s

    def latency_s(name: str) -> float:
        return group.amount(name, attributes.get(name, "0s"), TIMES, "50us")

    return Star(
        bytes_per_s=bandwidth("bw"),
        split=policy != "SHARED",
        latency_s=latency_s("lat"),
        backbone_bytes_per_s=bandwidth("bb_bw") if "bb_bw" in attributes else None,
        backbone_latency_s=latency_s("bb_lat"),
    )


def numbers_of(group: Element) -> Iterator[int]:
    """Yield the numbers in the names of a group's hosts, in the order of its `radical`.

    Raises:
        InputError: `radical` is missing or invalid; names the line.
    """
    text = group.required("radical")
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            begin, end = int(first), int(last if dash else first)
        except ValueError:
            raise group.error(f"radical: expected a list such as 0-127,130, got {text!r}") from None
        if end < begin:
            raise group.error(f"radical: expected ascending intervals, got {part.strip()!r}")
        yield from range(begin, end + 1)
