#!/usr/bin/env python3
"""Runs a command on a Slurm cluster of this host, which ends with the command.

Needs root, Debian's packages slurm-wlm and munge, and Python's standard library. All files are in
a temporary folder, which is removed at the end. See the README of this folder.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from slurm.configuration import ClusterError, Instance, free_ports, program, write
from slurm.daemons import adopt_orphans, end_all, last_lines, reap, start, start_again, status_of

PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "setpriv")
DATABASE_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr")
REAP_S = 0.2


def main() -> int:
    """Run the command on a cluster; return its exit status."""
    options = _parsed()
    adopt_orphans()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        _check(options)
        with _cluster(options) as instance:
            return _run(options.command) if options.command else _serve(instance)
    except ClusterError as error:
        sys.stderr.write(f"cluster.py: {error}\n")
        return 2
    except KeyboardInterrupt as stopped:
        return 128 + (stopped.args[0] if stopped.args else signal.SIGINT)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Run a command on a Slurm cluster of this host, which ends with the command. "
        "The cluster listens on the loopback interface only. SLURM_CONF names it to the command.",
        epilog="Without a command the cluster runs until Ctrl-C or the end of standard input; "
        "the first line of standard output, `export SLURM_CONF=...`, says that it is ready. A line "
        "of standard input, `slurmctld` or the name of a node, starts a daemon that has ended.",
    )
    parser.add_argument("--nodes", type=_count, default=8, metavar="N", help="default: 8")
    parser.add_argument("--cpus", type=_count, default=1, metavar="N", help="of a node; default: 1")
    parser.add_argument(
        "--gpus", type=int, default=0, metavar="N", help="of a node, only counted; default: 0"
    )
    parser.add_argument(
        "--for",
        dest="mode",
        choices=("shadow", "place"),
        default="shadow",
        help="shadow: an ordinary cluster with one partition; place: jobs wait in the partition "
        "`queue` until a bridge places them in `main`, and nodes can be switched; default: shadow",
    )
    parser.add_argument(
        "--accounting", action="store_true", help="with slurmdbd and MariaDB, which are installed"
    )
    parser.add_argument(
        "--scheduler",
        choices=("builtin", "backfill"),
        default="builtin",
        help="Slurm's own scheduler; default: builtin",
    )
    parser.add_argument(
        "--node-options", default="", metavar="TEXT", help="such as 'RealMemory=4000 Feature=fast'"
    )
    parser.add_argument(
        "--add", action="append", default=[], metavar="LINE", help="a line for slurm.conf"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    options = parser.parse_args()
    if options.command[:1] == ["--"]:
        del options.command[0]
    return options


def _count(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 1000:
        raise argparse.ArgumentTypeError("expected a number from 1 to 1000")
    return number


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def _check(options: argparse.Namespace) -> None:
    """Check that this host can have a cluster."""
    if os.getuid() != 0:
        raise ClusterError("expected root: slurmd starts jobs as their users")
    os.environ["PATH"] += os.pathsep + "/usr/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise ClusterError(f"{', '.join(missing)} not found: apt-get install slurm-wlm munge")
    missing = [name for name in DATABASE_PROGRAMS if shutil.which(name) is None]
    if options.accounting and missing:
        raise ClusterError(
            f"--accounting: {', '.join(missing)} not found: apt-get install slurmdbd mariadb-server"
        )
    if options.command and shutil.which(options.command[0]) is None:
        raise ClusterError(f"{options.command[0]}: command not found")


@contextmanager
def _cluster(options: argparse.Namespace) -> Iterator[Instance]:
    """Start a cluster; end all its processes and remove its files afterwards."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(end_all)
        # Instances that start at the same time take turns, so that no two find the same ports free.
        with open(program("slurmctld"), "rb") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            instance = Instance(folder, options, free_ports(options.nodes + 2))
            write(instance)
            os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
            try:
                start(instance)
            except ClusterError as error:
                raise ClusterError(f"{error}{last_lines(folder / 'log')}") from None
        yield instance


def _run(command: list[str]) -> int:
    """Run a command; return its exit status."""
    process = subprocess.Popen(command)  # noqa: S603
    try:
        return status_of(process.pid)
    except KeyboardInterrupt:
        process.terminate()  # Ctrl-C reaches it anyway, SIGTERM does not
        raise


def _serve(instance: Instance) -> int:
    """Start the daemons that standard input names until it ends; return the exit status."""
    sys.stdout.write(f"export SLURM_CONF={instance.folder}/slurm.conf\n")
    sys.stdout.flush()
    rest = b""
    while True:
        while not select.select([sys.stdin], [], [], REAP_S)[0]:
            reap()
        if not (read := os.read(sys.stdin.fileno(), 4096)):
            return 0
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            start_again(instance, line.decode().strip())


if __name__ == "__main__":
    sys.exit(main())
