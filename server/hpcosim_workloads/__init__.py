"""Sources of jobs: job logs, JSON lines in hpcosim's own format, and synthetic workloads.

A workload is a `JobTable`. Every reader and model returns one:

    >>> import numpy as np
    >>> from hpcosim_workloads import poisson
    >>> jobs = poisson(
    ...     np.random.default_rng(1),
    ...     jobs=100,
    ...     mean_interarrival_s=60.0,
    ...     cores=(1, 16),
    ...     run_s=(60.0, 3600.0),
    ...     overestimate=1.0,
    ... )
    >>> len(jobs)
    100

* `logs`: readers of files, and a catalogue of logs of the Parallel Workloads Archive to download.
* `synthetic`: random models.
* `shaping`: windows, load scaling and changes of job sizes.

The package imports each name from its module at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcosim_workloads.errors import DownloadError, WorkloadError, WorkloadsError
    from hpcosim_workloads.logs.jsonl import read_jsonl
    from hpcosim_workloads.logs.swf import read_swf
    from hpcosim_workloads.synthetic.lublin import lublin
    from hpcosim_workloads.synthetic.poisson import poisson
    from hpcosim_workloads.table import JobSpec, JobTable, job_table

__all__ = [
    "DownloadError",
    "JobSpec",
    "JobTable",
    "WorkloadError",
    "WorkloadsError",
    "job_table",
    "lublin",
    "poisson",
    "read_jsonl",
    "read_swf",
]

_MODULES = {
    "errors": ("DownloadError", "WorkloadError", "WorkloadsError"),
    "logs.jsonl": ("read_jsonl",),
    "logs.swf": ("read_swf",),
    "synthetic.lublin": ("lublin",),
    "synthetic.poisson": ("poisson",),
    "table": ("JobSpec", "JobTable", "job_table"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
