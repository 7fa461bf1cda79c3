"""Simulate HPC clusters with job schedulers and power managers.

    import hpcosim

    run = hpcosim.run("demo", "easy", set={"workload.load": 0.6})
    run.metrics["mean_wait_s"], run.jobs["wait_s"]
    hpcosim.compare("demo", ["fcfs", "easy", my_policy])

A scheduler is a function of a `View`; `main` makes a script of it that connects to a server. The
other packages, `hpcosim_*`, are how this one is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim.policies import HpcosimError as HpcosimError
    from hpcosim.policies import Policy as Policy
    from hpcosim.policies import View as View
    from hpcosim.policies import main as main
    from hpcosim.policies import make_policy as make_policy
    from hpcosim.policies import managed as managed
    from hpcosim.runs import Comparison as Comparison
    from hpcosim.runs import Run as Run
    from hpcosim.runs import Table as Table
    from hpcosim.runs import compare as compare
    from hpcosim.runs import experiment as experiment
    from hpcosim.runs import read as read
    from hpcosim.runs import report as report
    from hpcosim.runs import run as run
    from hpcosim.runs import run_many as run_many
    from hpcosim.version import __version__ as __version__

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "policies": "HpcosimError Policy View main make_policy managed",
        "runs": "Comparison Run Table compare experiment read report run run_many",
        "version": "__version__",
    },
)
