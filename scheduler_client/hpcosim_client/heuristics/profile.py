"""What will be free when, as far as requested run times tell: the profile that a view needs."""

from __future__ import annotations

from hpcosim_client.heuristics.count_profile import CountProfile
from hpcosim_client.heuristics.node_profile import node_profile
from hpcosim_client.heuristics.reservation import Profile
from hpcosim_client.view import View


def profile_of(view: View) -> Profile:
    """Return the profile of the running jobs, the simplest that tells all that matters.

    How much is free is enough to know when every job takes any cores, or when every job takes
    whole nodes and all nodes are alike. Else it matters which nodes are free.
    """
    back = view.nodes.returning()
    if view.placements == {"cores"}:
        returning = [(at_s, cores) for at_s, _, cores in back]
        return CountProfile(view, view.nodes.free_cores, lambda job: job.cores, returning)
    node_cores = int(view.nodes.capacity[0])
    if view.placements == {"whole_nodes"} and (view.nodes.capacity == node_cores).all():
        idle = int((view.nodes.free == node_cores).sum())
        returning = [(at_s, 1) for at_s, _, cores in back if cores == node_cores]
        return CountProfile(view, idle, lambda job: -(-job.cores // node_cores), returning)
    return node_profile(view)
