"""Markdown."""

from __future__ import annotations

from hpcosim_experiments.report.markup import document, table


def test_a_document_is_made_of_parts() -> None:
    """Parts are separated by an empty line, and empty parts are left out."""
    said = document(["# Title"], [], table(["a", "b"], [["1", "2"]]))
    assert said == "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
