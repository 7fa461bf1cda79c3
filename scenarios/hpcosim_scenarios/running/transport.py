"""Transports between simulator and scheduler."""

from typing import Literal

Wire = Literal["ipc", "tcp"]
"""Two processes, connected by a Unix socket or by TCP on the loopback interface."""

Transport = Literal["ipc", "tcp", "inproc"]
"""A wire, or `inproc`: both in one process. The results are the same bytes."""
