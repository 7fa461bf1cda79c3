"""Errors of the conformance kit."""

from __future__ import annotations

from hpcosim_scenarios.errors import ScenariosError


class ConformanceError(ScenariosError):
    """Base of every error this package raises."""


class CommandError(ConformanceError):
    """The command line is wrong: an unknown check, a bad address, a program that does not start."""


class BrokenRuleError(ConformanceError):
    """The peer broke a rule.

    Args:
        rule_id: id of the rule in the specification, such as `R-nonce`.
        what: what the peer did.
    """

    def __init__(self, rule_id: str, what: str) -> None:
        super().__init__(rule_id, what)
        self.rule_id = rule_id
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} ({self.rule_id})"


class NotTriedError(ConformanceError):
    """This peer offers no occasion for the check. That is not a fault."""


def expect(holds: bool, rule_id: str, what: str) -> None:
    """Check a condition.

    Args:
        holds: the condition.
        rule_id: the rule that is broken if it does not hold.
        what: what the peer did in that case.

    Raises:
        BrokenRuleError: the condition does not hold.
    """
    if not holds:
        raise BrokenRuleError(rule_id, what)
