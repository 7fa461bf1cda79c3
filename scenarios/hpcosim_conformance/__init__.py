"""The conformance kit: checks any client or server against the rules of the protocol.

It simulates small scenarios with the peer. A failed check quotes the rule that the peer broke.

Example:
    >>> from hpcosim_conformance import conforms, report, try_server
    >>> conforms(report(try_server("tcp://127.0.0.1:28080"), as_json=False))  # doctest: +SKIP
    True
"""

from hpcosim_conformance.clients.client_checks import try_client
from hpcosim_conformance.errors import CommandError, ConformanceError, NoServerError
from hpcosim_conformance.servers.server_checks import try_server
from hpcosim_conformance.verdict import Rule, Verdict, conforms, report, rules

__all__ = [
    "CommandError",
    "ConformanceError",
    "NoServerError",
    "Rule",
    "Verdict",
    "conforms",
    "report",
    "rules",
    "try_client",
    "try_server",
]
