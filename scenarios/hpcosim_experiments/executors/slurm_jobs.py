"""Submission, state and cancellation of Slurm jobs, through submitit.

submitit asks `sacct` for the state of jobs, which fails without accounting. Here `squeue` says
which jobs are there, and `scontrol` how a recent one has ended.
"""

from __future__ import annotations

import io
import logging
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import Any

from hpcosim_experiments.executors.calls import ONE_THREAD, environment
from hpcosim_experiments.executors.errors import ExecutorError
from hpcosim_experiments.executors.settings import Slurm
from hpcosim_experiments.executors.slurm_element import Element, run_element

COMMAND_TIMEOUT_S = 60.0
PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")
LIST = ("squeue", "--noheader", "--array", "--format=%i")


class SlurmJobs:
    """The jobs of an executor.

    Args:
        settings: parameters of the jobs.
        folder: folder for scripts and logs of submitit.

    Raises:
        ExecutorError: submitit is not installed, or this machine has no Slurm.
    """

    def __init__(self, settings: Slurm, folder: Path) -> None:
        try:
            submitit = import_module("submitit")
        except ImportError:
            raise ExecutorError(
                "the Slurm executor needs the extra slurm: pip install 'hpcosim[slurm]'"
            ) from None
        self._on_slurm = settings.cluster == "slurm"
        if self._on_slurm and (missing := [each for each in PROGRAMS if not shutil.which(each)]):
            raise ExecutorError(
                f"this machine has no Slurm: {', '.join(missing)} not found on PATH; run the "
                "command on a login node of the cluster"
            )
        logging.getLogger("submitit").setLevel(logging.CRITICAL)
        self._processes: list[Any] = []
        self._executor: Any = submitit.AutoExecutor(folder, cluster=settings.cluster)
        self._executor.update_parameters(**_parameters(settings))

    def submit(self, elements: Sequence[Element]) -> list[Any]:
        """Submit elements as an array; return the submitit job of each.

        Raises:
            ExecutorError: Slurm does not accept the array, or does not answer.
        """
        try:
            # submitit prints what sbatch says, and raises it too
            with environment(ONE_THREAD), redirect_stderr(io.StringIO()):
                jobs = list(self._executor.map_array(run_element, elements))
        except OSError:
            raise
        except Exception as error:  # submitit raises what it finds in the output of sbatch
            why = " ".join(str(error).split()) or type(error).__name__
            raise ExecutorError(f"Slurm does not accept the jobs: {why}") from None
        if not self._on_slurm:
            self._processes += jobs
        return jobs

    def present(self, jobs: Iterable[Any]) -> set[str] | None:
        """Return the identifiers of the jobs that wait or run; None: Slurm does not answer."""
        jobs = list(jobs)
        if not self._on_slurm:
            return {job.job_id for job in jobs if not job.done()}
        arrays = sorted({job.job_id.partition("_")[0] for job in jobs})
        listed = _output(*LIST, f"--jobs={','.join(arrays)}")
        return None if listed is None else set(listed.split())

    def end(self, job: Any) -> str:
        """Return how a job has ended, such as TIMEOUT, and where its log is."""
        state = ""
        if self._on_slurm:
            shown = _output("scontrol", "--oneliner", "show", "job", job.job_id) or ""
            found = re.search(r"\bJobState=(\w+)", shown)
            state = f" as {found[1]}" if found else ""
        return f"its Slurm job {job.job_id} ended{state} without a result; see {job.paths.stderr}"

    def cancel(self, jobs: Iterable[Any]) -> None:
        """Cancel jobs."""
        jobs = list(jobs)
        if not self._on_slurm:
            for job in jobs:
                job.cancel(check=False)
        elif jobs:
            _output("scancel", *sorted({job.job_id for job in jobs}))

    def close(self) -> None:
        """Wait for the end of processes on this machine."""
        while any(not job.done() for job in self._processes):
            time.sleep(0.02)


def _parameters(settings: Slurm) -> dict[str, Any]:
    """Return the parameters of submitit."""
    exports = [f"export {name}={value}" for name, value in ONE_THREAD.items()]
    wanted = {
        "name": "hpcosim",
        "timeout_min": settings.time_min,
        "slurm_partition": settings.partition,
        "slurm_mem": None if settings.memory_mb is None else f"{settings.memory_mb}M",
        "slurm_array_parallelism": settings.workers or settings.array_size,
        "slurm_setup": [*settings.setup, *exports],
        "slurm_use_srun": False,  # a job step has no use for a single process
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _output(*command: str) -> str | None:
    """Return the output of a command; None: Slurm does not answer."""
    try:
        done = subprocess.run(  # noqa: S603 (no shell)
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode and "Invalid job id" not in done.stderr:  # a job that ended is forgotten
        return None
    return done.stdout
