"""Comparison of the JSON Schema files with the types."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from hpcosim_protocol.schema import DIALECT, schemas, to_text, write
from support.protocol import (
    PROTOCOL,
)


@pytest.mark.parametrize("side", ["client", "server"])
def test_schema_files_are_current(side: str) -> None:
    """The schema files equal the schema generated from the types."""
    file = PROTOCOL / "schema" / f"{side}.json"
    assert file.read_text(encoding="utf-8") == to_text(schemas()[side]), (
        "run python -m hpcosim_protocol.schema protocol/schema"
    )


@pytest.mark.parametrize("side", ["client", "server"])
def test_schemas_are_valid(side: str) -> None:
    """The documents are valid JSON Schema of their draft."""
    document = schemas()[side]
    assert document["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(document)


def test_schema_command_writes_both_files(tmp_path: Path) -> None:
    """`write` creates the folder with exactly the two files."""
    write(tmp_path / "new")
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "client.json",
        "server.json",
    ]


def test_schema_rejects_wrong_types() -> None:
    """A decision whose job number is text is invalid by the schema."""
    message = {
        "type": "decisions",
        "session": "s",
        "seq": 1,
        "decisions": [{"type": "kill_job", "job_id": "1"}],
    }
    assert not jsonschema.Draft202012Validator(schemas()["client"]).is_valid(message)
