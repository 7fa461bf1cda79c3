"""The rules of the specification. Their text stands there only; the kit names them by id."""

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

_NEEDS_TRUE_RUN_TIMES = "No message tells the operations of a job, so a client cannot check this."
_STOPS_THE_SERVER = "It would stop the server, or take it from other clients."

NOT_TRIED: Mapping[str, str] = {
    "R-start-is-an-event": "The kit's simulation starts a job at once if its nodes are on.",
    "R-shutting-down": _STOPS_THE_SERVER,
    "R-too-many-sessions": _STOPS_THE_SERVER,
    "R-invalid-scenario": "Each server has overrides and seeds of its own.",
    "R-paths": "Each server has overrides of its own.",
    "R-reconnect": "The kit keeps one connection for each check.",
    "R-order-of-events": "It takes a scenario made for it. The tests of this server have one.",
    "R-walltime": "Only the scenario sets this option.",
    "R-over": "The check `end` waits until nothing is left to do; it does not try each condition.",
    "R-stuck-rejected": "It takes a thousand requests.",
    "R-too-large-job": "It takes a workload with such a job.",
    "R-task-speed": _NEEDS_TRUE_RUN_TIMES,
    "R-contention": _NEEDS_TRUE_RUN_TIMES,
    "R-contention-constants": "It is a rule for scenarios.",
    "R-power": "The power drawn is in the server's results, not in its messages.",
    "R-energy-estimate": "It is advice for schedulers; no placement is refused by it.",
    "R-idle": "It takes as long as `idle_timeout_s`.",
    "R-newer-decisions": "There are no newer decisions than those of this edition.",
    "R-minimal-events": "The rules on each event and field are tried one by one.",
}
"""Rules that no check tries, by id, each with the reason."""


class Rule(NamedTuple):
    """A rule of the specification.

    Attributes:
        id: its id, such as `R-nonce`.
        section: the number of its section.
        title: the heading of the section.
        text: its words, without line breaks; in a table, after the first cell of its row.
    """

    id: str
    section: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.id}, section {self.section}, {self.title}: {self.text}"


@cache
def rules() -> Mapping[str, Rule]:
    """Return the rules of the installed specification by id."""
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
                yield Rule(rule_id, section, title, f"{cells[0]}: {words}" if is_row else words)
