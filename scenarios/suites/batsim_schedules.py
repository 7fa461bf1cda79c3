"""Let a scheduler of Batsim decide the instances of a suite, and write its schedules.

    COMMAND="pybatsim easyBackfill -s {address}"
    python scenarios/suites/batsim_schedules.py backfilling-1 schedules "$COMMAND"

writes a schedule for each instance. `hpcosim benchmark run backfilling-1 --scheduler
'scripted:schedules/{instance}.csv' --name easyBackfill --out easyBackfill.zip` makes a submission
of them.

The scheduler speaks Batsim's protocol with `hpcosim_batsim`, which simulates the same jobs on as
many hosts of one core. Its command runs once for each instance.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.requester import BatsimTimeouts, WallTimes, exchange_messages
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.workload_json import read_workloads
from hpcosim_conformance.clients.connection import split_command, started
from hpcosim_experiments.benchmark.suite import find_suite, load_instance
from hpcosim_scenarios.running.library import LoadedScenario
from hpcosim_sim.record.recording import Recording


def main(suite_name: str, out: str, command: str) -> None:
    """Write the schedules of all instances of a suite."""
    suite, words = find_suite(suite_name), split_command(command)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for instance in suite.file.instances:
        loaded = load_instance(suite, instance)
        with tempfile.TemporaryDirectory() as scratch:
            bridge = _bridge(loaded, Path(scratch))
            address = f"ipc://{scratch}/s"
            with started(words, address):
                exchange_messages(bridge, address, BatsimTimeouts(), WallTimes())
        recording = bridge.run.simulation.recording
        _write(folder / f"{instance.name}.csv", recording, loaded)


def _bridge(loaded: LoadedScenario, folder: Path) -> Bridge:
    """Return a simulation of Batsim's kind of the jobs of an instance."""
    count = loaded.scenario.platform.core_count
    hosts = "".join(f'<host id="host{node:05}" speed="1Gf"/>' for node in range(count))
    platform, workload = folder / "platform.xml", folder / "jobs.json"
    platform.write_text(
        '<?xml version="1.0"?><platform version="4.1"><zone id="z" routing="None">'
        f'<host id="master_host" speed="1Gf"/>{hosts}</zone></platform>'
    )
    rows = list(loaded.jobs.rows())
    jobs = [
        {
            "id": job.job_id,
            "subtime": job.submit_s,
            "res": job.cores,
            "walltime": job.requested_s,
            "profile": str(job.job_id),
        }
        for job in rows
    ]
    profiles = {str(job.job_id): {"type": "delay", "delay": job.run_s} for job in rows}
    workload.write_text(json.dumps({"nb_res": count, "jobs": jobs, "profiles": profiles}))
    return Bridge(read_workloads([workload]), read_platform(platform), BatsimOptions())


def _write(path: Path, recording: Recording, loaded: LoadedScenario) -> None:
    """Write a schedule as `scripted` reads it, by the numbers of the jobs of the instance."""
    periods = recording.periods
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(("job_id", "start_s", "nodes"))
        for place, row in enumerate(periods.row):
            first = periods.first_place[place]
            nodes = periods.nodes[first : first + periods.places[place]]
            job_id = int(loaded.jobs.job_id[row])
            lines.writerow((job_id, repr(periods.start_s[place]), " ".join(map(str, nodes))))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (TypeError, subprocess.SubprocessError) as error:
        sys.exit(f"error: {error}")
