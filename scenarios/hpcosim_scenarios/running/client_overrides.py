"""Values of a scenario that the clients of a server may change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from hpcosim_scenarios.model.signals import FILES
from hpcosim_server.errors import SessionRefused

# Paths that a client cannot set: files of the server's machine, and the name of the scenario.
SERVER_ONLY = (
    "name",
    "workload.swf",
    "workload.json",
    "workload.trace",
    "workload.synthetic.swf",
    "workload.synthetic.trace",
    "economics.tariff",
    "economics.series",
    *FILES,
)
SERVER_ONLY_LISTS = (
    "platform.nodes.",
    "platform.partitions.",
    "platform.reservations.",
    "platform.switches.",
    "workload.inline.",
    "failures.",
    "actions.",
)


def check_overrides(paths: Iterable[str], allowed: Sequence[str] | None) -> None:
    """Check that a client may change the values at paths.

    Args:
        paths: dotted paths in the scenario.
        allowed: patterns of the paths that clients may change, see `fnmatch`; None: all. The seed
            is always allowed; files of the server's machine never are.

    Raises:
        SessionRefused: it may not.
    """
    for path in paths:
        if path in SERVER_ONLY or path.startswith(SERVER_ONLY_LISTS):
            what = f"override {path}: only the server can set it"
            raise SessionRefused("invalid_scenario", what)
        if path == "seed" or allowed is None or any(fnmatchcase(path, one) for one in allowed):
            continue
        what = f"override {path}: this server does not allow it (--allow-override)"
        raise SessionRefused("invalid_scenario", what)
