"""The simulator without sockets: nodes, jobs, simulated time, and records of a run.

It contains no scheduling policy. A scheduler passes decisions to `Simulation.advance`, which
advances time and returns events:

    >>> from hpcosim_protocol import AllocateJob, NodeGroup, Platform, Processor
    >>> from hpcosim_sim import Simulation
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
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_sim.engine.engine import Rules as Rules
    from hpcosim_sim.engine.simulation import Batch as Batch
    from hpcosim_sim.engine.simulation import Simulation as Simulation
    from hpcosim_sim.errors import SimulationError as SimulationError
    from hpcosim_sim.errors import SimulationStuck as SimulationStuck
    from hpcosim_sim.record.results import Run as Run
    from hpcosim_sim.record.results import metrics_of as metrics_of
    from hpcosim_sim.record.results import write_results as write_results

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "engine.engine": "Rules",
        "engine.simulation": "Batch Simulation",
        "errors": "SimulationError SimulationStuck",
        "record.results": "Run metrics_of write_results",
    },
)
