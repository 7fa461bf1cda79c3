"""Files of a cluster: its configuration, its folders and its ports."""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import socket
import string
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOTIFY = HERE.parents[1] / "server" / "hpcosim_slurm" / "notify.sh"
PORTS = range(20_000, 32_000)  # below those that Linux gives to clients


class ClusterError(Exception):
    """The cluster cannot start."""


class FileTemplate(string.Template):
    """A file in which `@name` stands for a value."""

    delimiter = "@"


@dataclass(frozen=True)
class Instance:
    """A cluster of this host.

    Attributes:
        ports: free ports: controller, slurmdbd, then one for each node.
    """

    folder: Path
    options: argparse.Namespace
    ports: range
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes."""
        return [f"node{number}" for number in range(self.options.nodes)]


def free_ports(count: int) -> range:
    """Return free ports in a row."""
    for _ in range(100):
        first = random.choice(PORTS[:-count])
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    taken = stack.enter_context(socket.socket())
                    taken.bind(("127.0.0.1", port))
            return range(first, first + count)
        except OSError:
            continue
    raise ClusterError(f"no {count} free ports in a row from {PORTS[0]} to {PORTS[-1]}")


def write(instance: Instance) -> None:
    """Write the configuration, and the folders that the daemons expect."""
    folder, options = instance.folder, instance.options
    folder.chmod(0o755)
    for name in ("log", "state", "key"):
        (folder / name).mkdir(mode=0o700)
    (folder / "spool").mkdir(mode=0o755)  # users read the scripts of their jobs there
    gres = f"Gres=gpu:{options.gpus}" if options.gpus else ""
    names = {
        "folder": str(folder),
        "scheduler": f"sched/{options.scheduler}",
        "controller_port": str(instance.ports[0]),
        "database_daemon_port": str(instance.ports[1]),
        "cpus": str(options.cpus),
        "node_options": f"{options.node_options} {gres}",
        "gpu_files": f"{folder}/spool/gpu[0-{options.gpus - 1}]",
        "nodes": f"node[0-{options.nodes - 1}]",
        "node_ports": f"[{instance.ports[2]}-{instance.ports[-1]}]",
        "notify": f"/bin/sh {NOTIFY} {folder}/bridge",
        "slurmd": program("slurmd"),
        "scontrol": program("scontrol"),
    }
    names["accounting"] = _filled("accounting.conf", names) if options.accounting else ""
    partitions = _filled("placed.conf" if options.mode == "place" else "ordinary.conf", names)
    names["partitions"] = "\n".join([partitions, *options.add])
    files = ["slurm.conf", "cgroup.conf"]
    if options.mode == "place":
        files += ["job_submit.lua", "suspend.sh", "resume.sh", "started.sh", "ended.sh"]
    if options.gpus:
        files.append("gres.conf")
        for number in range(options.gpus):
            (folder / "spool" / f"gpu{number}").touch()
    if options.accounting:
        files.append("slurmdbd.conf")
    for name in files:
        path = folder / name
        path.write_text(_filled(name, names))
        path.chmod(0o755 if path.suffix == ".sh" else 0o644 if name == "slurm.conf" else 0o600)
    key = folder / "key" / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)


def _filled(name: str, names: dict[str, str]) -> str:
    return FileTemplate((HERE / name).read_text()).substitute(names)


def program(name: str) -> str:
    """Return the path of a program that exists."""
    found = shutil.which(name)
    assert found is not None, name
    return found
