"""The rules that the conformance kit tries are those of the specification."""

from __future__ import annotations

import re
from pathlib import Path

import hpcosim_conformance
from hpcosim_conformance import Rule, rules
from hpcosim_conformance.rules import NOT_TRIED
from support.protocol import SPECIFICATION

PACKAGE = Path(hpcosim_conformance.__file__).parent


def test_an_id_marks_one_rule() -> None:
    """Every id in brackets is read, and none stands twice."""
    marked = re.findall(r"\[(R-.*?)\]", SPECIFICATION)
    assert sorted(marked) == sorted(rules())


def test_a_rule_has_its_section_and_its_words() -> None:
    """In a list a rule ends at the next id, without line breaks."""
    assert rules()["R-nonce"] == Rule(
        "R-nonce",
        "6",
        "Resending and resuming",
        "A `hello` resent while its session is open gets the first `welcome` of that session "
        "again, unchanged, and opens no second session: the `nonce` identifies the `hello`.",
    )


def test_a_rule_in_a_table_has_the_name_of_its_row() -> None:
    """The first cell stands before the rule's own cell, under the last numbered heading."""
    assert rules()["R-seq"] == Rule(
        "R-seq",
        "1.1",
        "From the client",
        "`seq`: Sequence number: 1 for the first request, then one more for each. A resent request "
        "has the same number.",
    )


def test_every_rule_is_tried_or_listed_as_not_tried() -> None:
    """The kit names every rule, or gives the reason why it does not try it, and no other."""
    sources = [path for path in PACKAGE.rglob("*.py") if path.name != "rules.py"]
    tried = {
        rule_id
        for source in sources
        for rule_id in re.findall(r'"(R-[a-z-]+)"', source.read_text("utf-8"))
    }
    assert tried & set(NOT_TRIED) == set()
    assert tried | set(NOT_TRIED) == set(rules())


def test_every_must_is_part_of_a_rule() -> None:
    """A sentence with MUST has an id, so that its check, or the lack of one, is known."""
    left = " ".join(SPECIFICATION.split())
    for rule in rules().values():
        left = left.replace(rule.text, "").replace(rule.text.partition(": ")[2] or rule.text, "")
    # The definition of MUST, and the head of the list in section 9, whose items are rules.
    assert re.findall(r"(\S+ \S+) MUST\b", left) == ["is normative.", "A client"]
