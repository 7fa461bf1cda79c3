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
* `accounting`: readers of the accounting of workload managers.
* `synthetic`: random models.
* `shaping`: windows, load scaling and changes of job sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_workloads.errors import DownloadError as DownloadError
    from hpcosim_workloads.errors import WorkloadError as WorkloadError
    from hpcosim_workloads.errors import WorkloadsError as WorkloadsError
    from hpcosim_workloads.logs.job_lines import read_jsonl as read_jsonl
    from hpcosim_workloads.logs.swf import read_swf as read_swf
    from hpcosim_workloads.synthetic.lublin import lublin as lublin
    from hpcosim_workloads.synthetic.lublin import poisson as poisson
    from hpcosim_workloads.table import JobSpec as JobSpec
    from hpcosim_workloads.table import JobTable as JobTable
    from hpcosim_workloads.table import job_table as job_table

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "errors": "DownloadError WorkloadError WorkloadsError",
        "logs.job_lines": "read_jsonl",
        "logs.swf": "read_swf",
        "synthetic.lublin": "lublin poisson",
        "table": "JobSpec JobTable job_table",
    },
)
