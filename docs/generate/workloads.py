"""The rules of the job log readers, from their docstrings."""

from __future__ import annotations

import re

from docs.generate.docstrings import prose

from hpcosim_workloads.logs.swf import read_swf


def swf_rules() -> str:
    """Return how a log in the Standard Workload Format is read, in the words of a scenario."""
    text = prose(read_swf.__doc__ or "").partition("\n\n")[2]
    text = text.replace("`JobTable.skipped`", "`run.json`")
    return re.sub(r'="(\w+)"`', r": \1`", text)
