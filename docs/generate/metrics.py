"""The reference of the metrics, from the docstrings of the functions that compute them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType

from docs.generate.docstrings import indented, joined, prose, returns, sentence

from hpcosim_scenarios.running.compare import savings_of
from hpcosim_sim.record import metrics


def definitions() -> dict[str, dict[str, str]]:
    """Return the definition of each metric by name, by the group that defines it.

    A function that returns several metrics names each in its `Returns:`. One that returns a single
    metric has the metric's name, and its docstring is the definition.
    """
    groups = {}
    for name, function in vars(metrics).items():
        if not isinstance(function, FunctionType) or function.__module__ != metrics.__name__:
            continue
        if name.startswith("_") or name in ("measure", "errors_by_lead", "jobs_that_ran"):
            continue
        groups[name] = returns(function) or {name: joined(prose(function.__doc__ or ""))}
    return groups


def reference() -> str:
    """Return the conventions that all metrics share, and the definition of each."""
    general = prose(inspect.getdoc(metrics) or "").split("\n\n")
    shared = [joined(part) for part in general if not part.startswith(("Metrics of", "To add"))]
    return "\n\n".join([*shared, *map(_entries, definitions().values())])


def savings() -> str:
    """Return the definitions of what `hpcosim compare --baseline` adds."""
    return _entries(returns(savings_of))


def _entries(meanings: Mapping[str, str]) -> str:
    """Return an entry for each value, by name."""
    return "\n\n".join(
        f"`{name}`{{ #{name} .key }}\n:   {indented(sentence(meaning.removeprefix('Return ')))}"
        for name, meaning in meanings.items()
    )
