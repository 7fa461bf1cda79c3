"""Comparison of the rules of the conformance kit with the specification."""

from __future__ import annotations

import re
from pathlib import Path

import hpcosim_conformance
from hpcosim_conformance import Rule, rules
from hpcosim_conformance.verdict import NOT_TRIED
from support.protocol import SPECIFICATION

PACKAGE = Path(hpcosim_conformance.__file__).parent


def test_an_id_marks_one_rule() -> None:
    """`rules` returns every id of the specification, and no id occurs twice."""
    marked = re.findall(r"\[(R-.*?)\]", SPECIFICATION)
    assert sorted(marked) == sorted(rules())


def test_a_rule_has_its_section_and_its_text() -> None:
    """A rule in a list ends at the next id, and its text has no line breaks."""
    assert rules()["R-nonce"] == Rule(
        "R-nonce",
        "6",
        "Resending and resuming",
        "A `hello` resent while its session is open gets the first `welcome` of that session "
        "again, unchanged, and opens no second session: the `nonce` identifies the `hello`.",
    )


def test_a_rule_in_a_table_has_the_name_of_its_row() -> None:
    """The text of a rule in a table begins with the first cell of its row."""
    assert rules()["R-unknown-scenario"] == Rule(
        "R-unknown-scenario",
        "2.2",
        "Errors",
        "`unknown_scenario`: The server has no scenario of the name in `hello`.",
    )


def test_every_rule_has_a_check_or_a_reason() -> None:
    """The kit checks every rule or lists it with the reason why it has no check."""
    sources = [path for path in PACKAGE.rglob("*.py") if path.name != "verdict.py"]
    tried = {
        rule_id
        for source in sources
        for rule_id in re.findall(r'"(R-[a-z-]+)"', source.read_text("utf-8"))
    }
    assert tried & set(NOT_TRIED) == set()
    assert tried | set(NOT_TRIED) == set(rules())


def test_every_must_is_part_of_a_rule() -> None:
    """Every sentence with MUST belongs to a rule with an id."""
    left = " ".join(SPECIFICATION.split())
    for rule in rules().values():
        left = left.replace(rule.text, "").replace(rule.text.partition(": ")[2] or rule.text, "")
    # The definition of MUST, and the head of the list in section 8, whose items are rules.
    assert re.findall(r"(\S+ \S+) MUST\b", left) == ["is normative.", "A client"]
