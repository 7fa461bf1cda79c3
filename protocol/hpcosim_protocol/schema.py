"""Generator of the JSON Schema of the messages, from their types.

python -m hpcosim_protocol.schema FOLDER
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from hpcosim_protocol.client_messages import ClientMessage
from hpcosim_protocol.codec import PROTOCOL_VERSION
from hpcosim_protocol.server_messages import ServerMessage

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema documents of the messages of a `client` and of a `server`, by side."""
    return {
        side: {
            "$schema": DIALECT,
            "title": f"hpcosim protocol version {PROTOCOL_VERSION}: messages a {side} sends",
            **_described(msgspec.json.schema(messages)),
        }
        for side, messages in (("client", ClientMessage), ("server", ServerMessage))
    }


def to_text(schema: dict[str, Any]) -> str:
    """Return the text of the file of a schema document."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def write(folder: Path) -> None:
    """Write `client.json` and `server.json` into a folder, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, schema in schemas().items():
        (folder / f"{side}.json").write_text(to_text(schema), encoding="utf-8")


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove indentation from the descriptions: Python 3.13 strips docstrings, 3.12 does not."""
    for definition in schema["$defs"].values():
        definition["description"] = inspect.cleandoc(definition["description"])
    return schema


def _main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m hpcosim_protocol.schema FOLDER\n")
        return 2
    write(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
