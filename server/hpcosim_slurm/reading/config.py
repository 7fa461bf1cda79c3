"""The configuration of a cluster, as `scontrol show config` prints it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hpcosim_slurm.errors import ReadingError, SlurmError
from hpcosim_slurm.reading.values import text_of
from hpcosim_slurm.tools import Tools

CONFIG = ("scontrol", "show", "config")
OLDEST, NEWEST = (21, 8), (24, 11)
"""First and last versions whose output is understood. The tests run with 22.05."""

_LINE = re.compile(r"(?m)^([A-Za-z_][\w ]*?)\s*= (.*?)\s*$")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What matters of a configuration.

    Attributes:
        name: name of the cluster.
        port: port of its controller, or a range of ports. Clusters of one name have different ones.
        version: Slurm's version, such as `22.05.8`.
        slurm_user: user of the controller.
        has_accounts: whether slurmdbd keeps accounts and the levels of users.
        is_memory_counted: whether jobs have memory of their nodes to themselves.
        private: what users see only of themselves, such as `jobs`.
        scheduler: Slurm's own scheduler, such as `sched/backfill`.
        suspend_program: program that switches nodes off; empty: no power saving.
        resume_program: program that switches nodes on; empty: no power saving.
        start_program: `PrologSlurmctld`, run at the start of each job; empty: none.
        end_program: program of `jobcomp/script`, run at the end of each job; empty: none.
        remembered_s: time for which Slurm remembers a job that has ended, s.
    """

    name: str
    port: str
    version: str
    slurm_user: str
    has_accounts: bool
    is_memory_counted: bool
    private: frozenset[str]
    scheduler: str
    suspend_program: str
    resume_program: str
    start_program: str
    end_program: str
    remembered_s: float

    @property
    def has_hooks(self) -> bool:
        """Whether Slurm runs programs when jobs start or end, or when it switches nodes."""
        return any(
            (self.start_program, self.end_program, self.suspend_program, self.resume_program)
        )


def read_config(tools: Tools) -> ClusterConfig:
    """Return the configuration of a cluster.

    Args:
        tools: the commands of the cluster.

    Raises:
        UnreachableError: the controller does not answer.
        CommandError: the command has failed.
        SlurmError: this version is not supported.
        ReadingError: the output has another form than expected.
    """
    config = parse_config(tools.output(*CONFIG))
    check_version(config.version)
    return config


def parse_config(text: str) -> ClusterConfig:
    """Return the configuration of the command's output.

    Raises:
        ReadingError: a field is missing.
    """
    found = {name: text_of(value) for name, value in _LINE.findall(text)}
    try:
        ends = found["JobCompType"] == "jobcomp/script"
        return ClusterConfig(
            name=found["ClusterName"],
            port=found["SlurmctldPort"],
            version=found["SLURM_VERSION"],
            slurm_user=found["SlurmUser"].partition("(")[0],
            has_accounts=found["AccountingStorageType"].endswith("/slurmdbd"),
            is_memory_counted="MEMORY" in found["SelectTypeParameters"].upper(),
            private=frozenset(filter(None, found["PrivateData"].split(","))) - {"none"},
            scheduler=found["SchedulerType"],
            suspend_program=found["SuspendProgram"],
            resume_program=found["ResumeProgram"],
            start_program=found["PrologSlurmctld"],
            end_program=found["JobCompLoc"] if ends else "",
            remembered_s=float(found["MinJobAge"].split()[0]),
        )
    except (KeyError, ValueError, IndexError) as error:
        raise ReadingError(f"scontrol show config: the field {error} is missing") from None


def check_version(version: str) -> None:
    """Check that a version is supported.

    Raises:
        SlurmError: it is not.
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or not OLDEST <= (int(numbers[1]), int(numbers[2])) <= NEWEST:
        first, last = (f"{major}.{minor:02}" for major, minor in (OLDEST, NEWEST))
        raise SlurmError(f"Slurm {version}: expected a version from {first} to {last}")
