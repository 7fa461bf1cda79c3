"""What `hpcosim ask` reads without a twin, and without a live cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from hpcosim_protocol import Platform
from hpcosim_twin.cluster.observation import (
    EndedJob,
    Observation,
    read_observation,
    write_observation,
)
from support.commands import invoke
from support.fake_cluster import EPOCH_S, FakeCluster

PROCESSORS = [{"cores": 1, "static_w": 5, "dynamic_w": 5}]
PLATFORM = {"nodes": [{"names": "node[0-3]", "count": 4, "processors": PROCESSORS}]}
HISTORY = tuple(EndedJob("ann", 60.0, float(run_s)) for run_s in range(10, 30))
SACCT = """JobIDRaw|User|Submit|Start|End|ElapsedRaw|State|TimelimitRaw|ReqTRES|AllocTRES
1|ann|2026-11-22T10:00:00|2026-11-22T10:00:00|2026-11-22T10:00:06|6|COMPLETED|1|cpu=1|cpu=1
2|ann|2026-11-22T10:00:00|2026-11-22T10:00:00|2026-11-22T10:01:06|66|TIMEOUT|1|cpu=1|cpu=1
3|ann|2026-11-22T10:00:00|2026-11-22T10:00:00|2026-11-22T10:01:06|66|NODE_FAIL|1|cpu=1|cpu=1
4|ann|2026-11-22T10:00:00|2026-11-22T10:00:00|Unknown|9|RUNNING|1|cpu=1|cpu=1
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a recorded queue: four jobs run, and six wait."""
    cluster = FakeCluster()
    for _ in range(10):
        cluster.submit(run_s=100.0)
    cluster.now_s += 5.0
    path = tmp_path / "queue.json"
    write_observation(
        Observation(
            state=cluster.state(),
            platform=msgspec.convert(PLATFORM, Platform),
            settings={},
            history=HISTORY,
            slurm_s={5: EPOCH_S + 60.0},
        ),
        path,
    )
    return path


def test_earlier_output_can_be_given(recorded: Path, tmp_path: Path) -> None:
    """Output of --json is input of --earlier; six jobs that still wait widen nothing."""
    asked = ("ask", "queue", "--state", recorded, "--futures", "2", "--json")
    first = invoke(*asked)
    path = tmp_path / "earlier.json"
    path.write_text(first.out)
    again = invoke(*asked, "--earlier", path)
    assert again.status == 0
    assert json.loads(again.out) == json.loads(first.out)


def test_a_recorded_queue_gives_a_table(recorded: Path) -> None:
    """Each waiting job has a line, beside what `squeue --start` says, the earliest first."""
    result = invoke("ask", "queue", "--state", recorded, "--futures", "3")
    assert result.status == 0
    head, *rows = result.out.splitlines()
    assert head.split()[:3] == ["JOBID", "USER", "MEDIAN"]
    assert sorted(row.split()[0] for row in rows) == ["10", "5", "6", "7", "8", "9"]
    medians = [row.split()[2] for row in rows]
    assert medians == sorted(medians)
    assert sum(row.split()[5] == "-" for row in rows) == 5


def test_the_same_seed_prints_the_same_bytes(recorded: Path) -> None:
    """JSON has Unix times, and depends on the seed only."""
    options = ("ask", "queue", "--state", recorded, "--futures", "3", "--json", "--seed")
    result = invoke(*options, "1")
    assert invoke(*options, "1").out == result.out
    assert invoke(*options, "2").out != result.out
    found = json.loads(result.out)
    assert (found["samples"], found["seed"], found["history_jobs"]) == (3, 1, 20)
    first = found["jobs"][0]
    assert first["squeue_s"] == EPOCH_S + 60.0
    assert EPOCH_S < first["low_s"] <= first["median_s"] <= first["high_s"]
    assert found["jobs"][1]["squeue_s"] is None


def test_a_file_of_sacct_is_a_history(recorded: Path, tmp_path: Path) -> None:
    """Jobs that ended by themselves or at their limit count."""
    sacct, again = tmp_path / "sacct.psv", tmp_path / "again.json"
    sacct.write_text(SACCT)
    arguments = ("--history", sacct, "--save", again, "--futures", "1")
    assert invoke("ask", "queue", "--state", recorded, *arguments).status == 0
    assert read_observation(again).history == (
        EndedJob("ann", 60.0, 6.0, cores=1.0),
        EndedJob("ann", 60.0, None, cores=1.0),
    )


def test_a_scenario_replaces_the_recorded_site(recorded: Path, tmp_path: Path) -> None:
    """With two further nodes, waiting jobs start at once."""
    scenario = tmp_path / "site.yaml"
    nodes = {"nodes": [{"names": "node[0-5]", "count": 6, "processors": PROCESSORS}]}
    content = {"name": "a", "platform": nodes, "workload": {"json": "none.jsonl"}}
    scenario.write_text(json.dumps(content | {"scheduler": {"name": "easy"}}))
    result = invoke("ask", "queue", "--state", recorded, "--scenario", scenario)
    assert result.status == 2
    assert result.error == (
        f"{scenario}: scheduler.name: expected slurm, whose settings the site has, got easy"
    )
    scenario.write_text(json.dumps(content | {"scheduler": {"name": "slurm"}}))
    assert invoke("ask", "queue", "--state", recorded, "--scenario", scenario).status == 0


def test_an_existing_file_is_not_replaced_by_saving(recorded: Path) -> None:
    """`--save` never loses a file."""
    result = invoke("ask", "queue", "--state", recorded, "--save", recorded)
    assert result.status == 2
    assert result.error == f"{recorded}: the file exists; name a new one"


def test_without_slurm_the_error_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line, exit status 2."""
    monkeypatch.setenv("PATH", str(tmp_path))
    result = invoke("ask", "queue")
    assert result.status == 2
    assert result.error.startswith("no Slurm: scontrol not found on PATH")


