"""The reference of the metrics, from the docstrings of `hpcosim_server.record.metrics`."""

from __future__ import annotations

import inspect
from types import FunctionType

from docs.generate.docstrings import indented, joined, prose, returns, sentence

from hpcosim_server.record import metrics


def definitions() -> dict[str, dict[str, str]]:
    """Return the definition of each metric by name, by the group that defines it.

    A function that returns several metrics names each in its `Returns:`. One that returns a single
    metric has the metric's name, and its docstring is the definition.
    """
    groups = {}
    for name, function in vars(metrics).items():
        if not isinstance(function, FunctionType) or function.__module__ != metrics.__name__:
            continue
        if name.startswith("_") or name in ("measure", "jobs_that_ran"):
            continue
        groups[name] = returns(function) or {name: joined(prose(function.__doc__ or ""))}
    return groups


def reference() -> str:
    """Return the conventions that all metrics share, and the definition of each."""
    general = prose(inspect.getdoc(metrics) or "").split("\n\n")
    shared = [joined(part) for part in general if not part.startswith(("Metrics of", "To add"))]
    entries = [
        f"`{name}`{{ #{name} .key }}\n:   {indented(sentence(meaning.removeprefix('Return ')))}"
        for group in definitions().values()
        for name, meaning in group.items()
    ]
    return "\n\n".join([*shared, *entries])
