"""Run scenarios: in one process, in two processes, from a server, and with several schedulers."""

from typing import Literal

Wire = Literal["ipc", "tcp"]
"""Two processes, connected by a Unix socket or by TCP on the loopback interface."""

Transport = Literal["ipc", "tcp", "inproc"]
"""A wire, or `inproc`: both in one process. The results are the same bytes."""
