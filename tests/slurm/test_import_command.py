"""The commands `hpcosim import` and `hpcosim compare --workload`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import invoke
from support.slurm_site import record, sacct_text, write_site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the site and its job records, which is the current one."""
    write_site(tmp_path)
    gpu = {"Partition": "gpu", "User": "bob", "Account": "theory", "NodeList": "g1"}
    (tmp_path / "sacct.psv").write_text(
        sacct_text(
            record(),
            record(JobID="102", NodeList="c[01-02]", Start="2026-03-02T08:10:00"),
            record(JobID="103", **gpu, ReqTRES="cpu=32,mem=8G,node=1,gres/gpu=4"),
        )
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


SLURM = [
    *("import", "slurm", "--conf", "slurm.conf", "--sacctmgr", "dump.cfg", "--qos", "qos.psv"),
    *("-o", "cluster.yaml"),
]
SACCT = ["import", "sacct", "sacct.psv", "-o", "jobs.jsonl"]


def test_import_prints_its_report(site: Path) -> None:
    """As text, or as JSON for programs."""
    result = invoke(*SLURM)
    assert result.status == 0, result.err
    assert result.out.startswith("cluster.yaml: 6 nodes, 2 partitions\n")
    assert "settings that are not modelled:\n" in result.out
    found = json.loads(invoke(*SACCT, "--json").out)
    assert found["written"] == ["jobs.jsonl: 3 jobs", "jobs.recorded.csv: 3 runs"]
    assert found["dropped"] == found["guessed"] == {}


def test_a_wrong_file_is_one_line_on_standard_error(site: Path) -> None:
    """Its exit status is that of bad input."""
    result = invoke("import", "sacct", "slurm.conf", "-o", "x.jsonl")
    assert result.status == 2
    assert result.err.startswith("error: slurm.conf:2: expected the names of columns")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["import", "sacct", "sacct.psv", "-o", "sacct.psv"],
        ["import", "sacct", "sacct.psv", "-o", "./link.psv"],
        ["import", "sacct", "jobs.recorded.csv", "-o", "jobs.jsonl"],
        ["import", "sacct", "sacct.psv", "-o", "n.json", "--anonymize", "--names", "n.json"],
        ["import", "kubernetes", "sacct.psv", "-o", "sacct.psv"],
        [*SLURM[:-1], "nodes.conf"],
        [*SLURM[:-1], "dump.cfg"],
        [*SLURM[:-1], "gres.conf"],
        [*SLURM, "--anonymize", "--names", "slurm.conf"],
    ],
)
def test_an_import_does_not_replace_its_inputs(site: Path, command: list[str]) -> None:
    """Under another name neither, and with --force neither."""
    (site / "link.psv").symlink_to("sacct.psv")
    (site / "n.json").write_text("{}")
    (site / "jobs.recorded.csv").write_bytes((site / "sacct.psv").read_bytes())
    before = {path.name: path.read_bytes() for path in site.iterdir()}
    result = invoke(*command, "--force")
    assert result.status == 2
    assert "the import reads this file, so it cannot write it" in result.err
    assert {path.name: path.read_bytes() for path in site.iterdir()} == before


def test_names_need_anonymize(site: Path) -> None:
    """An option without effect is an error."""
    result = invoke(*SACCT, "--names", "private.json")
    assert result.status == 2
    assert "--names applies to --anonymize" in result.err


@pytest.mark.slow
def test_the_recorded_run_stands_beside_simulated_ones(site: Path) -> None:
    """Waits are printed by partition, account and user; recorded ones are those of the file."""
    assert invoke(*SLURM).status == invoke(*SACCT).status == 0
    compare = [
        "compare",
        "cluster.yaml",
        "--workload",
        "jobs.jsonl",
        "--schedulers",
        "recorded,easy",
    ]
    result = invoke(*compare)
    assert result.status == 0, result.err
    assert [f"Mean wait by {kind}, s" in result.out for kind in ("partition", "account", "user")]
    found = json.loads(invoke(*compare, "--json").out)
    assert found["recorded"]["mean_wait_s"] == pytest.approx((300 + 600 + 300) / 3)
    assert {name: group["jobs"] for name, group in found["easy"]["by"]["account"].items()} == {
        "physics": 2,
        "theory": 1,
    }


def test_workload_and_by_are_checked(site: Path) -> None:
    """The message has what was expected."""
    assert invoke(*SLURM).status == invoke(*SACCT).status == 0
    result = invoke("compare", "cluster.yaml", "--workload", "gone.jsonl", "--schedulers", "fcfs")
    assert "--workload: gone.jsonl: no such file" in result.err
    result = invoke("compare", "cluster.yaml", "--by", "colour", "--schedulers", "fcfs")
    assert (
        "--by: expected names of partition, account, user, group, qos, got 'colour'" in result.err
    )


@pytest.mark.slow
def test_squeue_and_sinfo_show_names(site: Path) -> None:
    """Partitions and nodes have the names of the site."""
    assert invoke(*SLURM).status == invoke(*SACCT).status == 0
    run = ["run", "cluster.yaml", "--scheduler", "recorded", "--transport", "inproc", "--out", "r"]
    assert invoke(*run).status == 0
    sinfo = invoke("show", "sinfo", "r", "--at", "700").out.splitlines()
    assert [line.split() for line in sinfo[1:]] == [
        ["cpu*", "up", "2-00:00:00", "2", "mix", "c[01-02]"],
        ["cpu*", "up", "2-00:00:00", "1", "idle", "c03"],
        ["cpu*", "up", "2-00:00:00", "1", "drain", "c04"],
        ["gpu", "up", "infinite", "1", "alloc", "g1"],
        ["gpu", "up", "infinite", "1", "idle", "g2"],
    ]
    squeue = invoke("show", "squeue", "r", "--at", "700").out.splitlines()
    assert [line.split()[-1] for line in squeue[1:]] == ["c01", "c[01-02]", "g1"]
    assert squeue[3].split()[1] == "gpu"
