#!/usr/bin/env python3
"""Runs jobs on the Slurm cluster of SLURM_CONF while a scheduler watches or places them.

    python3 cluster.py --for MODE -- python run_jobs.py --mode MODE --out FOLDER

The folder gets the journal of the bridge and its report. In mode shadow, a twin follows the
cluster, too: it says when the waiting jobs start, and in the end how good its answers were. Python
is that of an environment with hpcosim.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
JOBS = HERE / "jobs.jsonl"
HPCOSIM = [sys.executable, "-m", "hpcosim.cli"]
BRIDGE = {"shadow": [], "place": ["--partition=main", "--waiting-partition=queue"]}
TWIN = ["twin", "--http", "127.0.0.1:0", "--poll-s", "0.5", "--check-s", "5"]
TWIN += ["--forecast-s", "5", "--futures", "10"]
SOON_S = 20.0
LONG_S = 1000.0
LOOK_S = 0.25


class RunError(Exception):
    """The jobs cannot be run."""


def main() -> int:
    """Run the jobs; return the exit status."""
    options = _parsed()
    try:
        run(options)
    except (RunError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"run_jobs.py: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=BRIDGE, default="shadow")
    parser.add_argument("--scheduler", default="easy", help="default: easy")
    parser.add_argument("--jobs", type=Path, default=JOBS, help="JSON lines; default: 20 jobs")
    parser.add_argument("--out", type=Path, required=True, help="folder for journal and report")
    parser.add_argument("--tolerance-s", type=float, default=2.0, help="of the report; default: 2")
    return parser.parse_args()


def run(options: argparse.Namespace) -> None:
    """Run jobs while a scheduler watches or places them, and write the report."""
    folder = options.out
    folder.mkdir(parents=True, exist_ok=True)
    journal = folder / "journal.jsonl"
    journal.unlink(missing_ok=True)
    cluster = _cluster()
    address = f"ipc://{cluster}/scheduler"
    bridge = ["slurm", "--bind", address, "--mode", options.mode, *BRIDGE[options.mode]]
    bridge += ["--poll-s", str(LOOK_S), "--journal", str(journal)]
    if options.mode == "place":  # an ordinary cluster has no hooks
        bridge += ["--bell", f"{cluster}/bridge"]
    client = ["schedule", options.scheduler, "--explain", "--connect", address]
    with ExitStack() as stack:
        stack.enter_context(_running(bridge, folder / "bridge.log"))
        scheduler = stack.enter_context(_running(client, folder / "scheduler.log"))
        twin = folder / "twin" if options.mode == "shadow" else None
        if twin is not None:
            stack.enter_context(_running([*TWIN, "--folder", str(twin)], folder / "twin.log"))
        _wait(lambda: journal.exists() and '"opened"' in journal.read_text(), scheduler)
        jobs = _jobs(options.jobs)
        sys.stdout.write(f"{len(jobs)} jobs, {options.scheduler} in mode {options.mode}\n")
        sys.stdout.flush()
        submit(jobs)
        if twin is not None:
            _ask(twin, "queue")
        _wait(lambda: not _output("squeue", "--noheader"), scheduler, LONG_S)
        time.sleep(4 * LOOK_S)  # the bridge and the twin see the last end
        if twin is not None:
            _ask(twin, "record")
    report = ["slurm", "report", str(journal), "--tolerance-s", str(options.tolerance_s)]
    _hpcosim(*report, "--out", str(folder / "report"), "--force")


def _ask(twin: Path, question: str) -> None:
    """Ask the twin, and print its answer."""
    log, tokens = twin.with_name("twin.log"), twin / "tokens"
    lines = (json.loads(line) for line in log.read_text().splitlines())
    url = next(line["url"] for line in lines if "url" in line)
    token = tokens.read_text().splitlines()[-1].split()[0]
    sys.stdout.write(f"\nhpcosim ask {question}\n")
    sys.stdout.flush()
    words = [*HPCOSIM, "ask", question, "--twin", url]
    subprocess.run(words, env={**os.environ, "HPCOSIM_TWIN_TOKEN": token}, check=True)  # noqa: S603


def _cluster() -> Path:
    """Return the folder of the cluster."""
    path = os.environ.get("SLURM_CONF")
    if not path:
        raise RunError("SLURM_CONF is not set: run this with cluster.py, see the README")
    return Path(path).parent


def _hpcosim(*words: str) -> None:
    subprocess.run([*HPCOSIM, *words], check=True)  # noqa: S603


def _jobs(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def submit(jobs: Sequence[dict[str, Any]]) -> None:
    """Submit jobs at their times; they sleep for their run times."""
    begin_s = time.monotonic()
    for job in jobs:
        time.sleep(max(begin_s + job["submit_s"] - time.monotonic(), 0.0))
        limit = f"--time={max(round(job['requested_s'] / 60), 1)}"
        options = [limit, f"--ntasks={job['cores']}", f"--job-name=job{job['job_id']}"]
        wrapped = f"--wrap=exec sleep {job['run_s']}"
        _output("sbatch", "--output=/dev/null", "--chdir=/", *options, wrapped)


@contextmanager
def _running(words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of hpcosim, and stop it."""
    with log.open("wb") as out:
        process = subprocess.Popen([*HPCOSIM, *words], stdout=out, stderr=out)  # noqa: S603
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(
    is_over: Callable[[], bool], process: subprocess.Popen[bytes], within_s: float = SOON_S
) -> None:
    until_s = time.monotonic() + within_s
    while not is_over():
        if process.poll() is not None:
            raise RunError("the scheduler has ended: see scheduler.log")
        if time.monotonic() > until_s:
            raise RunError(f"not ready after {within_s:g} s")
        time.sleep(LOOK_S)


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
