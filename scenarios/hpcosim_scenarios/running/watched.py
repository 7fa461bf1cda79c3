"""A run that people watch while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hpcosim_scenarios.running.status import StatusReader
from hpcosim_server.service.observer import Watch


def _at_once(_: StatusReader) -> None:
    """Do not wait."""


class WatchedRun(NamedTuple):
    """How a run is watched; by default it is not.

    Attributes:
        server_options: additional arguments of `hpcosim serve`, with the transports of two
            processes.
        environment: additional environment variables of the server.
        before_scheduler: called with the status of the server; the scheduler starts when it
            returns.
        watch: observer and pace of the run, with the transport `inproc`.
        before_run: called before the run starts, with the transport `inproc`.
    """

    server_options: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    before_scheduler: Callable[[StatusReader], None] = _at_once
    watch: Watch | None = None
    before_run: Callable[[], None] = lambda: None
