"""The JSON Schema files against the types."""

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
    """The schema files are what the types generate."""
    file = PROTOCOL / "schema" / f"{side}.json"
    assert file.read_text(encoding="utf-8") == to_text(schemas()[side]), (
        "run python -m hpcosim_protocol.schema protocol/schema"
    )


@pytest.mark.parametrize("side", ["client", "server"])
def test_schemas_are_schemas(side: str) -> None:
    """The documents are JSON Schema of the draft they name."""
    document = schemas()[side]
    assert document["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(document)


def test_schema_command_writes_both_files(tmp_path: Path) -> None:
    """`write` makes the folder and the two files in it, and nothing else."""
    write(tmp_path / "new")
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "client.json",
        "server.json",
    ]


def test_schema_refuses_wrong_types() -> None:
    """The schema is no rubber stamp: a decision whose job number is text is invalid by it."""
    message = {
        "type": "decisions",
        "session": "s",
        "seq": 1,
        "decisions": [{"type": "kill_job", "job_id": "1"}],
    }
    assert not jsonschema.Draft202012Validator(schemas()["client"]).is_valid(message)
