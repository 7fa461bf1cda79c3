"""Validation for policies that place each job on one node."""

from __future__ import annotations

from hpcosim_client.errors import PolicyError
from hpcosim_client.view import View


def check_one_node_jobs(view: View, who: str) -> None:
    """Check that each job that arrived can run on cores of one node.

    Args:
        view: the view, with the jobs that arrived.
        who: subject and verb of the message, such as `a pairing agent places`.

    Raises:
        PolicyError: a job requests whole nodes, or more cores than the largest node has.
    """
    widest = view.nodes.largest
    for job in view.arrived:
        if job.demand is not None and not view.nodes.suits(job).any():
            raise PolicyError(
                f"job {job.job_id} fits on no single node with what it requests; {who} each job on "
                "cores of one node"
            )
        if job.placement == "whole_nodes" or job.cores > widest:
            raise PolicyError(
                f"job {job.job_id} requests {job.cores} cores with placement {job.placement}; "
                f"{who} each job on cores of one node, which has at most {widest}"
            )
