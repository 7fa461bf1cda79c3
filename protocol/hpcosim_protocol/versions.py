"""Version and edition of the protocol."""

PROTOCOL_VERSION = 1
PROTOCOL_EDITION = "1.9"
