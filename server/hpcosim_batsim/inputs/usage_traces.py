"""Reader of usage traces: a list of files, one for each process.

Their lines have the number of the process, the fraction of the cores of its host, and flop of each:

    0 m_usage 0.5 1000
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.json_fields import MAX_MAGNITUDE, Fields
from hpcosim_batsim.inputs.workload_model import MAX_TASKS, UsageReplay
from hpcosim_protocol.files import read_regular


def usage_replay(fields: Fields, name: str, field: str) -> UsageReplay:
    """Return a profile that replays usage traces.

    Args:
        field: the field of the profile with the path of the list, relative to the workload.

    Raises:
        InputError: a file cannot be read, or a line is invalid; names the line. Or the profile is
            in no file: a scheduler registers it, who chooses no files to be read.
    """
    if not fields.path:
        raise fields.error("type", "a scheduler cannot register a profile that reads files")
    ret = fields.integer("ret", 0) if "ret" in fields.raw else 0
    listing = Path(fields.path).parent / fields.text(field)
    files = [line.strip() for line in _lines(listing) if line.strip()]
    if not files:
        raise InputError(str(listing), "", "is empty; expected a line with the name of each trace")
    phases = tuple(
        tuple(_phases(listing.parent / file, process)) for process, file in enumerate(files)
    )
    return UsageReplay(name=name, ret=ret, raw=fields.raw, phases=phases)


def _phases(path: Path, process: int) -> Iterator[tuple[float, float]]:
    for number, line in enumerate(_lines(path), start=1):
        if number > MAX_TASKS:
            raise InputError(str(path), "", f"has more than {MAX_TASKS} lines, the maximum")
        words = line.split()
        if not words:
            continue
        try:
            rank, action, usage, flop = words
            phase = float(usage), float(flop)
            valid = int(rank) == process and action == "m_usage"
        except ValueError:
            valid = False
        if not valid or not (0 <= phase[0] <= 1 and 0 <= phase[1] <= MAX_MAGNITUDE):
            raise InputError(
                str(path),
                f"line {number}",
                f"expected '{process} m_usage USAGE FLOP' with a usage from 0 to 1, got "
                f"{line.strip()[:80]!r}",
            )
        yield phase


def _lines(path: Path) -> list[str]:
    try:
        return read_regular(path).decode().splitlines()
    except OSError as error:
        raise InputError(str(path), "", f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise InputError(str(path), "", "is not a text") from None
