"""The reference of the statistics describes all of them."""

from __future__ import annotations

from types import FunctionType

import pytest

from hpcosim_experiments.statistics import bootstrap
from support.paths import ROOT

pytest.importorskip("griffe")
from docs.generate import definitions, hooks


def test_each_statistic_has_a_definition() -> None:
    """Every public function of the module is defined on the page."""
    text = definitions.values() + definitions.pairs()
    names = [
        name
        for name, one in vars(bootstrap).items()
        if isinstance(one, FunctionType)
        and one.__module__ == bootstrap.__name__
        and not (name.startswith("_") or name == "estimate")
    ]
    assert [name for name in names if f"`{name}`{{ #" not in text] == []


def test_the_page_has_all_definitions() -> None:
    """Each generated text of the statistics has its marker on the page, and is not empty."""
    page = (ROOT / "docs/reference/statistics.md").read_text("utf-8")
    made = [name for name in hooks.GENERATED if name.startswith("statistics-")]
    assert sorted(hooks.MARKER.findall(page)) == sorted(made)
    assert all(len(hooks.GENERATED[name]()) > 200 for name in made)
