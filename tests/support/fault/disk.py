"""A simulated disk: results folders that are written whole, or not if the disk is full."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hpcosim_server.errors import ResultsError
from hpcosim_server.record.folder import Files
from support.fault.network import is_in
from support.fault.plan import Plan
from support.fault.simulator import Simulator


class SimulatedDisk:
    """The disk of the server; it stays when the server is killed.

    Args:
        simulator: the simulated time.
        plan: when the disk is full.

    Attributes:
        folders: text of the files of each results folder, by name of the folder.
        refused: number of folders that were not written, because the disk was full.
        again: names of folders that were written more than once.
    """

    def __init__(self, simulator: Simulator, plan: Plan) -> None:
        self.folders: dict[str, dict[str, str]] = {}
        self.refused = 0
        self.again: list[str] = []
        self._simulator = simulator
        self._plan = plan

    def write_together(self, folder: Path, files: Files, stale: Collection[str] = ()) -> None:
        """Do what `folder.write_together` does, on this disk."""
        if any(is_in(full, self._simulator.now_s) for full in self._plan.disk_full):
            self.refused += 1
            self._simulator.note(f"disk: full, {folder.name} is not written")
            raise ResultsError(f"{folder}: the results cannot be written: No space left on device")
        if folder.name in self.folders:
            self.again.append(folder.name)
        self.folders[folder.name] = {name: "".join(lines) for name, lines in files.items()}
        self._simulator.note(f"disk: {folder.name} is written")
