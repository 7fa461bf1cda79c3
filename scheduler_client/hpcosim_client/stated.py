"""Validation of the nodes, cores and devices that a policy states for a job."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from hpcosim_client.devices import Devices
from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_protocol import Platform

SHOWN = 80  # characters of a wrong value in a message


def check_nodes(job: Job, nodes: Sequence[int], count: int) -> None:
    """Check the nodes for a job.

    Args:
        job: the job, for the error.
        nodes: node numbers.
        count: number of nodes of the cluster.

    Raises:
        PolicyError: a node does not exist, is no whole number or occurs twice.
    """
    if not all(_is_whole(node) and 0 <= node < count for node in nodes):
        raise _wrong(job, f"nodes {_shown(nodes)}: expected numbers from 0 to {count - 1}")
    if len(set(nodes)) < len(nodes):
        raise _wrong(job, f"nodes {_shown(nodes)}: expected each node once")


def check_stated(
    job: Job,
    nodes: Sequence[int] | None,
    cores: Sequence[int] | None,
    gres: Devices,
    platform: Platform,
) -> None:
    """Check the cores and devices for a job.

    Args:
        job: the job.
        nodes: the nodes of the job; None: not stated.
        cores: cores on each node; None: not stated.
        gres: numbers of the devices on each node, by name of the resource; empty: not stated.
        platform: description of the cluster.

    Raises:
        PolicyError: the numbers are not one for each node, not above 0 or do not add up to those
            of the job, or no node has a resource of a name.
    """
    if cores is None:
        raise _wrong(job, "stated devices without cores: expected nodes=, cores= and gres=")
    if nodes is None:
        raise _wrong(job, "stated cores without nodes: expected nodes= and cores=")
    if len(cores) != len(nodes):
        raise _wrong(job, f"cores {_shown(cores)}: expected {len(nodes)} numbers, one per node")
    if not all(_is_whole(count) and count > 0 for count in cores) or sum(cores) != job.cores:
        what = f"expected numbers above 0 that add up to {job.cores}"
        raise _wrong(job, f"cores {_shown(cores)}: {what}")
    if gres and len(gres) != len(nodes):
        raise _wrong(job, f"gres of {len(gres)} nodes: expected {len(nodes)}, one per node")
    known = {name for group in platform.nodes for name in group.gres}
    for name in (name for devices in gres for name in devices):
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise _wrong(job, f"gres {name!r:.{SHOWN}}: the nodes have {names:.{SHOWN}}")


def _is_whole(number: object) -> bool:
    """Return whether a number is an integer, of Python or of NumPy."""
    try:
        index(number)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _shown(numbers: Sequence[object]) -> str:
    text = str([*numbers[:SHOWN]])
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _wrong(job: Job, what: str) -> PolicyError:
    return PolicyError(f"job {job.job_id} cannot start on {what}")
