"""The link to a server: messages out, messages in, and the clock of its timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hpcosim_client.socket_link import SocketLink, place_of

if TYPE_CHECKING:
    from hpcosim_protocol.keys import ClientKeys


class Link(Protocol):
    """A link that may lose, repeat, delay and reorder messages, but changes none."""

    @property
    def problem(self) -> str:
        """The known reason why there is no connection, such as a wrong key; empty: none."""

    def send(self, data: bytes) -> None:
        """Send a message, without waiting for the server."""

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next message; None: none came in time.

        Args:
            timeout_s: longest wait, wall-clock s.
        """

    def clock_s(self) -> float:
        """Return the time of a clock that never goes back, s."""

    def close(self) -> None:
        """Close the link."""


def new_link(address: str, send_s: float, keys: ClientKeys | None = None) -> Link:
    """Return a link to the address of a server.

    Args:
        address: ZeroMQ address, such as `tcp://127.0.0.1:28080`.
        send_s: longest time that `Link.send` waits for a server that does not read, s.
        keys: the keys for a server with keys; None: the server has none.

    Raises:
        AddressError: the address is invalid.
    """
    place = place_of(address)
    if keys is not None or place is None:
        from hpcosim_client.zmq_link import ZmqLink  # imports libzmq, which few clients need

        return ZmqLink(address, keys)
    return SocketLink(place, send_s)
