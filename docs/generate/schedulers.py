"""The catalogue of schedulers and power managers, from the client's summaries."""

from __future__ import annotations

from collections.abc import Mapping

from docs.generate.scenario import power_settings

from hpcosim_schedulers.catalogue import summaries
from hpcosim_schedulers.power.settings import MANAGERS


def schedulers() -> str:
    """Return a row for each scheduler for any cluster."""
    return _table("Name", summaries.EVERYDAY)


def schedulers_of_papers() -> str:
    """Return a row for each scheduler and each pattern of names that papers have."""
    return _table("Name", summaries.papers())


def trained_schedulers() -> str:
    """Return a row for each kind of trained scheduler."""
    return _table("Name", summaries.trained())


def job_rules() -> str:
    """Return a row for each rule that orders jobs."""
    return _table("JOB", summaries.JOB_RULES)


def node_rules() -> str:
    """Return a row for each rule that orders nodes."""
    return _table("NODE", summaries.NODE_RULES)


def groups() -> str:
    """Return a row for each group of schedulers."""
    return _table("Group", summaries.GROUPS)


def power_managers() -> str:
    """Return a row for each power manager, with a link to its settings."""
    links = power_settings().links
    rows = [
        f"| [`{name}`](scenario.md{links[MANAGERS[name]]}) | {text} |"
        for name, text in summaries.POWER_MANAGERS.items()
    ]
    return "\n".join(["| Name | Description |", "|---|---|", *rows])


def _table(title: str, summaries_by_name: Mapping[str, str]) -> str:
    rows = [f"| `{name}` | {text} |" for name, text in summaries_by_name.items()]
    return "\n".join([f"| {title} | Description |", "|---|---|", *rows])
