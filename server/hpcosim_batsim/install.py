"""Installation of an executable named `batsim`, for programs that start Batsim by that name.

It is written only on request, so it never hides an installed Batsim.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpcosim_batsim.errors import BatsimError

NAME = "batsim"
SCRIPT = """#!{python}
import sys

sys.path[:0] = {path!r}
from hpcosim.cli.batsim import main

main()
"""


def install_as_batsim(folder: Path) -> Path:
    """Write the executable into a folder, create the folder if needed, and return its path.

    Raises:
        BatsimError: the folder has another program of that name, or cannot be written to.
    """
    file = folder / NAME
    path = [entry for entry in sys.path if entry and _holds_hpcosim(Path(entry))]
    script = SCRIPT.format(python=sys.executable, path=path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if file.is_symlink() or (file.exists() and file.read_bytes() != script.encode()):
            raise BatsimError(
                f"{file} exists and is another program, it was not changed; choose another folder"
            )
        file.write_text(script, encoding="utf-8")
        file.chmod(0o755)
    except OSError as error:
        raise BatsimError(f"{file} cannot be written: {error.strerror or error}") from error
    return file


def _holds_hpcosim(folder: Path) -> bool:
    """Tell whether a folder contains one of the packages of hpcosim."""
    names = ("hpcosim_protocol", "hpcosim_server", "hpcosim_client", "hpcosim.cli")
    return any((folder / name).is_dir() for name in names)
