"""The reference of a results folder, from the tables and types that write it."""

from __future__ import annotations

from docs.generate.docstrings import attributes, indented, prose
from docs.generate.types import described
from msgspec import inspect

from hpcosim_server.record.results import Run
from hpcosim_server.record.tables import TABLES


def tables() -> str:
    """Return the columns of each CSV file."""
    parts = []
    for table in TABLES:
        rows = "\n".join(
            f"| `{column.name}` | {column.type} | {column.meaning} |" for column in table.columns
        )
        text = f"{table.rows[:1].upper()}{table.rows[1:]}."
        head = f"## `{table.file}` {{ #{table.file.replace('.', '-')} }}"
        parts.append(f"{head}\n\n{text}\n\n| Column | Type | Meaning |\n|---|---|---|\n{rows}")
    return "\n\n".join(parts)


def run_json() -> str:
    """Return the fields of `run.json`."""
    info = inspect.type_info(Run)
    assert isinstance(info, inspect.StructType)
    meanings = attributes(Run)
    entries = [
        f"`{field.name}`{{ #run.{field.name} .key }}\n:   {described(field.type)}\n    {{: .facts }}\n\n"
        f"    {indented(meanings.get(field.name, ''))}"
        for field in info.fields
    ]
    return "\n\n".join([prose(Run.__doc__ or ""), *entries])
