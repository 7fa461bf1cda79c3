"""Which worker gets a request."""

from __future__ import annotations

from collections import defaultdict
from typing import cast

from hpcosim_protocol import Bye, Decisions, GetStatus, Hello, encode
from hpcosim_server.service.control import Load, WorkerReport
from hpcosim_server.service.front import (
    IDLE_WORKER_S,
    MOST_NONCES,
    SILENT_S,
    PendingHandover,
    Routes,
    WorkerRoute,
)
from hpcosim_server.service.sessions import destination, new_name
from hpcosim_server.wire.post import Post

NOW_S = 100.0


class Posted:
    """A connection to a worker that only counts packets."""

    def __init__(self) -> None:
        self.sent = 0

    def __call__(self) -> Post:
        """Return the connection."""
        return cast(Post, self)


POSTS = defaultdict[int, Posted](Posted)
"""A connection to each worker."""


def routes_of(*loads: Load) -> Routes:
    """Return routes with workers."""
    routes = Routes()
    for load in loads:
        routes.note(WorkerReport(load, 0), POSTS[load.worker](), NOW_S)
    return routes


def give(routes: Routes, route: WorkerRoute, packet: int, nonce: str = "") -> None:
    """Give a worker a packet with a hello."""
    route.given.append(PendingHandover(packet, 100))
    routes.give(route, nonce, NOW_S)


def number(found: object) -> int:
    """Return the number of a worker."""
    return getattr(found, "number", 0)


def test_a_worker_that_is_away_is_expected() -> None:
    """The worker stays expected until the supervisor says otherwise."""
    routes = routes_of(Load(1), Load(2))
    assert number(routes.by_number.get(2)) == 2
    routes.lose(POSTS[2]())
    assert routes.by_number.get(2) is None
    assert routes.missing == {2}
    routes.expected = {1}
    assert not routes.missing


def test_free_workers_have_no_session_and_nothing_to_write() -> None:
    """An open session, results to write or a hello make a worker busy."""
    routes = routes_of(Load(1, 1, 1, 0), Load(2, 1, 0, 0), Load(3, 1, 0, 1), Load(4))
    assert [route.number for route in routes.free()] == [3, 4]
    give(routes, routes.free()[0], 1)
    assert [route.number for route in routes.free()] == [4]
    assert routes.sessions == 2
    assert number(routes.fewest(NOW_S)) == 4


def test_a_worker_that_tells_nothing_gets_the_last_hellos() -> None:
    """A worker that hangs or computes for long comes after one with more sessions."""
    routes = routes_of(Load(1, 1, 1, 0), Load(2, 2, 2, 0))
    assert number(routes.fewest(NOW_S)) == 1
    routes.note(WorkerReport(Load(2, 2, 2, 0), 0), POSTS[2](), later_s := NOW_S + 2 * SILENT_S)
    assert number(routes.fewest(later_s)) == 2


def test_a_hello_counts_until_its_worker_has_handled_it() -> None:
    """A worker tells how many packets it has handled; later ones still count."""
    routes = routes_of(Load(1))
    (route,) = routes.free()
    give(routes, route, 3)
    route.given.append(PendingHandover(4, 100))
    give(routes, route, 5)
    assert (routes.sessions, route.given_bytes) == (2, 300)
    for heard, hellos, size in ((2, 2, 300), (4, 1, 100), (5, 0, 0)):
        routes.note(WorkerReport(Load(1), heard), POSTS[1](), NOW_S)
        assert (routes.sessions, route.given_bytes) == (hellos, size)


def test_a_hello_with_the_same_nonce_goes_to_the_same_worker() -> None:
    """The table of nonces is bounded, and a worker fills it for a new front."""
    routes = routes_of(Load(1))
    routes.note(WorkerReport(Load(2, 1, 1, 0), 0, ("known",)), POSTS[2](), NOW_S)
    assert routes.of_nonce("known") == 2
    first = routes.free()[0]
    give(routes, first, 1, "mine")
    assert routes.of_nonce("mine") == 1
    assert routes.of_nonce("") == 0
    for each in range(MOST_NONCES):
        give(routes, first, each, str(each))
    assert routes.of_nonce("mine") == 0


def test_idle_workers_end_but_one() -> None:
    """Only workers without sessions end, after some time."""
    routes = routes_of(Load(1), Load(2, 1, 1, 0), Load(3), Load(4))
    assert routes.idle(NOW_S + IDLE_WORKER_S) == []
    idle = routes.idle(NOW_S + IDLE_WORKER_S + 1)
    assert [route.number for route in idle] == [3, 4]
    idle[0].is_leaving = True
    assert [route.number for route in routes.free()] == [1, 4]


def test_a_worker_that_connects_again_replaces_its_connection() -> None:
    """The old connection is forgotten, whichever is closed first."""
    routes = routes_of(Load(1))
    new = Posted()()
    routes.note(WorkerReport(Load(1, 1, 1, 0), 0), new, NOW_S)
    assert routes.at(POSTS[1]()) is None
    assert routes.lose(POSTS[1]()) is None
    assert number(routes.at(new)) == 1
    assert len(routes) == 1


def test_the_destination_of_a_request() -> None:
    """The name of a session has its worker; a name without one, or with 0, is of the first."""
    for name, worker in ((new_name(300), 300), (new_name(), 1), ("x", 1)):
        for request in (Decisions(session=name, seq=1), Bye(session=name)):
            assert destination(encode(request)) == worker
        assert destination(encode(Hello(versions=[1], session=name))) == worker
    assert destination(encode(Hello(versions=[1]))) == 0
    assert destination(encode(GetStatus())) == 0
    for nonsense in (b"", b"nonsense", encode(Bye(session=""))):
        assert destination(nonsense) is None
