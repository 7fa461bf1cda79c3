"""Exceptions of the conformance kit."""

from __future__ import annotations

from hpcosim_protocol.errors import HpcosimError


class ConformanceError(HpcosimError):
    """Base class of the exceptions of this package."""


class CommandError(ConformanceError):
    """The command is invalid: unknown check, invalid address, program that does not start."""


class NoServerError(ConformanceError):
    """No server accepts connections at the address."""

    exit_status = 1


class BrokenRuleError(ConformanceError):
    """The peer broke a rule.

    Args:
        rule_id: id of the rule in the specification, such as `R-nonce`.
        what: the action of the peer, a clause with its subject.
    """

    def __init__(self, rule_id: str, what: str) -> None:
        super().__init__(rule_id, what)
        self.rule_id = rule_id
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} ({self.rule_id})"


class NotTriedError(ConformanceError):
    """The check does not apply to this peer, for example because of its scenario."""


def expect(holds: bool, rule_id: str, what: str) -> None:
    """Check a condition of a rule.

    Args:
        holds: the condition.
        rule_id: id of the rule that is broken if the condition is false.
        what: description of the fault.

    Raises:
        BrokenRuleError: the condition is false.
    """
    if not holds:
        raise BrokenRuleError(rule_id, what)
