"""The verdict of each check, and the report on them for people or programs."""

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
        check: its name.
        outcome: `not tried`: the peer offers no occasion for the check.
        rule: the rule that was broken; else the rule that the check is about.
        what: what the peer did, if it failed; else a note, or empty.
        output: the last lines that a program printed, if it failed.
    """

    check: str
    outcome: Literal["passed", "failed", "not tried"]
    rule: Rule
    what: str = ""
    output: str = ""


def run_checks(
    checks: Mapping[str, Callable[[], Verdict]], only: Sequence[str]
) -> Iterator[Verdict]:
    """Return the verdict of each check, as the checks are made.

    Args:
        checks: make the checks, by name. The first is the plain case: if a peer fails it, the
            others would say nothing, and are not made.
        only: names of the checks to make; empty: all.

    Raises:
        CommandError: there is no check of such a name.
    """
    for name in only:
        if name not in checks:
            raise CommandError(f"there is no check {name!r}; there are {', '.join(checks)}")
    return _verdicts(checks, only or list(checks))


def _verdicts(
    checks: Mapping[str, Callable[[], Verdict]], names: Sequence[str]
) -> Iterator[Verdict]:
    plain = next(iter(checks))
    for name, make in checks.items():
        if name in names:
            verdict = make()
            yield verdict
            if name == plain and verdict.outcome == "failed":
                break


def conforms(verdicts: Sequence[Verdict]) -> bool:
    """Return whether at least one check passed and none failed."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return "passed" in outcomes and "failed" not in outcomes


def report(verdicts: Iterable[Verdict], *, as_json: bool) -> list[Verdict]:
    """Print verdicts on standard output and return them.

    Args:
        verdicts: may be an iterator over checks still to be made.
        as_json: print one JSON document at the end, instead of lines as the verdicts come.
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
    """Return a peer's text with the characters escaped that would act on a terminal."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
