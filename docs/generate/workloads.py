"""The rules of the job log readers, from their docstrings."""

from __future__ import annotations

from docs.generate.docstrings import prose

from hpcosim_workloads.logs.swf import read_swf


def swf_rules() -> str:
    """Return how a log in the Standard Workload Format is read, without the first sentence."""
    return prose(read_swf.__doc__ or "").partition("\n\n")[2]
