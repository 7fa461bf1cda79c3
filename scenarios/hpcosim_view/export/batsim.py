"""The files that a run wrote for Batsim's tools.

They cannot be computed from a results folder. Their lines follow the order of starts, ends and
switches within an instant, and states of no duration, which the folder does not have; so
`hpcosim run --format batsim` writes them from the simulation, and this module copies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hpcosim_view.errors import ExportError

FILES = (
    "out_jobs.csv",
    "out_schedule.csv",
    "out_machine_states.csv",
    "out_pstate_changes.csv",
    "out_consumed_energy.csv",
)


def batsim_files(results: Path) -> Mapping[str, Path]:
    """Return the files by name.

    Args:
        results: a results folder.

    Raises:
        ExportError: the run did not write them.
    """
    found = {name: results / name for name in FILES}
    if missing := [name for name, file in found.items() if not file.is_file()]:
        raise ExportError(
            f"--batsim: {results / missing[0]} is missing; Batsim's files need the order of events "
            "within an instant, which a results folder does not have: simulate with "
            "`hpcosim run SCENARIO --format batsim`, which writes them"
        )
    return found
