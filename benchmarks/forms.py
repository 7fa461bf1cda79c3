"""FCFS in five forms on one scenario: the schedule of each, and the jobs per second of a run.

In Python; as a library in C, in the simulator's process and in a child; as a process of Batsim 4;
as a library of Batsim 5. It needs a C compiler.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hpcosim
from hpcosim_batsim.bridge.requester import BatsimTimeouts
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.edc.component_run import Outputs5, run_batsim5
from hpcosim_batsim.edc.components import ComponentPlan
from hpcosim_batsim.run import Inputs, Outputs, run_batsim
from hpcosim_slurm.files.batsim import import_batsim

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support import batsim4_fcfs
from support.batsim5 import compile_fcfs, rewrite_for_batsim5
from support.batsim_inputs import delays, write_platform, write_workload

C = Path(__file__).parents[1] / "scheduler_client" / "c"
HOSTS = 32
ROUNDS = 3

Schedule = Mapping[str, tuple[float, float]]
"""Start and end of each job, s, to the microsecond."""


def run(smoke: bool) -> dict[str, float]:
    """Return the figures.

    Raises:
        AssertionError: two forms give different schedules.
    """
    jobs = 100 if smoke else 5000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forms = _forms(folder, jobs)
        best = dict.fromkeys(forms, np.inf)
        schedules = {}
        for _ in range(1 if smoke else ROUNDS):
            for form, scheduled in forms.items():
                began_s = time.perf_counter()
                schedules[form] = scheduled()
                best[form] = min(best[form], time.perf_counter() - began_s)
    first, *others = schedules.values()
    assert len(first) == jobs
    assert all(each == first for each in others)
    return {f"{form}, jobs/s": jobs / wall_s for form, wall_s in best.items()}


def _forms(folder: Path, count: int) -> Mapping[str, Callable[[], Schedule]]:
    """Return what runs each form."""
    jobs, profiles = delays(count, HOSTS // 2, np.random.default_rng(1))
    workload = write_workload(folder, jobs, profiles, "4.json")
    workload_5 = rewrite_for_batsim5(workload, folder / "5.json")
    platform = write_platform(folder, HOSTS)
    scenario = folder / "scenario.yaml"
    import_batsim(platform, [workload], scenario, "jobs.jsonl", force=False)
    library = folder / "libfcfs.so"
    subprocess.run(
        ["make", "-C", C, f"LIBRARY={library}", library],
        check=True,
        capture_output=True,
    )
    (folder / "5").mkdir()
    library_5 = compile_fcfs(folder / "5")

    def own(scheduler: str) -> Callable[[], Schedule]:
        return lambda: _of_run(hpcosim.run(scenario, scheduler))

    def batsim_4() -> Schedule:
        address = f"ipc://{folder}/batsim"
        scheduler = subprocess.Popen([sys.executable, batsim4_fcfs.__file__, address])
        try:
            prefix = folder / "4" / "out"
            run_batsim(
                _inputs(platform, workload),
                BatsimOptions(),
                address,
                Outputs(prefix=prefix, machine_states=False, wall_times=False),
                BatsimTimeouts(),
                _ignore,
            )
        finally:
            scheduler.kill()
            scheduler.wait()
        return _of_csv(folder / "4" / "out_jobs.csv")

    def batsim_5() -> Schedule:
        run_batsim5(
            _inputs(platform, workload_5),
            [ComponentPlan(kind="library", target=str(library_5), init=b"")],
            Outputs5(
                prefix=f"{folder}/5/out_", machine_states=False, pstates=False, wall_times=False
            ),
            BatsimTimeouts(),
            energy=False,
            arguments=[],
            report=_ignore,
        )
        return _of_csv(folder / "5" / "out_jobs.csv")

    return {
        "Python": own("fcfs"),
        "library in C in the simulator's process": own(f"in-process:{library}"),
        "library in C in a child process": own(str(library)),
        "process of Batsim 4": batsim_4,
        "library of Batsim 5": batsim_5,
    }


def _inputs(platform: Path, workload: Path) -> Inputs:
    return Inputs(
        platform=platform,
        workloads=(workload,),
        events=None,
        master="master_host",
        roles={},
        mmax=0,
        mmax_workload=False,
    )


def _of_run(found: Any) -> Schedule:
    columns = (found.jobs[name].tolist() for name in ("job_id", "start_s", "end_s"))
    return {
        f"w0!{number - 1}": (round(start_s, 6), round(end_s, 6))
        for number, start_s, end_s in zip(*columns, strict=True)
    }


def _of_csv(path: Path) -> Schedule:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    prefix = "" if "!" in rows[0]["job_id"] else "w0!"
    return {
        prefix + row["job_id"]: (float(row["starting_time"]), float(row["finish_time"]))
        for row in rows
    }


def _ignore(_: str) -> None:
    """Take a warning or a message."""
