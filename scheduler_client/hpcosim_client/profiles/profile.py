"""The profile of free cores for a view."""

from __future__ import annotations

from operator import attrgetter

from hpcosim_client.profiles.count_profile import CountProfile
from hpcosim_client.profiles.node_profile import node_profile
from hpcosim_client.profiles.reservation import Profile
from hpcosim_client.view import View


def profile_of(view: View) -> Profile:
    """Return the profile of free cores that running jobs leave, by their requested run times.

    A count of free cores is sufficient if no job restricts its placement, and a count of free nodes
    if all jobs take whole nodes and all nodes have the same number of cores. Otherwise the profile
    has the free cores of every node, and of all other resources if a job needs more than cores.

    Example:
        >>> profile = profile_of(view)
        >>> shadow = profile.earliest(view.queue.first())  # start of the head of the queue
    """
    back = view.nodes.returning()
    if not view.is_plain:
        return node_profile(view)
    if view.placements == {"cores"}:
        returning = [(at_s, cores) for at_s, _, cores in back]
        return CountProfile(view, view.nodes.free_cores, attrgetter("cores"), returning)
    node_cores = int(view.nodes.capacity[0])
    if view.placements == {"whole_nodes"} and (view.nodes.capacity == node_cores).all():
        idle = int((view.nodes.free == node_cores).sum())
        returning = [(at_s, 1) for at_s, _, cores in back if cores == node_cores]
        return CountProfile(view, idle, lambda job: -(-job.cores // node_cores), returning)
    return node_profile(view)
