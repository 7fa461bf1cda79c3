"""Which worker gets a request."""

from __future__ import annotations

from hpcosim_server.service.control import Load
from hpcosim_server.service.routes import IDLE_WORKER_S, MOST_NONCES, Routes
from hpcosim_server.service.sessions import new_name

NOW_S = 100.0


def routes_of(*loads: Load) -> Routes:
    """Return routes with workers."""
    routes = Routes()
    for load in loads:
        routes.note(load, address_of(load.worker), NOW_S)
    return routes


def address_of(worker: int) -> bytes:
    """Return the address of a worker's connection."""
    return b"address %d" % worker


def number(found: object) -> int:
    """Return the number of a worker."""
    return getattr(found, "number", 0)


def test_a_session_goes_to_the_worker_in_its_name() -> None:
    """A name without a worker goes to the first one."""
    routes = routes_of(Load(1), Load(2), Load(300))
    for worker in (1, 2, 300):
        route, is_expected = routes.of_session(new_name(worker))
        assert (number(route), is_expected) == (worker, True)
    assert number(routes.of_session(new_name())[0]) == 1
    assert routes.of_session(new_name(7)) == (None, False)


def test_a_session_of_a_worker_that_is_away_waits_for_it() -> None:
    """The worker stays expected until the supervisor says otherwise."""
    routes = routes_of(Load(1), Load(2))
    routes.lose(address_of(2))
    assert routes.of_session(new_name(2)) == (None, True)
    assert routes.missing == {2}
    routes.expected = {1}
    assert routes.of_session(new_name(2)) == (None, False)


def test_free_workers_have_no_session_and_nothing_to_write() -> None:
    """An open session, results to write or a hello make a worker busy."""
    routes = routes_of(Load(1, 1, 1, 0), Load(2, 1, 0, 0), Load(3, 1, 0, 1), Load(4))
    assert [route.number for route in routes.free()] == [3, 4]
    routes.give(routes.free()[0], "", b"client", NOW_S)
    assert [route.number for route in routes.free()] == [4]
    assert routes.sessions == 2
    assert number(routes.fewest()) == 4


def test_a_hello_with_the_same_nonce_goes_to_the_same_worker() -> None:
    """The table of nonces is bounded, and a worker fills it for a new front."""
    routes = routes_of(Load(1), Load(2, 1, 1, 0, ("known",)))
    assert number(routes.of_nonce("known")[0]) == 2
    first = routes.free()[0]
    routes.give(first, "mine", b"client", NOW_S)
    assert number(routes.of_nonce("mine")[0]) == 1
    assert routes.of_nonce("") == (None, False)
    for each in range(MOST_NONCES):
        routes.give(first, str(each), b"client", NOW_S)
    assert routes.of_nonce("mine") == (None, False)


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
    routes.note(Load(1, 1, 1, 0), b"new", NOW_S)
    assert routes.at(address_of(1)) is None
    assert routes.lose(address_of(1)) is None
    assert number(routes.at(b"new")) == 1
    assert len(routes) == 1
