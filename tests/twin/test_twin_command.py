"""The command `hpcosim twin`: bad input, and a whole life with recorded accounting."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from hpcosim_slurm.state import ClusterState
from hpcosim_twin.cluster.observation import ForecastError
from hpcosim_twin.service.running import TwinSettings, run_twin
from hpcosim_view.errors import HttpBindError
from hpcosim_view.live.address import HttpAddress
from support.commands import HPCOSIM, invoke
from support.fake_cluster import FakeCluster
from support.processes import eventually
from support.slurm_site import record, sacct_text
from support.twin_sources import FakeSource

SITE = """
name: site
platform:
  nodes: [{names: "c[01-04]", count: 4, processors: [{cores: 16, static_w: 1, dynamic_w: 1}]}]
  partitions: [{name: cpu, nodes: [[0, 3]], default: true}]
workload: {json: none.jsonl}
scheduler: {name: slurm}
"""


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[str, ...]:
    """Options that play a recorded job, which waits from 8:00 to 8:05."""
    site, sacct = tmp_path / "site.yaml", tmp_path / "sacct.psv"
    site.write_text(SITE)
    sacct.write_text(sacct_text(record()))
    folder = tmp_path / "twin"
    return ("--scenario", str(site), "--sacct", str(sacct), "--folder", str(folder))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "sacct.psv: "),
        ("JobID|State\n", "sacct.psv"),
        ("\x00" * 100, "sacct.psv"),
        (sacct_text(record())[:30], "sacct.psv"),
    ],
    ids=["empty", "columns", "binary", "cut off"],
)
def test_accounting_that_cannot_be_read_is_an_error(
    recorded: tuple[str, ...], content: str, error: str
) -> None:
    """Such as an empty file, or one that has just begun to be written."""
    Path(recorded[3]).write_text(content)
    result = invoke("twin", *recorded)
    assert result.status == 2
    assert error in result.error


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--http", "8080"), "expected HOST:PORT"),
        (("--start", "yesterday"), "--start: expected a time"),
        (("--time-zone", "Mars"), "there is no time zone"),
        (("--scenario", "missing.yaml"), "missing.yaml"),
        (("--sacct", "missing.psv"), "missing.psv"),
    ],
)
def test_bad_options_are_errors(
    recorded: tuple[str, ...], options: tuple[str, ...], error: str
) -> None:
    """In one line that names the option or the file."""
    result = invoke("twin", *recorded, *options)
    assert result.status in (1, 2)
    assert error in result.err
    assert "Traceback" not in result.err


def test_recorded_accounting_needs_a_site(recorded: tuple[str, ...]) -> None:
    """Nodes and settings are not in it."""
    result = invoke("twin", *recorded[2:])
    assert result.status == 2
    assert "--sacct needs --scenario" in result.err


def test_a_port_that_is_in_use_is_an_error(tmp_path: Path) -> None:
    """It says how to choose another one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = HttpAddress("127.0.0.1", taken.getsockname()[1])
        settings = TwinSettings(address=address, folder=tmp_path)
        with pytest.raises(HttpBindError, match="Address already in use; choose another port"):
            run_twin(FakeSource(FakeCluster()), settings, lambda: True, print)


def test_a_file_that_is_no_calibration_is_an_error(tmp_path: Path) -> None:
    """It names the file."""
    path = tmp_path / "calibration.json"
    path.write_text("{}")
    address = HttpAddress("127.0.0.1", 0)
    settings = TwinSettings(address=address, folder=tmp_path, calibration=path)
    with pytest.raises(ForecastError, match=r"calibration\.json"):
        run_twin(FakeSource(FakeCluster()), settings, lambda: True, print)


@pytest.mark.slow
def test_a_twin_answers_until_it_is_stopped_and_goes_on_where_it_was(
    recorded: tuple[str, ...],
) -> None:
    """At 8:04 the job waits; SIGTERM ends the twin, and the next one has its picture and record."""
    options = ("--start", "2026-03-02T08:04:00", "--http", "127.0.0.1:0", "--futures", "2")
    folder = Path(recorded[-1])
    for _ in range(2):
        with subprocess.Popen(
            [*HPCOSIM, "twin", *recorded, *options], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            told = json.loads(process.stderr.readline())
            while "url" not in told:
                told = json.loads(process.stderr.readline())
            token = (folder / "tokens").read_text().split()[-2]
            headers = {"authorization": f"Bearer {token}"}
            with httpx.Client(base_url=told["url"], headers=headers, timeout=60.0) as client:
                eventually(lambda: client.get("/health").text == "ok\n")
                (row,) = client.get("/queue").json()["jobs"]
                assert row["job_id"] == 101
                assert client.get("/record").json()["answers"] >= 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(30.0) == 0
        assert sorted(path.name for path in folder.iterdir()) == [
            "record.jsonl",
            "state.json",
            "tokens",
        ]


def test_an_error_of_the_follower_ends_the_twin(tmp_path: Path) -> None:
    """It is not left to answer from a picture that nobody renews."""

    class BrokenSource(FakeSource):
        def read(self) -> ClusterState:
            raise RuntimeError("a bug")

    settings = TwinSettings(address=HttpAddress("127.0.0.1", 0), folder=tmp_path)
    with pytest.raises(RuntimeError, match="a bug"):
        run_twin(BrokenSource(FakeCluster()), settings, lambda: False, lambda *_: None)
