"""`hpcosim import batsim`: a SimGrid platform and Batsim workloads as a scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.run import run_scenario
from support.commands import invoke

HEAD = '<?xml version="1.0"?>\n<platform version="4.1"><zone id="z" routing="None">'
MASTER = '<host id="master_host" speed="1Gf"/>'
TAIL = "</zone></platform>\n"
ASLEEP = (
    '<host id="{name}" speed="2Gf,1f,0.1f,0.2f" pstate="0"><prop id="wattage_per_state" '
    'value="90:95:190,9:9:9,125:125:125,101:101:101"/><prop id="sleep_pstates" value="1:2:3"/>'
    "</host>"
)
PROFILES = {
    "minute": {"type": "delay", "delay": 60},
    "sum": {"type": "parallel_homogeneous", "cpu": 20e9, "com": 0},
    "all": {"type": "parallel_homogeneous_total", "cpu": 20e9, "com": 0},
}


def hosts(*speeds: str) -> str:
    """Return hosts of these speeds."""
    return "".join(f'<host id="n{at}" speed="{speed}"/>' for at, speed in enumerate(speeds))


def imported(folder: Path, xml: str, *jobs: dict[str, Any]) -> tuple[Path, str]:
    """Return the scenario of a platform and jobs, and the report."""
    (folder / "p.xml").write_text(HEAD + MASTER + xml + TAIL)
    workload = {"nb_res": 4, "jobs": [*jobs], "profiles": PROFILES}
    (folder / "w.json").write_text(json.dumps(workload))
    out = folder / "imported.yaml"
    options = ("-p", folder / "p.xml", "-w", folder / "w.json", "-o", out)
    result = invoke("import", "batsim", *options)
    assert result.status == 0, result.err
    return out, result.out


def job(number: int, res: int, profile: str, **more: Any) -> dict[str, Any]:
    """Return a job of a workload."""
    return {"id": str(number), "subtime": number, "res": res, "profile": profile, **more}


def run_times(out: Path) -> list[float]:
    """Return the run times of the jobs of a scenario under its scheduler, s."""
    _, folder = run_scenario(out, out=out.parent / "out")
    rows = [line.split(",") for line in (folder / "jobs.csv").read_text().splitlines()]
    at = [rows[0].index(name) for name in ("start_s", "end_s")]
    return [float(row[at[1]]) - float(row[at[0]]) for row in rows[1:]]


def test_jobs_run_as_long_as_under_batsim(tmp_path: Path) -> None:
    """A delay lasts, computation takes work by speed, totals are shared by the hosts."""
    jobs = (
        job(1, 1, "minute"),
        job(2, 2, "sum"),
        job(3, 4, "all"),
        job(4, 1, "minute", walltime=9),
    )
    out, _ = imported(tmp_path, hosts("1Gf", "1Gf", "1Gf", "1Gf"), *jobs)
    assert run_times(out) == [60.0, 20.0, 5.0, 9.0]


def test_work_is_kept_where_hosts_differ_in_speed(tmp_path: Path) -> None:
    """The slowest host of a job determines its end."""
    jobs = (job(1, 1, "sum"), job(2, 1, "sum"), job(300, 2, "sum"))
    out, _ = imported(tmp_path, hosts("1Gf", "2Gf"), *jobs)
    assert run_times(out) == [20.0, 10.0, 20.0]


def test_power_and_sleep_states_become_those_of_nodes(tmp_path: Path) -> None:
    """Idle and full power, and the power and the times of switching, are kept."""
    xml = ASLEEP.format(name="a") + ASLEEP.format(name="b")
    out, _ = imported(tmp_path, xml, job(1, 1, "minute"))
    (group,) = Library([out], {}).default.scenario.platform.nodes
    assert (group.count, group.names) == (2, "a,b")
    assert group.idle_w == pytest.approx(90.0)
    assert group.static_w + group.dynamic_w == 190.0
    states = group.power_states
    assert states is not None
    host = read_platform(tmp_path / "p.xml").hosts[0]
    assert (states.sleep_w, states.switch_on_s) == (9.0, host.switch_time_s(3))
    assert (states.switch_off_w, states.switch_off_s) == (125.0, host.switch_time_s(2))


def test_what_has_no_counterpart_is_told(tmp_path: Path) -> None:
    """Jobs that need too many hosts are counted and left out."""
    out, report = imported(tmp_path, hosts("1Gf"), job(1, 1, "minute"), job(2, 9, "minute"))
    assert "1  jobs that need more hosts than there are (w0!2)" in report
    assert "1  power of hosts without a wattage: 0 W" in report
    assert len((tmp_path / "jobs.jsonl").read_text().splitlines()) == 1
    assert "# guessed" in out.read_text()


def test_a_wrong_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    """Nothing is written."""
    (tmp_path / "p.xml").write_text("<platform>")
    (tmp_path / "w.json").write_text("{}")
    options = ("-p", tmp_path / "p.xml", "-w", tmp_path / "w.json", "-o", tmp_path / "o.yaml")
    result = invoke("import", "batsim", *options)
    assert (result.status, result.error.count("\n")) == (2, 0)
    assert str(tmp_path / "p.xml") in result.error
    assert not (tmp_path / "o.yaml").exists()
