"""The references of the results folder and of the status stream, from their types."""

from __future__ import annotations

from docs.generate.docstrings import sentence
from docs.generate.scenario import RULES
from docs.generate.structs import Rules, Section, body, section_text, sections_of
from docs.generate.types import anchor
from msgspec import Struct

from hpcosim_server.record.results import Run
from hpcosim_server.record.tables import TABLES


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
    top, *below = sections_of(Run)
    own = [section for section in below if section.kind not in RULES.kinds]
    rules = Rules(tuple(section.kind for section in (top, *own)), written=True)
    sections = [section_text(section, level=3, rules=rules) for section in own]
    text = "\n\n".join([body(top, rules), *sections])
    for kind in RULES.kinds:
        text = text.replace(f"](#{anchor(kind)})", f"](scenario.md#{anchor(kind)})")
    return text


def status(kind: type[Struct]) -> str:
    """Return the keys of a message of the status stream."""
    return body(Section("", kind), Rules((kind,), written=True))
