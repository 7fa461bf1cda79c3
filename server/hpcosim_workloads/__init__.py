"""Where jobs come from: job logs, the project's own JSON lines, and models of workloads.

A workload is a `JobTable`. Logs and models return one:

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

`logs` reads files, knows the traces of the Parallel Workloads Archive and downloads them,
`synthetic` draws jobs, `shaping` cuts and scales them.
"""

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
