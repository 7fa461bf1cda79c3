"""What a scheduler sees of a live cluster, and what its decisions do.

* `difference`: what changed between two states of a cluster, and a state after a change.
* `site`: the cluster as a platform of the protocol. `specs`: its jobs as those of the protocol.
* `live_engine`: the engine of a simulation whose jobs end when their run times become known.
* `cluster_copy`: a copy of the cluster that follows reality; the scheduler drives a virtual one.
* `live`: the cluster itself: decisions become commands.
"""
