"""The reference of the statistics, from the docstrings of `hpcosim_experiments.statistics`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from docs.generate.docstrings import indented, joined, parse, prose, sentence
from griffe import DocstringSectionText

from hpcosim_experiments.statistics import bootstrap, measured

OF_VALUES: tuple[Callable[..., Any], ...] = (bootstrap.mean, bootstrap.interquartile_mean)
OF_PAIRS: tuple[Callable[..., Any], ...] = (
    bootstrap.paired_difference,
    bootstrap.paired_ratio,
    bootstrap.interquartile_difference,
    bootstrap.interquartile_ratio,
)


def period() -> str:
    """Return the definition of the measured period, and of the utilization within it."""
    settings = joined(prose(measured.MeasureSettings.__doc__ or "").split("\n\n", 1)[1])
    return f"{settings}\n\n{entry(measured.utilization_within, 'utilization')}"


def values() -> str:
    """Return the definitions of the statistics of a combination."""
    return "\n\n".join(map(entry, OF_VALUES))


def pairs() -> str:
    """Return the definitions of the statistics of pairs."""
    return "\n\n".join(map(entry, OF_PAIRS))


def intervals() -> str:
    """Return the definitions of the intervals, and their sources."""
    _, *definitions = _paragraphs(bootstrap.estimate)
    _, *sources = prose(inspect.getdoc(bootstrap) or "").split("\n\n")
    return "\n\n".join(map(joined, [*definitions, *sources]))


def entry(function: Callable[..., Any], name: str = "") -> str:
    """Return the name of a statistic, by default that of its function, and its definition."""
    name = name or function.__name__
    first, *more = map(joined, _paragraphs(function))
    text = "\n\n".join([sentence(first.removeprefix("Return ")), *more])
    return f"`{name}`{{ #{name.replace('_', '-')} .key }}\n:   {indented(text)}"


def _paragraphs(function: Callable[..., Any]) -> list[str]:
    text = function.__doc__ or ""
    first = next(part for part in parse(text) if isinstance(part, DocstringSectionText))
    return str(first.value).split("\n\n")
