"""What came of each check, for people and for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hpcosim_conformance.rules import Rule
from hpcosim_scenarios.errors import ScenariosError

NAME_WIDTH = 30


class BrokenRuleError(ScenariosError):
    """The peer broke a rule.

    Args:
        rule: which.
        what: what it did.
    """

    def __init__(self, rule: Rule, what: str) -> None:
        super().__init__(rule, what)
        self.rule = rule
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} ({self.rule})"


class NotTriedError(ScenariosError):
    """A check can't be made of this peer, which is no fault of it."""


class Verdict(NamedTuple):
    """What came of a check.

    Attributes:
        check: its name.
        outcome: of one that was not tried nothing is known.
        rule: the rule that was broken, or that was tried.
        what: what the peer did, if it failed; else what is worth knowing.
        output: the last that a program printed, if it failed.
    """

    check: str
    outcome: Literal["passed", "failed", "not tried"]
    rule: Rule
    what: str = ""
    output: str = ""


def conforms(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether all that could be tried was passed, and something was."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return "passed" in outcomes and "failed" not in outcomes


def report(verdicts: Iterable[Verdict], *, as_json: bool) -> list[Verdict]:
    """Print verdicts, each as it comes where they are for people, and return them."""
    seen = []
    for verdict in verdicts:
        seen.append(verdict)
        if not as_json:
            sys.stdout.write("\n".join(_lines(verdict)) + "\n")
            sys.stdout.flush()
    sys.stdout.write(_as_json(seen) if as_json else f"\n{_sum(seen)}\n")
    return seen


def _lines(verdict: Verdict) -> Iterator[str]:
    note = "" if verdict.outcome == "failed" else verdict.what
    yield f"{verdict.outcome:10} {verdict.check:{NAME_WIDTH}} {note}".rstrip()
    if verdict.outcome == "failed":
        yield f"    {printable(verdict.what)}"
        yield f"    section {verdict.rule.section}, {verdict.rule.title}:"
        yield f'    "{verdict.rule.text}"'
        yield from (f"    | {printable(line)}" for line in verdict.output.splitlines())


def _sum(verdicts: Sequence[Verdict]) -> str:
    counts = {
        outcome: sum(verdict.outcome == outcome for verdict in verdicts)
        for outcome in ("passed", "failed", "not tried")
    }
    said = [f"{count} {outcome}" for outcome, count in counts.items()]
    return ", ".join(said if counts["not tried"] else said[:2])


def _as_json(verdicts: Sequence[Verdict]) -> str:
    checks: list[dict[str, Any]] = [
        {
            "check": verdict.check,
            "outcome": verdict.outcome,
            "rule": verdict.rule._asdict(),
            "what": verdict.what,
            "output": verdict.output,
        }
        for verdict in verdicts
    ]
    document = {"conforms": conforms(verdicts), "checks": checks}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def printable(text: str) -> str:
    """Return what a peer said without the characters that do something to a terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
