"""Verdicts of the checks, and the report for people or programs."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

import msgspec

from hpcosim_conformance.errors import CommandError

NAME_WIDTH = 30  # characters


_HEADING = re.compile(r"#+ ([\d.]*\d)\.? (.+)")
_MARK = re.compile(r"\[(R-[a-z-]+)\]")
# A block ends at an empty line and before a list item, a table row or a heading.
_END_OF_BLOCK = re.compile(r"\n(?=\s*\n|- |\d+\. |\||#)")

_NEEDS_TRUE_RUN_TIMES = "No message contains the operations of a job."
_NEEDS_SUCH_A_SITE = "It requires a special scenario. The tests of this server have one."
_STOPS_THE_SERVER = "A check would stop the server or block it for other clients."

NOT_TRIED: Mapping[str, str] = {
    "R-start-is-an-event": "The kit starts a job immediately if its nodes are on.",
    "R-shutting-down": _STOPS_THE_SERVER,
    "R-too-many-sessions": _STOPS_THE_SERVER,
    "R-invalid-scenario": "The allowed overrides and seeds depend on the server.",
    "R-paths": "The allowed overrides depend on the server.",
    "R-reconnect": "The kit uses one connection for each check.",
    "R-order-of-events": _NEEDS_SUCH_A_SITE,
    "R-walltime": "The option is set in the scenario.",
    "R-over": "The check `end` tests the end of a simulation, not each condition.",
    "R-stuck-rejected": "It requires a thousand requests.",
    "R-stuck-signals": "It requires ten thousand changes of a signal.",
    "R-too-large-job": "It requires a workload with such a job.",
    "R-task-speed": _NEEDS_TRUE_RUN_TIMES,
    "R-contention": _NEEDS_TRUE_RUN_TIMES,
    "R-contention-constants": "The rule is for scenarios.",
    "R-power": "The power is in the results of the server, not in its messages.",
    "R-energy-estimate": "The rule is a recommendation for schedulers.",
    "R-held-only": "No message slows a simulation down.",
    "R-idle": "A check would last as long as `idle_timeout_s`.",
    "R-newer-decisions": "The rule of each such decision has a check, as R-explain-option.",
    "R-explain-again": "The explanations are in the results of the server, not in its messages.",
    "R-work": _NEEDS_TRUE_RUN_TIMES,
    "R-minimal-events": "Other checks test each event and field.",
}
"""Rules without a check, by id, with the reason."""


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


class Rule(NamedTuple):
    """A rule of the specification.

    Attributes:
        id: id, such as `R-nonce`.
        section: number of the section.
        title: heading of the section.
        text: text without line breaks; for a rule in a table, it begins with the first cell of
            the row.
    """

    id: str
    section: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.id}, section {self.section}, {self.title}: {self.text}"


@cache
def rules() -> Mapping[str, Rule]:
    """Return the rules of the installed specification, by id."""
    text = resources.files("hpcosim_protocol").joinpath("specification.md").read_text("utf-8")
    return {rule.id: rule for rule in _rules_in(text)}


def _rules_in(specification: str) -> Iterator[Rule]:
    section = title = ""
    for block in map(str.strip, _END_OF_BLOCK.split(specification)):
        heading = _HEADING.match(block)
        if heading:
            section, title = heading.groups()
        is_row = block.startswith("|")
        cells = block.strip("| ").split(" | ") if is_row else [block]
        for cell in cells:
            _, *marked = _MARK.split(cell)
            for rule_id, text in zip(marked[::2], marked[1::2], strict=True):
                words = " ".join(text.split())
                if is_row:  # without the type of a field
                    words = f"{cells[0].partition(': ')[0]}: {words}"
                yield Rule(rule_id, section, title, words)
