"""What can lie between simulator and scheduler."""

from typing import Literal

Wire = Literal["ipc", "tcp"]
"""Two processes: over a Unix socket, or over TCP on the loopback."""

Transport = Literal["ipc", "tcp", "inproc"]
"""A wire, or `inproc`: both in one process. The results are the same to the last byte."""
