"""Jobs that were read or drawn before, for sessions with overrides."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.model.logs import log_path
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Imitated
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable

MOST_JOBS = 2_000_000
"""Maximum number of jobs in all cached tables."""


class SourceCache:
    """The results of `source_jobs` that were used last.

    A table is the same if the platform, the settings of the reader or model, and the file (by size
    and time of change) are the same; for a model, also the seed. Selections and load come later.

    Args:
        most_jobs: maximum number of jobs per table.
        most_cached: maximum number of jobs in all tables.
    """

    def __init__(self, most_jobs: int, most_cached: int = MOST_JOBS) -> None:
        self._most_jobs = most_jobs
        self._most_cached = most_cached
        self._tables: OrderedDict[bytes, JobTable] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of jobs in all tables."""
        return sum(map(len, self._tables.values()))

    def jobs(self, scenario: Scenario, folder: Path) -> JobTable:
        """Return the jobs of the source of a scenario; errors are those of `source_jobs`."""
        if scenario.workload.inline is not None:  # they are in memory
            return source_jobs(scenario, folder, self._most_jobs)
        key = _key(scenario, folder)
        table = self._tables.pop(key, None)
        if table is None:
            table = source_jobs(scenario, folder, self._most_jobs)
        self._tables[key] = table
        while len(self) > self._most_cached and len(self._tables) > 1:
            self._tables.popitem(last=False)
        return table


def _key(scenario: Scenario, folder: Path) -> bytes:
    workload = scenario.workload
    reading = replace(workload, window_s=None, jobs=None, divide_cores=1, max_cores=None, load=1.0)
    seed = None if workload.synthetic is None else scenario.seed
    parts = (scenario.platform, reading, seed, *_file_state(scenario, folder))
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def _file_state(scenario: Scenario, folder: Path) -> tuple[str | int, ...]:
    """Return the path, size and time of change of the file of jobs; empty: there is none."""
    workload = scenario.workload
    which = workload.synthetic if isinstance(workload.synthetic, Imitated) else workload
    if workload.json is None and which.swf is None and which.trace is None:
        return ()
    try:
        path = folder / workload.json if workload.json else log_path(which, folder)
        state = path.stat()
    except (OSError, ValueError, WorkloadError):  # reading it reports the error
        return ()
    return (str(path), state.st_size, state.st_mtime_ns, state.st_ino)
