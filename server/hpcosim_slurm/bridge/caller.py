"""The scheduler at the other end: where replies go, and since when it is silent."""

from __future__ import annotations

from hpcosim_server.service.held import Envelope
from hpcosim_server.wire.address import address_of, key_of


class Caller:
    """The scheduler of the open session.

    Attributes:
        envelope: return address of its last message; empty: it has sent none to this bridge.
        silent_since_s: Unix time since which it should say something, s; None: it need not.
    """

    def __init__(self, silent_since_s: float | None) -> None:
        self.envelope: Envelope = ()
        self.silent_since_s = silent_since_s
        self._address: bytes | None = None  # None: its connection is closed

    @property
    def is_connected(self) -> bool:
        """Whether its connection is open."""
        return self._address is not None

    def heard(self, envelope: Envelope) -> None:
        """Note the return address of a message."""
        self.envelope, self._address = envelope, address_of(envelope)

    def owns(self, envelope: Envelope) -> bool:
        """Return whether a message can be from it: with keys, only if it has the same key."""
        owner = key_of(address_of(self.envelope)) if self.envelope else b""
        return not owner or key_of(address_of(envelope)) == owner

    def left(self, address: bytes, now_s: float) -> bool:
        """Note that a connection was closed; return whether it was that of the scheduler."""
        if address != self._address:
            return False
        self._address = None
        if self.silent_since_s is None:
            self.silent_since_s = now_s
        return True

    def forget(self, silent_since_s: float | None) -> None:
        """Note that the session is over.

        Args:
            silent_since_s: the present time, s: nobody decides; None: nobody needs to.
        """
        self.envelope, self._address, self.silent_since_s = (), None, silent_since_s
