"""Servers and schedulers as processes, with waiting for conditions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

HPCOSIM = (sys.executable, "-m", "hpcosim.cli")
SCENARIO = """
name: {name}
seed: 3
platform:
  nodes:
    - count: 3
      processors: [{{cores: 4, clock_ghz: 2.0, static_w: 100, dynamic_w: 5, idle_fraction: 0.3}}]
    - count: 2
      processors:
        - {{cores: 2, static_w: 30, dynamic_w: 7}}
        - {{cores: 1, static_w: 20, dynamic_w: 0}}
workload:
  synthetic:
    {{model: poisson, jobs: {jobs}, mean_interarrival_s: 190, cores: [1, 20], run_s: [10, 2000]}}
  reference_clock_ghz: 2.0
scheduler: {{name: easy}}
dynamic_jobs: true
"""
SMALL, LONG = 40, 100_000  # number of jobs; a run of `long` takes minutes
SOON_S = 120.0
"""Timeout for another process, s: ample on a busy machine."""
WELL_INTO_A_RUN = 1_000
"""Number of waits that shows that a scheduler has started; `long` has 100 times as many."""
Results = dict[str, bytes]


def eventually(condition: Callable[[], Any], *, within_s: float = SOON_S) -> Any:
    """Call a function until it returns a true value, and return that value.

    Args:
        condition: the function, called every 10 ms.
        within_s: timeout, s.

    Raises:
        AssertionError: the timeout has expired.
    """
    until_s = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < until_s, f"nothing true within {within_s:g} s"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> dict[str, int]:
    """Return the child processes of a process, by subcommand."""
    found: dict[str, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_text().split("\0")
            words.append((folder / "comm").read_text().strip())  # of a fork
        except OSError:
            continue
        if parent == pid:
            found |= {name: int(folder.name) for name in ("serve", "schedule") if name in words}
    return found


def waits(pid: int) -> int:
    """Return the number of voluntary context switches of a process: one for each reply."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def read(folder: Path) -> Results:
    """Return the files of a results folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def anonymous(results: Results) -> Results:
    """Return results without the client's description of its policy in `run.json`."""
    run = json.loads(results["run.json"])
    del run["policy"]
    return results | {"run.json": json.dumps(run).encode()}


def family(process: subprocess.Popen[str]) -> dict[int, str]:
    """Return the states of a process and of all that belong to it, by number.

    Those belong to it that are in its session, or that one of them has started.

    Args:
        process: one that was started in a session of its own. Its number is that of the session as
            long as one of them lives, also after its end.
    """
    found: dict[int, tuple[str, int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            found[int(folder.name)] = words[0], int(words[1]), int(words[3])
    ours = {process.pid} if process.returncode is None else set[int]()
    before = -1
    while len(ours) > before:
        before = len(ours)
        ours |= {
            pid
            for pid, (_, parent, session) in found.items()
            if session == process.pid or parent in ours
        }
    return {pid: found[pid][0] for pid in ours if pid in found}


def kill(pid: int) -> None:
    """Kill a process if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Processes:
    """Starts processes; at the end kills the remaining ones and closes all pipes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self._pids: set[int] = set()

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start `hpcosim` with these arguments."""
        return self.start_command(
            [*HPCOSIM, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
        )

    def start_command(self, words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a command, with options of `Popen`, in a session of its own."""
        process: subprocess.Popen[str] = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, text=True, start_new_session=True, **options
        )
        self._started.append(process)
        return process

    def watch(self, *pids: int) -> None:
        """Add processes to kill at the end."""
        self._pids |= set(pids)

    def end(self) -> None:
        """Kill the remaining processes and close the pipes of all, whatever happens to one."""
        with ExitStack() as last:
            for process in self._started:
                last.callback(process.communicate, timeout=SOON_S)
            for process in self._started:
                for pid in family(process):
                    kill(pid)
            for pid in self._pids:
                if alive(pid) and b"hpcosim" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    kill(pid)


def output(process: subprocess.Popen[str], within_s: float = SOON_S) -> tuple[str, str]:
    """Wait for the end of a process, and return its standard output and its standard error.

    Args:
        process: one of `Processes`.
        within_s: timeout, s. A process that has not ended then is killed, and the test fails and
            shows what the process has written.
    """
    try:
        return process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        left = family(process)
        for pid in left:
            kill(pid)
        written = "".join(text or "" for text in process.communicate(timeout=SOON_S))
        pytest.fail(
            f"process {process.pid}, status {process.returncode}, has not closed its output within"
            f" {within_s:g} s; these lived, with their states: {left}; it had written:\n{written}"
        )


class Server:
    """A server in its own process."""

    def __init__(self, processes: Processes, *arguments: str | Path, out: Path) -> None:
        self.out = out
        self.lines: list[str] = []
        self.process = processes.start(
            "serve", *arguments, "--bind", "tcp://127.0.0.1:*", "--out", out
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address: str = eventually(lambda: self.log("listening"))[0]["address"]

    def _read(self) -> None:
        assert self.process.stderr is not None
        with suppress(ValueError):  # `Processes.end` has closed it
            self.lines.extend(self.process.stderr)

    def log(self, event: str) -> list[dict[str, Any]]:
        """Return the log entries of an event so far."""
        entries = [json.loads(line) for line in list(self.lines)]
        return [entry for entry in entries if entry["event"] == event]

    def end(self) -> int:
        """Wait for the process and return its exit status."""
        status = self.process.wait(SOON_S)
        self._reader.join(SOON_S)
        return status

    def results(self, session: str) -> Results:
        """Wait for the results of a session and return them."""
        return read(eventually(lambda: list(self.out.glob(f"*-{session[:8]}")))[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scenarios `small` and `long`."""
    folder = tmp_path_factory.mktemp("transports")
    for name, jobs in (("small", SMALL), ("long", LONG)):
        (folder / f"{name}.yaml").write_text(SCENARIO.format(name=name, jobs=jobs))
    return folder


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """A process starter that kills its processes after the test."""
    processes = Processes(tmp_path)
    yield processes
    processes.end()
