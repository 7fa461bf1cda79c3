"""Connections that move between the front and the workers of a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from hpcosim_protocol import (
    Bye,
    ClientMessage,
    Decisions,
    Error,
    Events,
    GetStatus,
    Goodbye,
    Hello,
    ServerStatus,
    Welcome,
)
from hpcosim_server.service import front
from hpcosim_server.service.sessions import worker_of
from support.fronts import Guest, House, open_house, wired
from support.raw_zmtp import frame


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A server of a front and two workers."""
    with open_house(tmp_path) as house:
        yield house


@pytest.fixture
def guest(house: House) -> Iterator[Callable[[], Guest]]:
    """A function that connects a client."""
    guests: list[Guest] = []

    def connect() -> Guest:
        guests.append(Guest(house))
        return guests[-1]

    yield connect
    for each in guests:
        each.close()


Connect = Callable[[], Guest]


def request(session: str, seq: int = 1) -> Decisions:
    """Return a request without decisions."""
    return Decisions(session=session, seq=seq)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"type": "decisions", "session": "f" * 28, "seq": 1}, "unknown_session"),
        ({"type": "decisions", "session": "f" * 28, "seq": "x"}, "invalid_message"),
        ({"type": "unheard of"}, "invalid_message"),
        ({"type": "hello", "versions": [1]}, "message_too_large"),
    ],
)
def test_the_front_decodes_no_large_message(
    house: House,
    guest: Connect,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, object],
    code: str,
) -> None:
    """A worker says what is wrong with it, as it would with a small one."""

    def decode(data: bytes, _: int) -> None:
        raise AssertionError(f"the front decodes {len(data)} bytes")

    monkeypatch.setattr(front, "decode_request", decode)
    large = msgspec.msgpack.encode({**fields, "decisions": [{"type": "cancel_alarm"}] * 30_000})
    client = guest()
    client.send(frame(large))
    reply = client.reply()
    assert isinstance(reply, Error)
    assert reply.code == code


def test_messages_of_a_session_do_not_pass_through_the_front(house: House, guest: Connect) -> None:
    """After the hello, the worker answers while the front does nothing."""
    one, two = guest(), guest()
    sessions = [one.hello(), two.hello()]
    assert {worker_of(name) for name in sessions} == {1, 2}
    assert len(house.clients) == 0
    for client, session in zip((one, two), sessions, strict=True):
        client.with_front = False
        assert isinstance(client.ask(request(session)), Events)
        assert isinstance(client.ask(Bye(session=session)), Goodbye)


def test_a_connection_with_two_sessions_moves_between_their_workers(guest: Connect) -> None:
    """Each request reaches the worker of its session, and its reply comes back."""
    client = guest()
    one, two = client.hello(), client.hello()
    assert {worker_of(one), worker_of(two)} == {1, 2}
    for session in (one, two) * 3:
        assert isinstance(client.ask(request(session)), Events)


def test_the_front_answers_for_all_and_the_session_goes_on(house: House, guest: Connect) -> None:
    """The status of the server is asked for on the connection of a session."""
    client = guest()
    session = client.hello()
    status = client.ask(GetStatus())
    assert isinstance(status, ServerStatus)
    assert (status.workers, len(house.clients)) == (2, 1)
    assert isinstance(client.ask(request(session)), Events)
    assert len(house.clients) == 0


def test_requests_that_come_at_once_are_answered_in_order(guest: Connect) -> None:
    """They are of one session, of two, and of the server."""
    client = guest()
    one, two = client.hello(), client.hello()
    sent: list[ClientMessage] = [
        request(one),
        request(one),
        request(two),
        GetStatus(),
        request(one),
        request(two),
    ]
    client.send(b"".join(wired(each) for each in sent))
    kinds = [type(client.reply()) for _ in sent]
    assert kinds == [Events, Events, Events, ServerStatus, Events, Events]


@pytest.mark.parametrize("cut", [1, 2, 5, -1])
def test_a_request_that_has_arrived_in_part_moves_along(guest: Connect, cut: int) -> None:
    """The rest of it arrives at the next process."""
    client = guest()
    session = client.hello()
    data = wired(request(session))
    client.send(wired(GetStatus()) + data[:cut])
    assert isinstance(client.reply(), ServerStatus)
    client.send(data[cut:] + wired(Hello(versions=[1], client="guest"))[:cut])
    assert isinstance(client.reply(), Events)
    client.send(wired(Hello(versions=[1], client="guest"))[cut:])
    assert isinstance(client.reply(), Welcome)


