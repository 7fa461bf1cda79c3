"""Daemons of a cluster: their start, and what they say if it fails."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from slurm.configuration import ClusterError, Instance, program

STARTED_S = 20.0


STOPPED_S = 1.0  # then they are killed: slurmstepd would wait for its controller for minutes
PR_SET_CHILD_SUBREAPER = 36


def start(instance: Instance) -> None:
    """Start the daemons, and wait until all nodes are idle."""
    folder, options = instance.folder, instance.options
    _daemon(instance, "munged", "--foreground", "--force", *_munge_options(folder))
    _wait(instance, "munged", (folder / "munge.socket").exists)
    if options.accounting:
        _start_accounting(instance)
    start_again(instance, "slurmctld")
    for name in instance.nodes:
        start_again(instance, name)
    idle = {f"{name} idle" for name in instance.nodes}
    shown = ("sinfo", "--noheader", "--Node", "--format=%N %T")
    _wait(instance, "the nodes", lambda: set((_output(*shown) or "").splitlines()) == idle)


def start_again(instance: Instance, name: str) -> None:
    """Start slurmctld, or the daemon of the node of this name."""
    if name == "slurmctld":
        _daemon(instance, "slurmctld", "-D", "-i")
    elif name in instance.nodes:
        _daemon(instance, "slurmd", "-D", "-N", name)
    else:
        raise ClusterError(f"expected slurmctld or a node, got {name[:80]!r}")


def _munge_options(folder: Path) -> list[str]:
    key = folder / "key"
    return [
        f"--key-file={key}/munge.key",
        f"--socket={folder}/munge.socket",
        f"--pid-file={key}/munged.pid",
        f"--log-file={folder}/log/munged",
        f"--seed-file={key}/munged.seed",
    ]


def _start_accounting(instance: Instance) -> None:
    """Start MariaDB and slurmdbd, and add the cluster and an account."""
    data = instance.folder / "database"
    listening = instance.folder / "mariadb.socket"
    options = ["--no-defaults", f"--datadir={data}", "--user=root"]
    if _output("mariadb-install-db", *options, "--auth-root-authentication-method=socket") is None:
        raise ClusterError("mariadb-install-db failed")
    files = [f"--socket={listening}", f"--pid-file={instance.folder}/mariadb.pid"]
    _daemon(instance, "mariadbd", *options, "--skip-networking", *files)
    _wait(instance, "mariadbd", listening.exists)
    os.environ["MYSQL_UNIX_PORT"] = str(listening)  # where slurmdbd looks for `localhost`
    _daemon(instance, "slurmdbd", "-D")
    is_ready = ["sacctmgr", "-n", "list", "cluster"]
    _wait(instance, "slurmdbd", lambda: _output(*is_ready) is not None)
    for what in (
        ["cluster", "hpcosim"],
        ["account", "hpcosim", "Cluster=hpcosim"],
        ["user", "root", "Account=hpcosim", "Cluster=hpcosim"],
    ):
        _output("sacctmgr", "-i", "add", *what)


def _daemon(instance: Instance, name: str, *arguments: str) -> None:
    """Start a program in the foreground. It ends with this process, not by Ctrl-C."""
    with open(instance.folder / "log" / f"{name}.out", "ab") as out:
        daemon = subprocess.Popen(  # noqa: S603
            [program("setpriv"), "--pdeathsig", "TERM", program(name), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    instance.daemons[shlex.join([name, *arguments])] = daemon


def _wait(instance: Instance, what: str, is_ready: Callable[[], bool]) -> None:
    until_s = time.monotonic() + STARTED_S
    while not is_ready():
        for name, daemon in instance.daemons.items():
            if daemon.poll() is not None:
                raise ClusterError(f"{name} ended during the start")
        if time.monotonic() > until_s:
            raise ClusterError(f"{what} not ready after {STARTED_S:g} s")
        time.sleep(0.05)


def _output(*command: str) -> str | None:
    """Return the standard output of a command; None: it has failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return None if done.returncode else done.stdout


def last_lines(folder: Path, count: int = 3) -> str:
    """Return the last lines of each log, for an error."""
    found = ""
    for path in sorted(folder.glob("*")):
        lines = path.read_text(errors="replace").splitlines()[-count:]
        found += "".join(f"\n{path.name}: {line}" for line in lines)
    return found


def adopt_orphans() -> None:
    """Make whatever daemons and jobs leave behind a child of this process; see prctl(2)."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def status_of(pid: int) -> int:
    """Wait for a child; return its exit status, 128 + its number after a signal.

    Other children that end meanwhile are reaped.
    """
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def end_all() -> None:
    """End all descendants, and wait for them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    until_s = time.monotonic() + STOPPED_S
    sent = signal.SIGTERM
    told: set[int] = set()
    while reap() and (found := _descendants(os.getpid())):
        if sent == signal.SIGTERM and time.monotonic() > until_s:
            sent, told = signal.SIGKILL, set()
        for pid in found - told:
            try:
                os.kill(pid, sent)
            except ProcessLookupError:
                continue
        told |= found
        time.sleep(0.02)


def reap() -> bool:
    """Reap children that have ended; return whether there are others.

    Slurm waits for the end of a cancelled job until its processes are reaped.
    """
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return True
        except ChildProcessError:
            return False


def _descendants(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level} - found
        found |= level
    return found
