"""Bridges to a real cluster that tests kill and start again, and schedulers inside of tests."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

from hpcosim_client.connection import Answer, Connection, Timeouts
from hpcosim_protocol import Alarm, Decision, Event, EventKind, SetAlarm
from support.processes import eventually
from support.slurm_bridges import HPCOSIM
from support.slurm_cluster import SOON_S, SlurmCluster

PLACE = ("--mode", "place", "--partition", "main", "--waiting-partition", "queue")
"""Options of a bridge that places jobs of a cluster that was started with `--for place`."""

PLACED = re.compile(r"JobId=(\d+) Partition=main '?ReqNodeList=([^' ]+)")
"""A placement in the log, quoted as for a shell."""

AnyEvent = TypeVar("AnyEvent")


class LiveBridge:
    """A bridge in a process of its own.

    Args:
        cluster: its cluster.
        folder: folder of its journal, its log and its socket.
        options: options of `hpcosim slurm`.
    """

    def __init__(self, cluster: SlurmCluster, folder: Path, *options: str) -> None:
        self.address = f"ipc://{folder}/bridge"
        self.journal, self._log = folder / "journal", folder / "log"
        self._cluster = cluster
        self._command = [*HPCOSIM, "slurm", "--bind", self.address, "--journal", str(self.journal)]
        self._command += ["--poll-s", "0.2", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(SOON_S) == 0, self._log.read_text()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        before = len(self.entries("listening"))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._cluster.environment, stderr=log
            )
        eventually(self._listens(before))

    def _listens(self, before: int) -> Any:
        def check() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()
            return len(self.entries("listening")) > before

        return check

    def kill(self) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(SOON_S)

    def entries(self, event: str) -> list[dict[str, str]]:
        """Return the entries of one kind in its log, of all its processes."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        found = [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "}"]
        return [entry for entry in found if entry["event"] == event]

    def wait_for(self, event: str, number: int = 1) -> dict[str, str]:
        """Wait until the log has a number of entries of one kind, and return the last of them."""
        eventually(lambda: len(self.entries(event)) >= number, within_s=SOON_S)
        return self.entries(event)[number - 1]

    def wait_for_decision(self, name: str) -> None:
        """Wait until its journal has a decision of one type."""
        eventually(lambda: f'"{name}"' in self.journal.read_text(), within_s=SOON_S)

    def placements(self) -> list[tuple[int, str]]:
        """Return each placement that was carried out: the job and its nodes in Slurm's notation."""
        found = []
        for entry in self.entries("carried_out"):
            words = PLACED.search(entry["command"])
            if words is not None:
                found.append((int(words[1]), words[2]))
        return found


@contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a scheduler in a process of its own, and kill it at the end of the context."""
    with subprocess.Popen([str(word) for word in command], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def schedule(policy: str, bridge: LiveBridge, *options: str | Path) -> tuple[str | Path, ...]:
    """Return the command of a policy of the SDK."""
    return (*HPCOSIM, "schedule", policy, "--connect", bridge.address, *options)


class TestScheduler:
    """A scheduler that decides what a test says.

    Args:
        bridge: its bridge.
    """

    __test__ = False

    def __init__(self, bridge: LiveBridge) -> None:
        self._connection = Connection(bridge.address, Timeouts(5.0, SOON_S, SOON_S))
        self.welcome = self._connection.hello(client="test")
        self.events: list[Event] = []
        self.now_s = self.welcome.now_s
        self._alarm = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.bye()
        self._connection.close()

    def decide(self, *decisions: Decision) -> Answer:
        """Send decisions, and return the next events of any kind."""
        answer = self._connection.decide(decisions, get_args(EventKind))
        self.events += answer.events
        self.now_s = answer.now_s
        return answer

    def until(self, kind: type[AnyEvent], *decisions: Decision, **fields: Any) -> AnyEvent:
        """Send decisions, and wait for the next event of one kind.

        Args:
            kind: the kind.
            decisions: the decisions.
            fields: values of fields of the event.

        Raises:
            AssertionError: there is none within `SOON_S`.
        """
        self._alarm += 1
        due: Sequence[Decision] = [*decisions, SetAlarm(self.now_s + SOON_S, self._alarm)]
        while True:
            answer = self.decide(*due)
            due = ()
            for event in answer.events:
                late = isinstance(event, Alarm) and event.alarm_id == self._alarm
                assert not late, f"no {kind.__name__} {fields} in {self.events}"
                wanted = isinstance(event, kind)
                if wanted and all(getattr(event, name) == fields[name] for name in fields):
                    return event  # type: ignore[return-value]


JOB = re.compile(r"JobId=(\d+).* JobState=(\S+) .* StartTime=(\S+) .* NodeList=(\S+)")


def jobs_of(cluster: SlurmCluster, numbers: Iterable[int]) -> dict[int, tuple[str, str, str]]:
    """Return state, start and nodes of jobs, as `scontrol show job` prints them."""
    shown = cluster.run("scontrol", "show", "job", "--oneliner")
    found = {int(job[1]): (job[2], job[3], job[4]) for job in JOB.finditer(shown)}
    return {number: found[number] for number in numbers if number in found}


def wait_for_all(cluster: SlurmCluster, numbers: Collection[int], within_s: float = 60.0) -> None:
    """Wait until jobs have completed."""
    listed = ",".join(str(number) for number in numbers)

    def completed() -> bool:
        time.sleep(0.1)  # between two looks: each is a process
        words = cluster.run("squeue", "-h", "-t", "all", "-j", listed, "-o", "%T").split()
        return words == ["COMPLETED"] * len(numbers)

    eventually(completed, within_s=within_s)


OWN_WORDS = "Priority|Reason|NumNodes|AccrueTime|StartTime|EndTime|LastSchedEval|Scheduler|RunTime"
LOADS = "CPULoad|FreeMem|LastBusyTime"
CHANGES_BY_ITSELF = re.compile(rf"\b(?:{OWN_WORDS}|{LOADS})=\S*\s*")


def shown(cluster: SlurmCluster) -> str:
    """Return what the controller says of all jobs, nodes and partitions.

    Without what its scheduler notes of jobs when it looks at them, and without loads of nodes.
    """
    kinds = ("job", "node", "partition")
    text = "".join(cluster.run("scontrol", "show", kind, "--oneliner") for kind in kinds)
    return CHANGES_BY_ITSELF.sub("", text)
