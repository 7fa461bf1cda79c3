"""Many runs of one scenario in one process, by threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from hpcosim_protocol.errors import HpcosimError
from hpcosim_scenarios.model.jobs import FEW_JOBS, SourceCache
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.policies import chosen_by
from hpcosim_scenarios.running.run import Ran, run_chosen
from hpcosim_workloads.synthetic.imitation import MAX_JOBS


def run_many(
    path: Path,
    settings: Iterable[Overrides],
    *,
    scheduler: str | None = None,
    threads: int | None = None,
) -> Iterator[Ran]:
    """Run a scenario with different settings, and yield the runs in the order of the settings.

    Compiled simulations release Python's lock, so that threads simulate at the same time; others
    take turns.

    Args:
        path: the file of the scenario.
        settings: for each run values that replace those of the scenario, by dotted path.
        scheduler: the scheduler of all runs; None: that of the scenario.
        threads: number of threads, >= 1; None: one for each core.

    Raises:
        ScenarioError, WorkloadError, PolicyError, RunError: as `run_scenario`, in place of the run;
            the runs before it are there, and none follows.
    """
    each, sources = list(settings), SourceCache(MAX_JOBS, FEW_JOBS)
    ahead = threads or os.cpu_count() or 1
    running: deque[Future[Ran]] = deque()
    with ThreadPoolExecutor(ahead) as pool:
        try:
            for overrides in each:
                try:
                    loaded = Library([path], overrides, sources=sources).default
                    chosen = chosen_by(loaded.scenario, path, scheduler, overrides)
                    chosen.check()
                except HpcosimError:
                    while running:
                        yield running.popleft().result()
                    raise
                many = len(loaded.jobs) * len(each)
                running.append(pool.submit(run_chosen, chosen, loaded, batch_jobs=many))
                if len(running) > ahead:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
