"""Execution of tasks on Ray clusters."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
import venv
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="the Ray executor needs the extra ray")

from hpcosim_experiments.executors import ExecutorError, Ray, open_executor
from hpcosim_experiments.executors.ray_worker import run_task
from hpcosim_experiments.executors.shipped_files import installed_version
from support import executor_tasks as given
from support.processes import eventually
from support.ray_clusters import RayNodes, ray_nodes

pytestmark = pytest.mark.slow


def test_all_results_arrive_if_a_node_is_killed(tmp_path: Path) -> None:
    """The task of the lost node runs again on the other node."""
    tasks = [(tmp_path, number) for number in range(8)]

    def kill_one(nodes: RayNodes) -> None:
        eventually(lambda: {path.name[0] for path in tmp_path.iterdir()} == {"0", "1"})
        nodes.kill_last()
        (tmp_path / "go").touch()

    with ray_nodes(2) as nodes, open_executor(Ray(address=nodes.address)) as executor:
        assert executor.workers == 2
        killer = threading.Thread(target=kill_one, args=(nodes,))
        killer.start()
        found = sorted(executor.run(given.meet, tasks))
        killer.join()
    assert [(done.result, done.error) for done in found] == [(number, "") for number in range(8)]
    tries = [path.name[0] for path in tmp_path.iterdir() if path.name != "go"]
    assert len(tries) == 9


def test_a_cluster_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """The message names the cluster and says what to do; nothing hangs."""
    with (
        ray_nodes(1) as nodes,
        open_executor(Ray(address=nodes.address, timeout_s=20)) as executor,
    ):
        killer = threading.Thread(target=kill_when, args=(tmp_path, nodes))
        killer.start()
        with pytest.raises(ExecutorError, match=f"Ray on {nodes.address}: the head node is gone"):
            list(executor.run(given.wait_for_ever, [tmp_path]))
        killer.join()


def kill_when(folder: Path, nodes: RayNodes) -> None:
    """Kill the last node when there is a file in a folder."""
    eventually(lambda: list(folder.iterdir()))
    nodes.kill_last()


def test_a_node_without_hpcosim_is_an_error(tmp_path: Path) -> None:
    """The message names the node and says what to install."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    import ray

    (packages / "others.pth").write_text(f"{Path(ray.__file__).parents[1]}\n")
    python = str(tmp_path / "venv/bin/python")
    if not subprocess.run(
        [python, "-c", "import hpcosim_experiments.executors"], capture_output=True
    ).returncode:
        pytest.skip("hpcosim is installed beside Ray, as a copy")
    with (
        ray_nodes(1, python=python, with_hpcosim=False) as nodes,
        pytest.raises(ExecutorError, match=r"a Ray worker on .* cannot import hpcosim .*; install"),
        open_executor(Ray(address=nodes.address)) as executor,
    ):
        list(executor.run(given.square, [1]))


def test_a_node_with_another_version_is_an_error() -> None:
    """The message names both versions."""
    found = run_task(b"", b"", ("", "", [None]), {}, "0.0.1")
    assert isinstance(found, str)
    assert f"has hpcosim {installed_version()}, expected 0.0.1; install the same" in found


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "cannot connect: Connection refused; expected the address of a head node"),
        ("no-host.invalid:1", "cannot connect: .*; expected the address of a head node"),
        ("nonsense", "Invalid address format"),
    ],
)
def test_a_cluster_that_is_not_there_is_an_error(address: str, message: str) -> None:
    """The message names the address, long before the timeout."""
    since_s = time.monotonic()
    with (
        pytest.raises(ExecutorError, match=f"Ray on {address}: {message}"),
        open_executor(Ray(address=address, timeout_s=60.0)),
    ):
        pass
    assert time.monotonic() - since_s < 30


def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    """The message names the address and the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            pytest.raises(ExecutorError, match=f"Ray on {address} does not answer within 2 s; exp"),
            open_executor(Ray(address=address, timeout_s=2.0)),
        ):
            pass


def test_a_cluster_of_this_machine_is_silent_and_local(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is printed though a worker dies; no port is open to others; no token stays."""
    (tmp_path / "home").mkdir()
    mark = f"HPCOSIM_TEST_CLUSTER={tmp_path}"
    monkeypatch.setenv(*mark.split("="))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with open_executor(Ray(workers=1)) as executor:
        (found,) = executor.run(given.die_once, [tmp_path / "mark"])
        assert listening_addresses(mark) <= {"0100007F", "0000000000000000FFFF00000100007F"}
    assert found.result == "mark"
    assert not (tmp_path / "home/.ray").exists()
    assert capfd.readouterr() == ("", "")


def listening_addresses(mark: str) -> set[str]:
    """Return the addresses, as in /proc/net/tcp, that processes of Ray listen at.

    Args:
        mark: a variable in the environment of the processes of one cluster.
    """
    inodes = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_text()
            if "ray" in name.split("\0")[0] and mark in (folder / "environ").read_text():
                inodes |= {link.readlink().name for link in (folder / "fd").iterdir()}
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1].rpartition(":")[0])
    assert found
    return found


def test_an_executor_that_was_stopped_runs_no_more(ray_address: str) -> None:
    """A second call after an abandoned one is an error, not a hang."""
    with open_executor(Ray(address=ray_address)) as executor:
        outcomes = executor.run(given.square, range(10))
        next(outcomes)
        del outcomes
        with pytest.raises(ExecutorError, match="has been stopped"):
            next(executor.run(given.square, [1]))


def test_a_missing_token_is_an_error(ray_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to pass the token of the cluster."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with (
        pytest.raises(ExecutorError, match=f"Ray on {ray_address}.* set RAY_AUTH_MODE=token and"),
        open_executor(Ray(address=ray_address, timeout_s=10.0)),
    ):
        pass
