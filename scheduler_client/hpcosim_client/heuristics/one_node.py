"""What policies refuse that place every job on cores of one node."""

from __future__ import annotations

from hpcosim_client.errors import PolicyError
from hpcosim_client.view import View


def refuse_what_needs_several_nodes(view: View, who: str) -> None:
    """Refuse a job that can't be placed on cores of one node.

    Args:
        view: for the jobs that arrived.
        who: places jobs so, for the message, as `a pairing agent places`.

    Raises:
        PolicyError: there is such a job.
    """
    widest = view.nodes.largest
    for job in view.arrived:
        if job.placement == "whole_nodes" or job.cores > widest:
            raise PolicyError(
                f"job {job.job_id} asks for {job.cores} cores, placement {job.placement}; {who} a "
                f"job on cores of one node, of at most {widest} here"
            )
