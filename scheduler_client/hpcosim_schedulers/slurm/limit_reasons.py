"""Slurm's names for the limits that hold a job: the reasons that `squeue` shows.

See "JOB REASON CODES" of the manual page squeue(1) and
https://slurm.schedmd.com/job_reason_codes.html.
"""

from __future__ import annotations

_SHORT = {"cpu": "Cpu", "mem": "Mem", "node": "Node", "billing": "Billing"}
_OF_QOS = {**_SHORT, "mem": "Memory"}


def _kind(tres: str, names: dict[str, str]) -> str:
    if tres in names:
        return names[tres]
    return "GRES" if tres.startswith("gres/") else "License"


def _limit(tres: str, *with_suffix: str) -> str:
    return "Limit" if tres in with_suffix else ""


def group(owner: str, tres: str) -> str:
    """Return the reason of GrpTRES; `owner` is `Assoc` or `QOS`."""
    return f"{owner}Grp{_kind(tres, _SHORT)}{_limit(tres, 'cpu', 'mem', 'node')}"


def group_minutes(owner: str, tres: str, *, running: bool = False) -> str:
    """Return the reason of GrpTRESMins, or of GrpTRESRunMins if `running`."""
    names = _SHORT if owner == "Assoc" else _OF_QOS
    kind = "CPU" if tres == "cpu" else _kind(tres, names)
    return f"{owner}Grp{kind}{'Run' if running else ''}Minutes{_limit(tres, 'cpu')}"


def per_job(owner: str, tres: str) -> str:
    """Return the reason of MaxTRESPerJob."""
    names = _SHORT if owner == "Assoc" else _OF_QOS
    return f"{owner}Max{_kind(tres, names)}PerJob{_limit(tres, 'cpu', 'node')}"


def per_node(owner: str, tres: str) -> str:
    """Return the reason of MaxTRESPerNode."""
    return f"{owner}Max{_kind(tres, _SHORT if owner == 'Assoc' else _OF_QOS)}PerNode"


def minutes_per_job(owner: str, tres: str) -> str:
    """Return the reason of MaxTRESMinsPerJob."""
    names = _SHORT if owner == "Assoc" else _OF_QOS
    return f"{owner}Max{_kind(tres, names)}MinutesPerJob{_limit(tres, 'cpu')}"


def per_user(tres: str) -> str:
    """Return the reason of MaxTRESPerUser."""
    return f"QOSMax{_kind(tres, _OF_QOS)}PerUser{_limit(tres, 'cpu', 'node')}"


def per_account(tres: str) -> str:
    """Return the reason of MaxTRESPerAccount."""
    return f"Max{_kind(tres, _OF_QOS)}PerAccount"


def run_minutes(of: str, tres: str) -> str:
    """Return the reason of MaxTRESRunMinsPerUser or PerAccount; `of` is `User` or `Account`."""
    kind = "CPU" if tres == "cpu" else _kind(tres, _OF_QOS)
    return f"QOSMax{kind}RunMinutesPer{of}{_limit(tres, 'cpu')}"


def least(tres: str) -> str:
    """Return the reason of MinTRESPerJob."""
    if tres == "cpu":
        return "QOSMinCpuNotSatisfied"
    return f"QOSMin{_kind(tres, _OF_QOS)}"
