"""An executable called `batsim`, for programs that start one by that name.

It is only written where somebody asks for it: a real Batsim is never shadowed by surprise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpcosim_batsim.errors import BatsimError

NAME = "batsim"
SCRIPT = """#!{python}
import sys

sys.path[:0] = {path!r}
from hpcosim_cli.batsim import main

main()
"""


def install_as_batsim(folder: Path) -> Path:
    """Write the executable into a folder, which is made if need be, and return its path.

    Raises:
        BatsimError: there is another program of that name, or it can't be written.
    """
    file = folder / NAME
    path = [entry for entry in sys.path if entry and _has_a_room(Path(entry))]
    script = SCRIPT.format(python=sys.executable, path=path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if file.is_symlink() or (file.exists() and file.read_bytes() != script.encode()):
            raise BatsimError(f"{file} is there already, and not this program; it is left alone")
        file.write_text(script, encoding="utf-8")
        file.chmod(0o755)
    except OSError as error:
        raise BatsimError(f"{file} can't be written: {error.strerror or error}") from error
    return file


def _has_a_room(folder: Path) -> bool:
    """Tell whether one of our packages is imported from there."""
    names = ("hpcosim_protocol", "hpcosim_server", "hpcosim_client", "hpcosim_cli")
    return any((folder / name).is_dir() for name in names)
