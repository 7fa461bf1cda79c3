"""The rules of the specification, read from its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

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
