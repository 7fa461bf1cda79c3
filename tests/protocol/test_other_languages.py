"""Clients in C and JavaScript: their results equal those of the Python client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hpcosim_protocol.keys import make_keys
from hpcosim_scenarios.running import Transport
from hpcosim_scenarios.running.run import run_scenario
from support.other_languages import LANGUAGES, LIBRARIES, client_in, library_in
from support.processes import SOON_S, Processes, Server, anonymous, read

pytestmark = pytest.mark.slow

# Jobs of every placement, job numbers that exceed a float64, several jobs at one instant.
INLINE = "\n".join(
    f"    - {{job_id: {2**63 - 1 - number}, submit_s: {number // 4 * 40}, "
    f"cores: {number % 7 + 1}, run_s: {25 + number * 37 % 110}, "
    f"placement: {('cores', 'one_node', 'whole_nodes')[number * 5 % 3]}}}"
    for number in range(60)
)
SCENARIOS = {
    "two_kinds_of_nodes": """
platform:
  nodes:
    - count: 3
      processors: [{cores: 4, clock_ghz: 2.0, static_w: 100, dynamic_w: 5, idle_fraction: 0.3}]
    - count: 2
      processors: [{cores: 2, static_w: 30, dynamic_w: 7}, {cores: 1, static_w: 20, dynamic_w: 0}]
workload:
  synthetic:
    {model: poisson, jobs: 300, mean_interarrival_s: 150, cores: [1, 18], run_s: [10, 2000]}
  reference_clock_ghz: 2.0
""",
    "signals": """
platform:
  nodes:
    - {count: 8, processors: [{cores: 4, static_w: 9, dynamic_w: 1}]}
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 20, run_s: 900, user: 3, deadline_s: 4000}
    - {job_id: 2, submit_s: 5, cores: 20, run_s: 900}
    - {job_id: 3, submit_s: 9000, cores: 1, run_s: 50, deadline_s: 10000}
signals:
  price_per_kwh: {changes: [[0, 0.3], [60, 0.2]], repeat_s: 90, forecast_s: 300}
  power_cap_w: {value: 500}
""",
    "every_placement": f"""
platform:
  nodes:
    - {{count: 3, processors: [{{cores: 4, static_w: 9, dynamic_w: 1}}]}}
    - {{count: 2, processors: [{{cores: 8, static_w: 20, dynamic_w: 1.5}}]}}
workload:
  inline:
{INLINE}
""",
    "contention": """
platform:
  nodes:
    - count: 4
      processors:
        - cores: 8
          clock_ghz: 3.8
          static_w: 56.3
          dynamic_w: 5.3
          idle_fraction: 0.4
          contention:
            {c_mbps: 21000, b_per_mbps: -1.85e-5, da: 1, db_mbps: 169, dc_mbps: 25000, dd_mbps: 100}
workload:
  profiles:
    solver: {cores: 3, req_ops: 1.0e12, requested_s: 900, memory_volume_mb: 2.0e6}
    reader: {cores: 2, req_ops: 4.0e11, requested_s: 900, memory_volume_mb: 3.0e6}
  placement: one_node
  inline:
"""
    + "\n".join(
        f"    - {{job_id: {number}, submit_s: {number * 13}, "
        f"profile: {('solver', 'reader')[number % 3 > 0]}}}"
        for number in range(80)
    ),
    "killed_at_walltime": """
platform:
  nodes:
    - count: 6
      processors: [{cores: 2, static_w: 50, dynamic_w: 3}]
      power_states:
        {sleep_w: 2, switch_on_s: 60, switch_on_w: 50, switch_off_s: 30, switch_off_w: 20}
workload:
  inline:
"""
    + "\n".join(
        f"    - {{job_id: {number}, submit_s: {number * 29}, cores: {number % 5 + 1}, "
        f"run_s: {40 + number * 17 % 90}, requested_s: {60 + number % 3 * 20}}}"
        for number in range(120)
    )
    + """
kill_at_walltime: true
""",
}


POWER = """
name: power
seed: 11
platform:
  nodes:
    - count: 6
      processors: [{cores: 2, static_w: 100, dynamic_w: 20}]
      power_states: {sleep_w: 5, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30,
        switch_off_w: 50, switch_on_sd_s: 5}
    - {count: 2, processors: [{cores: 4, static_w: 100, dynamic_w: 20}]}
