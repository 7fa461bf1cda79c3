"""Version of the protocol."""

PROTOCOL_VERSION = 1