def test_large_requests_move_along(guest: Connect) -> None:
    """What was read and not answered may be larger than a packet."""
    client = guest()
    one = client.hello()
    large = Hello(versions=[1], client="guest", overrides={"x": "y" * 300_000})
    client.send(wired(GetStatus()) + wired(large) + wired(request(one)))
    assert isinstance(client.reply(), ServerStatus)
    assert isinstance(client.reply(), Error)
    assert isinstance(client.reply(), Events)


def test_a_front_that_dies_interrupts_no_session(house: House, guest: Connect) -> None:
    """The next front finds the workers, their sessions and the nonces of their hellos."""
    client = guest()
    session = client.hello("mine")
    house.kill_front()
    client.with_front = False
    assert isinstance(client.ask(request(session)), Events)
    house.front, house.clients = house.new_front()
    house.until(lambda: not house.front.misses_workers)
    client.with_front = True
    assert client.hello("mine") == session
    assert worker_of(guest().hello()) != worker_of(session)
    assert isinstance(client.ask(GetStatus()), ServerStatus)


def test_without_a_front_a_request_for_it_waits(house: House, guest: Connect) -> None:
    """The next front answers it."""
    client = guest()
    client.hello()
    house.kill_front()
    client.with_front = False
    client.send(wired(GetStatus()))
    for _ in range(20):
        house.step(with_front=False)
    house.front, house.clients = house.new_front()
    client.with_front = True
    assert isinstance(client.reply(), ServerStatus)


def test_a_request_waits_for_a_worker_that_is_about_to_be_there(
    house: House, guest: Connect
) -> None:
    """It is answered when the worker is there; a session that is lost is unknown."""
    client = guest()
    session = client.hello()
    number = worker_of(session)
    house.workers.pop(number).close()
    client.send(wired(request(session)))
    for _ in range(20):
        house.step()
    house.workers[number] = house.new_worker(number)
    reply = client.reply()
    assert isinstance(reply, Error)
    assert reply.code == "unknown_session"


def test_a_session_of_a_worker_that_does_not_come_again_is_unknown(
    house: House, guest: Connect
) -> None:
    """The waiting request is answered when the supervisor has given the worker up."""
    client = guest()
    session = client.hello()
    number = worker_of(session)
    house.workers.pop(number).close()
    client.send(wired(request(session)))
    house.expect(3 - number)
    reply = client.reply()
    assert isinstance(reply, Error)
    assert reply.code == "unknown_session"
    assert f"unknown session '{session[:8]}'" in reply.message


def test_requests_for_a_busy_worker_are_bounded(
    house: House, guest: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection of one too many is closed; the others are answered in the end."""
    monkeypatch.setattr(front, "MOST_GIVEN_BYTES", 50)
    session = guest().hello()
    busy = house.workers.pop(worker_of(session))
    first, second = guest(), guest()
    first.send(wired(request(session)))
    house.until(lambda: len(house.clients) == 1)
    second.send(wired(request(session)))
    with pytest.raises(AssertionError, match="has closed"):
        second.reply()
    house.workers[worker_of(session)] = busy
    assert isinstance(first.reply(), Events)


def test_a_waiting_client_that_goes_opens_no_session(house: House, guest: Connect) -> None:
    """Its hello is forgotten with its connection."""
    workers = [house.workers.pop(number) for number in (1, 2)]
    for worker in workers:
        worker.close()
    house.until(lambda: house.front.misses_workers)
    client = guest()
    client.send(wired(Hello(versions=[1], client="guest")))
    house.until(lambda: len(house.clients) == 1)
    client.close()
    house.until(lambda: len(house.clients) == 0)
    house.workers = {number: house.new_worker(number) for number in (1, 2)}
    assert worker_of(guest().hello()) == 1
    assert [worker.service.counts.opened for worker in house.workers.values()] == [1, 0]


def test_a_worker_that_ends_gives_its_connections_back(house: House, guest: Connect) -> None:
    """A client keeps its connection, and opens its next session in another worker."""
    client = guest()
    session = client.hello()
    client.ask(Bye(session=session))
    house.workers.pop(worker_of(session)).close()
    house.until(lambda: len(house.clients) == 1)
    assert worker_of(client.hello()) == 3 - worker_of(session)


@pytest.mark.slow
def test_no_descriptor_is_left_over(house: House, guest: Connect) -> None:
    """Connections that come, move back and forth and go leave nothing behind."""
    host = guest()
    one, two = host.hello(), host.hello()

    def visit() -> None:
        client = Guest(house)
        client.send(wired(request(one)) + wired(request(two))[:5])
        client.reply()
        client.send(wired(request(two))[5:] + wired(GetStatus()))
        client.reply()
        client.close()

    for _ in range(3):
        visit()
    before = count_files()
    for _ in range(1000):
        visit()
    house.until(lambda: count_files() <= before)


def count_files() -> int:
    """Return the number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
