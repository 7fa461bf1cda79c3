"""Small Batsim input files for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

# Computing, sleeping, switching off (4 s) and switching on (10 s).
POWER_STATES = "100Mf, 50Mf, 1e-9Mf, 0.25f, 0.1f"
WATTS = "100:100:200, 60:60:90, 10:10:10, 110:110:110, 130:130:130"


def write_platform(folder: Path, hosts: int, *, energy: bool = False) -> Path:
    """Write a platform of equal hosts of 100 Mflop/s, `host0` and on, and a master."""
    speed = POWER_STATES if energy else "100Mf"
    power = (
        f'<prop id="wattage_per_state" value="{WATTS}"/><prop id="sleep_pstates" value="2:3:4"/>'
    )
    lines = [
        f'<host id="{name}" speed="{speed}">{power if energy else ""}</host>'
        for name in ("master_host", *(f"host{i}" for i in range(hosts)))
    ]
    path = folder / "platform.xml"
    path.write_text(
        '<?xml version="1.0"?>\n<platform version="4.1">\n<zone id="z" routing="None">\n'
        + "\n".join(lines)
        + "\n</zone>\n</platform>\n",
        encoding="utf-8",
    )
    return path


def write_workload(
    folder: Path, jobs: list[dict[str, Any]], profiles: dict[str, Any], name: str = "jobs.json"
) -> Path:
    """Write a workload."""
    path = folder / name
    text = json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles})
    path.write_text(text, encoding="utf-8")
    return path


def delays(count: int, hosts: int, rng: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    """Return delay jobs, submitted from 1 s on, and their profiles."""
    submit_s = 1 + np.cumsum(rng.integers(0, 20, count))
    delay_s = rng.integers(1, 60, count)
    jobs = [
        {
            "id": number,
            "subtime": int(submit_s[number]),
            "res": int(rng.integers(1, hosts + 1)),
            "walltime": int(delay_s[number]) + 10,
            "profile": f"d{delay_s[number]}",
        }
        for number in range(count)
    ]
    return jobs, {f"d{s}": {"type": "delay", "delay": int(s)} for s in sorted(set(delay_s))}
