"""Additional result formats of the option `--format`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.running.formats import Format

if TYPE_CHECKING:
    from hpcosim_sim.record.results import Also


def _batsim() -> Also:
    from hpcosim_batsim.csv_files import files_of
    from hpcosim_batsim.results import outcome_of

    return lambda record, complete: files_of(outcome_of(record), complete=complete)


BATSIM = Format("batsim", _batsim)

FORMATS: Mapping[str, Format] = {each.name: each for each in (BATSIM,)}


def formats_of(names: Sequence[str] | None) -> list[Format]:
    """Return the formats with these names.

    Raises:
        ScenariosError: a name is unknown.
    """
    for name in names or ():
        if name not in FORMATS:
            raise ScenariosError(f"--format: expected one of {', '.join(FORMATS)}, got {name!r}")
    return [FORMATS[name] for name in names or ()]
