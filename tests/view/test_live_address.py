"""The addresses of the live view: names of the machine, URLs, and what is wrong."""

from __future__ import annotations

import socket
import threading

import pytest

from hpcosim.cli.live import speed_of
from hpcosim_view.errors import HttpBindError
from hpcosim_view.live.address import HttpAddress, listen, machine_names


@pytest.mark.parametrize("host", ["10.99.99.99", "nosuchhost.invalid"])
def test_an_address_of_another_machine_is_explained(host: str) -> None:
    """Another port would not help, so the message does not say so."""
    with pytest.raises(HttpBindError, match=r"give an address of this machine: 127\.0\.0\.1") as it:
        listen(HttpAddress(host, 18602))
    assert "another port" not in str(it.value)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://front.example.org:80/"),
        ("::", "http://front.example.org:80/"),
        ("10.1.2.3", "http://10.1.2.3:80/"),
        ("::1", "http://[::1]:80/"),
    ],
)
def test_the_url_of_all_addresses_has_the_name_of_the_machine(host: str, url: str) -> None:
    """A colleague can open the URL; an address of its own stays."""
    assert HttpAddress(host, 80).url(("front.example.org", "front")) == url


def test_a_slow_name_service_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer in time only the short name is known; localhost is no name for others."""
    asked = threading.Event()

    def slow() -> str:
        asked.wait(60)
        return "late.example.org"

    monkeypatch.setattr(socket, "gethostname", lambda: "Front")
    monkeypatch.setattr(socket, "getfqdn", slow)
    assert machine_names(0.01) == ("front",)
    asked.set()
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost.localdomain")
    assert machine_names() == ("front",)
    monkeypatch.setattr(socket, "getfqdn", lambda: "front.example.org")
    assert machine_names() == ("front.example.org", "front")


@pytest.mark.parametrize(("text", "speed"), [("MAX", None), ("Auto", "auto"), ("1e12", 1e12)])
def test_a_speed_is_a_number_or_a_word_in_any_case(text: str, speed: object) -> None:
    """`max` and `auto` may be written in capitals."""
    assert speed_of(text) == speed


def test_a_reply_does_not_wait_for_the_acknowledgement_of_the_last() -> None:
    """Nagle's algorithm would delay each reply of a connection by 40 ms."""
    listening, address = listen(HttpAddress("127.0.0.1", 0))
    with listening, socket.create_connection((address.host, address.port)):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
