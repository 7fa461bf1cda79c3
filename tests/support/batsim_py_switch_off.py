"""An FCFS scheduler with batsim-py that switches idle hosts off.

The Python of the clients' environment runs it with the arguments `PLATFORM WORKLOAD`.
"""

from __future__ import annotations

import sys

from batsim_py import JobEvent, SimulatorHandler  # type: ignore[import-not-found]

done = []
simulator = SimulatorHandler()
simulator.subscribe(JobEvent.COMPLETED, lambda job: done.append(job.id))
simulator.start(platform=sys.argv[1], workload=sys.argv[2])
while simulator.is_running:
    for job in list(simulator.queue):
        hosts = [
            host.id
            for host in simulator.platform.hosts
            if (host.is_idle or host.is_sleeping) and not host.is_allocated
        ]
        if len(hosts) < job.res:
            break
        simulator.allocate(job.id, hosts[: job.res])
    idle = [host.id for host in simulator.platform.hosts if host.is_idle and not host.is_allocated]
    if idle and not simulator.queue:
        simulator.switch_off(idle)
    simulator.proceed_time()
sys.stdout.write(" ".join(done))