workload: {synthetic: {model: poisson, jobs: 120, mean_interarrival_s: 100, cores: [1, 12]}}
scheduler: {name: fcfs, power: {name: timeout, timeout_s: 120}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scenario files."""
    folder = tmp_path_factory.mktemp("languages")
    for name, text in SCENARIOS.items():
        (folder / f"{name}.yaml").write_text(f"name: {name}\nseed: 11\n{text}")
    return folder


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of the client in C, shared by all tests."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built libraries, shared by all tests."""
    return tmp_path_factory.mktemp("libraries")


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_results_are_those_of_python(
    language: str, name: str, folder: Path, build: Path, processes: Processes, tmp_path: Path
) -> None:
    """Except for the policy, the result files equal those of the Python client, byte for byte."""
    command = client_in(language, build)
    path = folder / f"{name}.yaml"
    expected, _ = run_scenario(path, scheduler="fcfs", transport="inproc", out=tmp_path / "ours")
    server = Server(processes, path, "--once", out=tmp_path / "theirs")
    done = subprocess.run(
        [*command, server.address], capture_output=True, text=True, timeout=SOON_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert server.end() == 0
    assert json.loads((tmp_path / "theirs" / "metrics.json").read_text()) == expected
    assert anonymous(read(tmp_path / "theirs")) == anonymous(read(tmp_path / "ours"))


@pytest.mark.parametrize("name", ["two_kinds_of_nodes"])
@pytest.mark.parametrize("language", LIBRARIES)
def test_results_of_libraries_are_those_of_python(
    language: str, name: str, folder: Path, libraries: Path, tmp_path: Path
) -> None:
    """In a child process, in this process and over the wire, the result files are the same."""
    library = library_in(language, libraries)
    path, policy = folder / f"{name}.yaml", "easy" if language == "cpp" else "fcfs"
    run_scenario(path, scheduler=policy, transport="inproc", out=tmp_path / "python")
    expected = read(tmp_path / "python")
    del expected["run.json"]  # it names the scheduler
    forms: dict[str, tuple[str, Transport]] = {
        "child": (str(library), "inproc"),
        "wire": (str(library), "ipc"),
        "here": (f"in-process:{library}", "inproc"),
    }
    for form, (scheduler, transport) in forms.items():
        run_scenario(path, scheduler=scheduler, transport=transport, out=tmp_path / form)
        found = read(tmp_path / form)
        del found["run.json"]
        assert found == expected


def test_nodes_are_switched_off_by_a_library_in_c(libraries: Path, tmp_path: Path) -> None:
    """Its options are what follows the path: the idle time, as of the power manager `timeout`."""
    library = library_in("c", libraries)
    path = tmp_path / "power.yaml"
    path.write_text(POWER)
    run_scenario(path, transport="inproc", out=tmp_path / "ours")
    plain = POWER.replace("power: {name: timeout, timeout_s: 120}", "power: always-on")
    path.write_text(plain)
    run_scenario(path, scheduler=f"{library}:120", transport="inproc", out=tmp_path / "theirs")
    ours, theirs = (read(tmp_path / name) for name in ("ours", "theirs"))
    del ours["run.json"], theirs["run.json"]  # they name the scheduler
    assert theirs == ours


def test_nodes_are_switched_off_in_c_as_in_python(
    build: Path, processes: Processes, tmp_path: Path
) -> None:
    """With an idle time, the results are those of `fcfs` beside the power manager `timeout`."""
    command = client_in("c", build)
    path = tmp_path / "power.yaml"
    path.write_text(POWER)
    metrics, _ = run_scenario(path, transport="inproc", out=tmp_path / "ours")
    assert metrics["node_shutdowns"] > 10
    server = Server(processes, path, "--once", out=tmp_path / "theirs")
    words = [*command, server.address, "", "60", "", "120"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert server.end() == 0
    ours, theirs = (read(tmp_path / name) for name in ("ours", "theirs"))
    del ours["run.json"], theirs["run.json"]  # they name the scheduler
    assert theirs == ours


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_server_with_keys_admits_clients_in_other_languages(
    language: str, folder: Path, build: Path, processes: Processes, tmp_path: Path
) -> None:
    """With the folder of its keys a client ends its simulation; with other keys it does not."""
    command = client_in(language, build)
    make_keys(tmp_path / "keys")
    make_keys(tmp_path / "others")
    path = folder / "signals.yaml"
    options = ("--once", "--keys", str(tmp_path / "keys" / "server"))
    server = Server(processes, path, *options, out=tmp_path / "out")

    def run(keys: Path, timeout_s: int) -> subprocess.CompletedProcess[str]:
        words = [*command, server.address, "signals", str(timeout_s), str(keys)]
        return subprocess.run(words, capture_output=True, text=True, timeout=SOON_S)

    stranger = run(tmp_path / "others" / "client", 1)
    assert (stranger.returncode, stranger.stdout) == (1, "")
    assert stranger.stderr.startswith("error: ")
    done = run(tmp_path / "keys" / "client", 60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert server.end() == 0
    missing = run(tmp_path, 1)
    assert missing.returncode == 1
    assert "client.key_secret" in missing.stderr
