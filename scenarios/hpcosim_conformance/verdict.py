"""Verdicts of the checks, and the report for people or programs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hpcosim_conformance.errors import CommandError
from hpcosim_conformance.rules import Rule

NAME_WIDTH = 30  # characters


class Verdict(NamedTuple):
    """The result of a check.

    Attributes:
        check: name of the check.
        outcome: `not tried`: the check does not apply to the peer.
        rule: the broken rule if the check failed, otherwise the rule that the check tests.
        what: description of the fault if the check failed, otherwise a note or empty.
        output: last lines of the output of the client program if the check failed.
    """

    check: str
    outcome: Literal["passed", "failed", "not tried"]
    rule: Rule
    what: str = ""
    output: str = ""


def run_checks(
    checks: Mapping[str, Callable[[], Verdict]], only: Sequence[str]
) -> Iterator[Verdict]:
    """Run checks and yield a verdict after each.

    Args:
        checks: functions that run the checks, by name. The first is the basic case: if the peer
            fails it, the others are not run, because they would fail too.
        only: names of the checks to run; empty: all checks.

    Raises:
        CommandError: a check does not exist.
    """
    for name in only:
        if name not in checks:
            raise CommandError(f"--only: no check {name!r}; expected one of {', '.join(checks)}")
    return _verdicts(checks, only or list(checks))


def _verdicts(
    checks: Mapping[str, Callable[[], Verdict]], names: Sequence[str]
) -> Iterator[Verdict]:
    basic = next(iter(checks))
    for name, run in checks.items():
        if name in names:
            verdict = run()
            yield verdict
            if name == basic and verdict.outcome == "failed":
                break


def conforms(verdicts: Sequence[Verdict]) -> bool:
    """Return whether at least one check passed and no check failed."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return "passed" in outcomes and "failed" not in outcomes


def report(verdicts: Iterable[Verdict], *, as_json: bool) -> list[Verdict]:
    """Print verdicts on standard output and return them.

    Args:
        verdicts: the verdicts; an iterator can run each check when its verdict is needed.
        as_json: print one JSON document at the end instead of lines after each verdict.
    """
    seen = []
    for verdict in verdicts:
        seen.append(verdict)
        if not as_json:
            sys.stdout.write("\n".join(_lines(verdict)) + "\n")
            sys.stdout.flush()
    sys.stdout.write(_as_json(seen) if as_json else f"\n{_summary(seen)}\n")
    return seen


def _lines(verdict: Verdict) -> Iterator[str]:
    failed, rule = verdict.outcome == "failed", verdict.rule
    note = "" if failed else verdict.what
    yield f"{verdict.outcome:10} {verdict.check:{NAME_WIDTH}} {note}".rstrip()
    if failed:
        yield f"    {_printable(verdict.what)}"
        yield f"    {rule.id}, section {rule.section}, {rule.title}:"
        yield f'    "{rule.text}"'
        yield from (f"    | {_printable(line)}" for line in verdict.output.splitlines())


def _summary(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.outcome for verdict in verdicts)
    not_tried = f", {counts['not tried']} not tried" if counts["not tried"] else ""
    return f"{counts['passed']} passed, {counts['failed']} failed{not_tried}"


def _as_json(verdicts: Sequence[Verdict]) -> str:
    checks: list[dict[str, Any]] = [
        verdict._asdict() | {"rule": verdict.rule._asdict()} for verdict in verdicts
    ]
    document = {"conforms": conforms(verdicts), "checks": checks}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _printable(text: str) -> str:
    """Return a text of the peer with control characters escaped."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
