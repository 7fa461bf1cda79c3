"""What the command `hpcosim conformance` does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hpcosim_conformance.client_checks import SCRIPTS, check_client
from hpcosim_conformance.script import Waits
from hpcosim_conformance.server_checks import CHECKS, check_server
from hpcosim_conformance.subject import words_of
from hpcosim_conformance.verdict import Verdict
from hpcosim_scenarios.errors import CommandError


def try_client(
    command: str, only: Sequence[str] = (), *, wait_s: float = 20.0, late_s: float = 7.0
) -> Iterator[Verdict]:
    """Return what comes of each check of a client, as they are made.

    Args:
        command: the client's, parted as by a shell, `{address}` for the server's.
        only: names of checks; empty: all.
        wait_s: how long it may be silent, s.
        late_s: by how much answers come late, in checks of that, s.

    Raises:
        CommandError: the command is none, or there is no such check.
    """
    words = words_of(command)
    _check_names(only, [script.name for script in SCRIPTS])
    return check_client(words, Waits(wait_s, late_s), only)


def try_server(
    address: str, only: Sequence[str] = (), *, scenario: str = "", wait_s: float = 20.0
) -> Iterator[Verdict]:
    """Return what comes of each check of a server, as they are made.

    Args:
        address: where it listens.
        only: names of checks; empty: all.
        scenario: which of its scenarios; empty: its first.
        wait_s: how long an answer may take, s.

    Raises:
        CommandError: the address is none, or there is no such check.
    """
    _check_names(only, [check.name for check in CHECKS])
    return check_server(address, scenario, wait_s, only)


def _check_names(only: Sequence[str], known: Collection[str]) -> None:
    for name in only:
        if name not in known:
            raise CommandError(f"there is no check {name!r}; there are {', '.join(known)}")
