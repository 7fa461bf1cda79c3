"""The simulator: platform model, simulated time and service. It contains no scheduling policy.

A scheduler passes decisions to `Simulation.advance`, which advances time and returns events:

    >>> from hpcosim_protocol import AllocateJob, NodeGroup, Platform, Processor
    >>> from hpcosim_server import Simulation
    >>> from hpcosim_workloads.table import job_table
    >>> platform = Platform((NodeGroup(2, (Processor(cores=4),)),))
    >>> jobs = job_table(job_id=[1], submit_s=[0.0], run_s=[60.0], requested_s=[90.0], cores=[6])
    >>> simulation = Simulation(platform, jobs)
    >>> batch = simulation.advance()
    >>> [type(event).__name__ for event in batch.events]
    ['SimulationBegan', 'JobSubmitted', 'NoMoreJobs']
    >>> batch = simulation.advance([AllocateJob(job_id=1, nodes=[0, 1])])
    >>> batch.now_s, batch.events[-1].state
    (60.0, 'completed')
    >>> simulation.advance().ended
    True

The package imports each name from its module at first use. `import hpcosim_server` alone loads
neither SimPy nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcosim_server.engine.rules import Rules
    from hpcosim_server.engine.simulation import Batch, Simulation
    from hpcosim_server.errors import ServerError, SessionRefused, SimulationStuck
    from hpcosim_server.record.results import Run, metrics_of, write_results
    from hpcosim_server.service.limits import Limits
    from hpcosim_server.service.options import ServeOptions
    from hpcosim_server.service.service import Service
    from hpcosim_server.service.session import Opened
    from hpcosim_server.service.socket_loop import serve

__all__ = [
    "Batch",
    "Limits",
    "Opened",
    "Rules",
    "Run",
    "ServeOptions",
    "ServerError",
    "Service",
    "SessionRefused",
    "Simulation",
    "SimulationStuck",
    "metrics_of",
    "serve",
    "write_results",
]

_MODULES = {
    "engine.rules": ("Rules",),
    "engine.simulation": ("Batch", "Simulation"),
    "errors": ("ServerError", "SessionRefused", "SimulationStuck"),
    "record.results": ("Run", "metrics_of", "write_results"),
    "service.limits": ("Limits",),
    "service.options": ("ServeOptions",),
    "service.service": ("Service",),
    "service.session": ("Opened",),
    "service.socket_loop": ("serve",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
