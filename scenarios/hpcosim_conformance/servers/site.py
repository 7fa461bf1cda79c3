"""Checks of a server: what jobs require, and on which nodes they may run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server_under_test import (
    Map,
    OpenSession,
    ServerUnderTest,
    of_kind,
    rejection_codes,
)
from hpcosim_protocol import NodeReservation
from hpcosim_protocol.node_access import first_window
from hpcosim_protocol.resources import provides


def workload_manager(server: ServerUnderTest) -> None:
    """The option `workload_manager` is true exactly if the hello had it."""
    options = [server.open(workload_manager=each).options for each in (False, True)]
    if "workload_manager" not in options[0]:
        raise NotTriedError("the server has no option workload_manager")
    got = [each["workload_manager"] for each in options]
    what = f"without and with workload_manager in hello, the option is {got}"
    expect(got == [False, True], "R-workload-manager", what)


def partitions(server: ServerUnderTest) -> None:
    """A job runs on nodes of one of its partitions only."""
    session = site_session(server)
    nodes_of = {
        each["name"]: set(_numbers(each["nodes"]))
        for each in session.welcome["platform"].get("partitions", ())
    }
    for job in session.waiting.values():
        names = set(job.get("partitions", ())) & set(nodes_of)
        inside = set().union(*(nodes_of[name] for name in names))
        for node, cores in enumerate(session.capacity):
            if names and node not in inside and cores >= job["cores"]:
                code = _code_of(session, job, node)
                what = f"allocating job {job['job_id']} node {node} outside its partitions"
                _expect_code(code, "constraint_violated", "R-constraints", what)
                return
    raise NotTriedError("no waiting job is too small for a node outside its partitions")


def devices(server: ServerUnderTest) -> None:
    """The server chooses free devices of the lowest numbers and gives none of them away twice."""
    session = site_session(server)
    jobs = [job for job in session.waiting.values() if request_of(job).get("gres_per_node")]
    for (one, other), node in _pairs_and_nodes(jobs, session):
        offers = _devices_by_node(session)[node]
        wanted = [request_of(job)["gres_per_node"] for job in (one, other)]
        names = {name for name in offers if all(_one_device(each, name) for each in wanted)}
        if len(names) != 1 or offers[min(names)] < 2:
            continue
        name = names.pop()
        again = start_on(other, node) | {"gres": [{name: [0]}]}
        events = session.decide(start_on(one, node), again)
        gres = [event.get("gres") for event in of_kind(events, "job_started")]
        what = f"on the empty node {node}, job {one['job_id']} got the devices {gres}"
        expect(gres == [[{name: [0]}]], "R-gres-choice", what)
        code = (*rejection_codes(events), "")[0]
        _expect_code(code, "insufficient_gres", "R-gres", "allocating a device a second time")
        return
    raise NotTriedError("no two waiting jobs need one device of the same node each")


def memory(server: ServerUnderTest) -> None:
    """Jobs on a node hold at most its memory."""
    session = site_session(server)
    if "memory" not in session.welcome["platform"].get("consumable", ()):
        raise NotTriedError("memory is not consumable in the scenario")
    sizes_mb = [
        group.get("memory_mb", 0.0)
        for group in session.welcome["platform"]["nodes"]
        for _ in range(group["count"])
    ]
    jobs = [job for job in session.waiting.values() if request_of(job).get("memory_per_node_mb")]
    for pair, node in _pairs_and_nodes(jobs, session):
        needed_mb = [request_of(job)["memory_per_node_mb"] for job in pair]
        if max(needed_mb) <= sizes_mb[node] < sum(needed_mb):
            _expect_second_rejected(session, pair, [node, node], "insufficient_memory", "R-memory")
            return
    raise NotTriedError("no two waiting jobs need more memory than one node has")


def licenses(server: ServerUnderTest) -> None:
    """Jobs hold at most the licences of the cluster."""
    session = site_session(server)
    total = session.welcome["platform"].get("licenses", {})
    for pair in combinations(session.waiting.values(), 2):
        one, other = (request_of(job).get("licenses", {}) for job in pair)
        node = max(range(len(session.capacity)), key=session.capacity.__getitem__)
        if session.capacity[node] < sum(job["cores"] for job in pair):
            continue
        if any(one.get(name, 0) + other.get(name, 0) > count for name, count in total.items()):
            code = "insufficient_licenses"
            _expect_second_rejected(session, pair, [node, node], code, "R-licenses")
            return
    raise NotTriedError("no two waiting jobs need more licences than the cluster has")


def reservations(server: ServerUnderTest) -> None:
    """A job that does not belong to a reservation does not run in its window."""
    session = site_session(server)
    for reservation in session.welcome["platform"].get("reservations", ()):
        nodes = set(_numbers(reservation["nodes"]))
        for job in session.waiting.values():
            if job.get("partitions") or request_of(job) or not nodes:
                continue
            node, end_s = min(nodes), session.now_s + job["requested_s"]
            if session.capacity[node] >= job["cores"] and _overlaps(
                reservation, session.now_s, end_s
            ):
                what = f"allocating job {job['job_id']} the reserved node {node}"
                _expect_code(_code_of(session, job, node), "reserved", "R-reserved", what)
                return
    raise NotTriedError("no waiting job overlaps a reservation at the first instant")


def site_session(server: ServerUnderTest) -> OpenSession:
    """Return a session with workload_manager after its first events.

    Raises:
        NotTriedError: the server has no workload managers.
    """
    session = server.open(workload_manager=True)
    if not session.options.get("workload_manager"):
        raise NotTriedError("the option workload_manager is not true")
    session.decide()
    return session


def request_of(job: Map) -> Map:
    """Return the request of a job; empty: it has none."""
    request: Map = job.get("request") or {}
    return request


def _numbers(ranges: Sequence[Sequence[int]]) -> Iterator[int]:
    for first, last in ranges:
        yield from range(first, last + 1)


def start_on(job: Map, node: int) -> Map:
    """Return the decision that starts a job on a node."""
    return {"type": "allocate_job", "job_id": job["job_id"], "nodes": [node]}


def _code_of(session: OpenSession, job: Map, node: int) -> str:
    """Return the code with which an allocation is rejected; empty: it is not."""
    return (*rejection_codes(session.decide(start_on(job, node), wake_on=["job_started"])), "")[0]


def _expect_code(code: str, expected: str, rule: str, what: str) -> None:
    expect(code == expected, rule, f"{what} led to {code or 'no rejection'}; expected {expected}")


def _expect_second_rejected(
    session: OpenSession, jobs: Sequence[Map], nodes: Sequence[int], code: str, rule: str
) -> None:
    """Start two jobs and check that the second allocation is rejected."""
    starts = [start_on(job, node) for job, node in zip(jobs, nodes, strict=True)]
    codes = rejection_codes(session.decide(*starts))
    what = f"starting jobs {[job['job_id'] for job in jobs]} on the nodes {list(nodes)}"
    expect(codes == [code], rule, f"{what} led to the codes {codes}; expected {code}")


def _pairs_and_nodes(
    jobs: Sequence[Map], session: OpenSession
) -> Iterator[tuple[tuple[Map, Map], int]]:
    """Yield two jobs and a node with enough cores for both."""
    for one, other in combinations(jobs, 2):
        for node, cores in enumerate(session.capacity):
            if cores >= one["cores"] + other["cores"]:
                yield (one, other), node


def _devices_by_node(session: OpenSession) -> list[dict[str, int]]:
    return [
        group.get("gres", {})
        for group in session.welcome["platform"]["nodes"]
        for _ in range(group["count"])
    ]


def _one_device(wanted: Map, name: str) -> bool:
    """Return whether a request is for exactly one device, which a device of this name meets."""
    return all(number == 1 and provides(name, each) for each, number in wanted.items())


def _overlaps(reservation: Map, start_s: float, end_s: float) -> bool:
    known = NodeReservation.__struct_fields__
    fields = {name: value for name, value in reservation.items() if name in known}
    return first_window(NodeReservation(**fields), start_s, end_s) is not None
