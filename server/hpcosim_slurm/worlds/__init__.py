"""What a scheduler sees of a live cluster, and what its decisions do.

* `difference`: what changed between two states of a cluster, and a state after a change.
* `site`: the cluster as a platform of the protocol.
* `specs`: its jobs as jobs of the protocol.
* `live_engine`: the engine of a simulation whose jobs end when their run times become known.
* `adoption`: jobs that run already.
* `availability`: nodes that fail, are drained and return.
* `copied`: a copy of the cluster that follows what happens in reality.
* `shadow`: a virtual copy of the cluster that the scheduler drives.
* `promises`: nodes of jobs that Slurm has not started yet.
* `live`: the cluster itself: decisions become commands.
"""
