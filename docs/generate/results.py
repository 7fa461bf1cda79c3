"""The references of the results folder and of the status stream, from their types."""

from __future__ import annotations

from docs.generate.docstrings import sentence
from docs.generate.scenario import RULES, scenario_file
from docs.generate.structs import File, Rules, Section, body, file_of, section_text, sections_of
from msgspec import Struct

from hpcosim_sim.record.results import Run
from hpcosim_sim.record.tables import TABLES


def tables() -> str:
    """Return the columns of each CSV file."""
    parts = []
    for table in TABLES:
        rows = "\n".join(
            f"| `{column.name}` | {column.type} | {column.meaning} |" for column in table.columns
        )
        text = f"{sentence(table.rows)}."
        head = f"## `{table.file}` {{ #{table.file.replace('.', '-')} }}"
        parts.append(f"{head}\n\n{text}\n\n| Column | Type | Meaning |\n|---|---|---|\n{rows}")
    return "\n\n".join(parts)


def run_json() -> str:
    """Return the keys of `run.json`, and of the mappings in it.

    Mappings that are as in a scenario have a link to its reference.
    """
    file = run_file()
    top, *below = file.sections
    return "\n\n".join([body(file, top), *(section_text(file, one, level=3) for one in below)])


def run_file() -> File:
    """Return `run.json`, without the mappings that the scenario reference describes."""
    sections = [one for one in sections_of(Run) if one.kind not in RULES.kinds]
    scenario = {kind: f"scenario.md{link}" for kind, link in scenario_file().links.items()}
    own = file_of(*sections, rules=Rules(tuple(one.kind for one in sections), written=True))
    return own._replace(links={**scenario, **own.links})


def status(kind: type[Struct]) -> str:
    """Return the keys of a message of the status stream."""
    section = Section("", kind)
    return body(file_of(section, rules=Rules((kind,), written=True)), section)
