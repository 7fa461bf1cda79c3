"""Checksums of the outputs of all cases.

In the folder `tests`, `python -m manifest.checksums` writes them to `checksums.json`; with names of
cases it does so for these only. A change that is to change no result leaves the file as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path

from manifest.cases import Command, cases, write_inputs
from support.commands import invoke
from support.paths import ROOT

CHECKSUMS = Path(__file__).with_name("checksums.json")
UNCOUNTED = ("git", "packages", "hpcosim", "files")
"""Keys of `run.json` and similar files that do not count: they describe the environment of a run,
and the sizes of its files, which differ with the last digits of numbers."""
SKIPPED = (".png", ".svg", ".pdf", ".html")
"""Files that contain versions of libraries, or that libraries draw."""
COMMIT = re.compile(rb"\b[0-9a-f]{40}(-dirty)?\b")
DIGEST = re.compile(rb"\b[0-9a-f]{64}\b")
"""A SHA-256, also of files with the last digits of numbers, or of a version."""
VERSION = re.compile(rb"(?<![\d.])" + re.escape(version("hpcosim").encode()) + rb"(?![\d.])")
NUMBER = re.compile(rb"-?\d+\.\d+(?:e[+-]?\d+)?", re.IGNORECASE)
"""A number that is not whole. NumPy's sums differ in the last digits between processors."""
DIGITS = 10
"""Significant digits of a number that count."""
STORE = "runs"
"""Folder of experiments whose names depend on the code of the package."""


def outputs_of(commands: list[Command], folder: Path) -> dict[str, str]:
    """Run the commands of a case; return the checksums of its outputs by name.

    Args:
        commands: the commands; a failed one raises AssertionError.
        folder: an empty folder, which gets the inputs and the outputs.
    """
    write_inputs(folder)
    inputs = set(folder.iterdir())
    found = {}
    with chdir(folder):
        for number, command in enumerate(commands, 1):
            result = invoke(*command)
            assert result.status == 0, f"{' '.join(map(str, command))}: {result.err}"
            if "--json" in command:
                found[f"output {number}"] = checksum(result.out.encode(), folder)
    for path in sorted(folder.rglob("*")):
        is_stored = STORE in path.relative_to(folder).parts
        if path.is_file() and not is_stored and path not in inputs and path.suffix not in SKIPPED:
            content = path.read_bytes()
            if path.suffix == ".json":
                content = counted(content)
            found[str(path.relative_to(folder))] = checksum(content, folder)
    return found


def counted(content: bytes) -> bytes:
    """Return what counts of a JSON file."""
    value = json.loads(content)
    if isinstance(value, dict):
        value = {key: value[key] for key in value if key not in UNCOUNTED}
    return json.dumps(value).encode()


def checksum(content: bytes, folder: Path) -> str:
    """Return the checksum of a content.

    Paths, the versions of Python, hpcosim and the repository, and further digits of numbers do not
    count.
    """
    for text, name in ((folder, "FOLDER"), (ROOT, "ROOT"), (platform.python_version(), "PYTHON")):
        content = content.replace(os.fsencode(text), name.encode())
    content = COMMIT.sub(b"COMMIT", content)
    content = DIGEST.sub(b"DIGEST", content)
    content = VERSION.sub(b"VERSION", content)
    content = NUMBER.sub(lambda found: b"%.*g" % (DIGITS, float(found[0])), content)
    return hashlib.sha256(content).hexdigest()[:16]


def read_checksums() -> Mapping[str, Mapping[str, str]]:
    """Return the checksums that are kept, by case and output."""
    found: dict[str, dict[str, str]] = json.loads(CHECKSUMS.read_text())
    return found


def main(names: list[str]) -> None:
    """Run cases and keep their checksums; no names: all cases."""
    kept = dict(read_checksums()) if names else {}
    for name in names or cases():
        with tempfile.TemporaryDirectory() as folder:
            kept[name] = outputs_of(cases()[name], Path(folder).resolve())
        print(name, len(kept[name]), flush=True)  # noqa: T201
    lines = (f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept))
    CHECKSUMS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
