"""Reader of the clusters in SimGrid platform files: host numbers and links."""

from __future__ import annotations

from collections.abc import Iterator

from hpcosim_batsim.inputs.link_xml import SPLIT, LinkTable, bandwidth, latency
from hpcosim_batsim.inputs.xml_tree import Element
from hpcosim_batsim.network.model import Attachment, Link, Links


def hosts_of(group: Element) -> Iterator[str]:
    """Yield the names of the hosts of a cluster or cabinet, in the order of its `radical`.

    Raises:
        InputError: `radical` is missing or invalid; names the line.
    """
    prefix, suffix = group.attributes.get("prefix", ""), group.attributes.get("suffix", "")
    return (f"{prefix}{number}{suffix}" for number in _numbers_of(group))


def router_of(cluster: Element) -> str:
    """Return the name of the router of a cluster."""
    prefix, suffix = cluster.attributes.get("prefix", ""), cluster.attributes.get("suffix", "")
    default = f"{prefix}{cluster.attributes.get('id', '')}_router{suffix}"
    return cluster.attributes.get("router_id") or default


def unsupported_cluster(cluster: Element) -> str:
    """Return why messages in a cluster cannot be simulated; "": they can."""
    topology = cluster.attributes.get("topology", "FLAT")
    if topology != "FLAT":
        return f"line {cluster.line}: a cluster with the topology {topology}"
    return "" if "bw" in cluster.attributes else f"line {cluster.line}: a cluster without bw"


def attach_cluster(cluster: Element, table: LinkTable) -> dict[str, Attachment]:
    """Add the links of a cluster and return how its hosts and its router are attached.

    As in SimGrid 3.32, both directions of a host's link share it with any `sharing_policy` but
    `SPLITDUPLEX`, the default.

    Raises:
        InputError: a bandwidth or latency is invalid; names the line.
    """
    attributes = cluster.attributes
    name = attributes.get("id", "")
    split = attributes.get("sharing_policy", "SPLITDUPLEX") in SPLIT
    link = Link("", bandwidth(cluster, "bw"), latency(cluster, "lat"))
    limiter = bandwidth(cluster, "limiter_link") if "limiter_link" in attributes else None
    loopback = None
    if "loopback_bw" in attributes:
        loop_s = latency(cluster, "loopback_lat")
        loopback = Link("", bandwidth(cluster, "loopback_bw"), loop_s, fatpipe=True)
    centre = _backbone(cluster, table)
    found = {router_of(cluster): Attachment(centre, centre)}
    for host in hosts_of(cluster):
        prefix = f"{name}_link_{host}"
        limit: Links = ()
        if limiter is not None:
            limit = (table.add(Link(f"{prefix}_limiter", limiter)).up,)
        ends = table.add(_named(link, prefix), split=split)
        loop = None if loopback is None else table.add(_named(loopback, f"{prefix}_loopback")).up
        found[host] = Attachment(
            (*limit, ends.up, *centre),
            (*centre, ends.down, *limit),
            None if loop is None else (loop,),
        )
    return found


def attach_cabinet(cabinet: Element, table: LinkTable) -> dict[str, Attachment]:
    """Add the links of a cabinet and return how its hosts are attached.

    Raises:
        InputError: a bandwidth or latency is invalid; names the line.
    """
    link = Link("", bandwidth(cabinet, "bw"), latency(cabinet, "lat"))
    found = {}
    for host in hosts_of(cabinet):
        ends = table.add(_named(link, f"link_{host}"), split=True)
        found[host] = Attachment((ends.up,), (ends.down,))
    return found


def _backbone(cluster: Element, table: LinkTable) -> Links:
    if "bb_bw" not in cluster.attributes:
        return ()
    policy = cluster.attributes.get("bb_sharing_policy", "SHARED")
    name = f"{cluster.attributes.get('id', '')}_backbone"
    bytes_per_s, latency_s = bandwidth(cluster, "bb_bw"), latency(cluster, "bb_lat")
    return (table.add(Link(name, bytes_per_s, latency_s, policy == "FATPIPE")).up,)


def _named(link: Link, name: str) -> Link:
    return Link(name, link.bytes_per_s, link.latency_s, link.fatpipe)


def _numbers_of(group: Element) -> Iterator[int]:
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