PROGRAM = """#!/bin/sh
case "$0 $*" in
{cases}
*) echo "unexpected: $0 $*" >&2; exit 1 ;;
esac
"""
CONFIG = """ClusterName = tiny
SLURM_VERSION = 22.05.8
SlurmctldPort = 6817
SLURM_CONF = {conf}
SlurmUser = root(0)
AccountingStorageType = accounting_storage/slurmdbd
SelectTypeParameters = CR_CPU
PrivateData = none
SchedulerType = sched/backfill
SuspendProgram = (null)
ResumeProgram = (null)
PrologSlurmctld = (null)
JobCompType = jobcomp/none
JobCompLoc = (null)
MinJobAge = 300 sec
"""
NODE = (
    "NodeName=n1 CPUAlloc=0 CPUEfctv=4 CPUTot=4 AvailableFeatures=(null) Gres=(null) "
    "RealMemory=1000 AllocMem=0 State=IDLE Partitions=main"
)
DUMP = """Cluster - 'tiny':Fairshare=1
Parent - 'root'
Account - 'physics':Description='p':Organization='p':Fairshare=10
Parent - 'physics'
User - 'ann':DefaultAccount='physics':Fairshare=5
"""


def fake_slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put commands of a Slurm with accounting, whose queue is empty, on the path."""
    conf = folder / "slurm.conf"
    conf.write_text("ClusterName=tiny\nNodeName=n1 CPUs=4\nPartitionName=main Nodes=ALL\n")
    texts = {
        "*scontrol show config": CONFIG.format(conf=conf),
        "*show node": NODE,
        "*show partition": "PartitionName=main Nodes=n1 State=UP MaxTime=UNLIMITED Default=YES",
        "*show reservation": "No reservations in the system",
        "*show licenses": "No licenses configured in Slurm.",
        "*squeue*": "",
        "*sshare*": "root||30\n physics||30\n  physics|ann|30",
        "*show qos": "Name|Priority\nnormal|0",
        "*sacct *": SACCT,
    }
    cases = []
    for number, (pattern, text) in enumerate(texts.items()):
        (folder / f"text{number}").write_text(text + "\n")
        cases.append(f"{pattern.replace(' ', chr(92) + ' ')}) /bin/cat {folder}/text{number} ;;")
    (folder / "dump").write_text(DUMP)
    cases.append(
        f'*sacctmgr*dump*) for last; do :; done; /bin/cat {folder}/dump > "${{last#file=}}" ;;'
    )
    for name in ("scontrol", "squeue", "sshare", "sacct", "sacctmgr"):
        program = folder / name
        program.write_text(PROGRAM.format(cases="\n".join(cases)))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_accounting_gives_history_accounts_and_usage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where slurmdbd is, its jobs are history and past, and shares and usage are known."""
    fake_slurm(tmp_path, monkeypatch)
    result = invoke("ask", "queue", "--save", tmp_path / "queue.json")
    assert (result.status, result.err) == (0, "")
    seen = read_observation(tmp_path / "queue.json")
    assert [job.run_s for job in seen.history] == [6.0, None]
    assert {number: job.state for number, job in seen.state.jobs.items()} == dict.fromkeys(
        (1, 2, 3), "over"
    )
    assert seen.state.jobs[2].submitted_s == 1_795_341_600.0
    assert seen.usage_s == {"physics": {"ann": 30.0}}
    assert seen.settings["accounts"]["physics"]["shares"] == 10


def test_an_accounting_that_does_not_answer_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The forecast goes on with what the controller knows."""
    fake_slurm(tmp_path, monkeypatch)
    for name in ("sshare", "sacctmgr"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'no database' >&2; exit 1\n")
    result = invoke("ask", "queue")
    assert result.status == 0
    assert result.err.splitlines() == [
        "warning: limits and shares of accounts are unknown: sacctmgr: no database (exit status 1)",
        "warning: usage or history of the accounting is unknown: sshare: no database (exit "
        "status 1)",
    ]


def test_an_unreadable_configuration_says_how_to_import_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the file and the option."""
    fake_slurm(tmp_path, monkeypatch)
    (tmp_path / "slurm.conf").unlink()
    result = invoke("ask", "queue")
    assert result.status == 2
    assert "slurm.conf: No such file or directory" in result.error
    assert "--scenario" in result.error


@pytest.mark.parametrize("option", ["--state", "--earlier"])
def test_a_pipe_is_refused(recorded: Path, tmp_path: Path, option: str) -> None:
    """Nobody writes to it, and the command does not wait."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = {"--state": recorded} | {option: pipe}
    found = invoke("ask", "queue", *(word for pair in given.items() for word in pair))
    assert found.status == 1
    assert found.err.startswith(f"error: {pipe}: not a regular file")
