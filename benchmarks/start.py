"""CPU of whole commands that do next to nothing, compared with `import numpy`.

The least of several runs, user and system time of all processes of the command. Modules come from
bytecode in a folder of the benchmark, as those of an installed wheel do. Where the environment sets
PYTHONDONTWRITEBYTECODE, the figures `compiled` are those of the environment as it is: then modules
without bytecode, usually those of a checkout, are compiled at each start.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zmq

from support.batsim_inputs import delays, write_platform, write_workload

COMMAND = ("-m", "hpcosim.cli")
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
SCENARIO = """name: one
platform: {nodes: [{count: 4, processors: [{cores: 1, static_w: 100, dynamic_w: 10}]}]}
workload:
  synthetic:
    {model: poisson, jobs: 1, mean_interarrival_s: 60, cores: [1, 1], run_s: [20, 600]}
scheduler: {name: fcfs}
"""


def run(smoke: bool) -> dict[str, float]:
    """Return the CPU of commands, s, and their ratio to that of `import numpy`."""
    repeats = 1 if smoke else 7
    with TemporaryDirectory(prefix="hpcosim-start-") as folder:
        kept = {key: value for key, value in os.environ.items() if key != NO_BYTECODE}
        kept["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
        if not smoke:
            _measured(Path(folder), 1, kept)  # writes the bytecode
        cpu_s = _measured(Path(folder), repeats, kept)
        compiled_s = {}
        if os.environ.get(NO_BYTECODE) and not smoke:
            compiled_s = _measured(Path(folder), repeats, os.environ)
    ratios = {
        f"{name}, x_of_numpy": value / cpu_s["import numpy"]
        for name, value in cpu_s.items()
        if name.startswith("one")
    }
    return {
        **{f"{name}, s": value for name, value in cpu_s.items()},
        **{f"{name}, compiled, s": value for name, value in compiled_s.items()},
        **ratios,
    }


def _measured(folder: Path, repeats: int, environment: Mapping[str, str]) -> dict[str, float]:
    """Return the least CPU of each command in a number of runs, s."""
    scenario = folder / "one.yaml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    play = (*COMMAND, "run", scenario, "--out", folder / "out", "--force", "--transport")
    commands: dict[str, tuple[str | Path, ...]] = {
        "python": ("-c", "pass"),
        "import numpy": ("-c", "import numpy"),
        "import hpcosim_client": ("-c", "import hpcosim_client"),
        "hpcosim --help": (*COMMAND, "--help"),
        "one job, inproc": (*play, "inproc"),
        "one job, ipc": (*play, "ipc"),
        "one job, tcp": (*play, "tcp"),
    }
    rounds = range(repeats)
    cpu_s = {
        name: min(cpu_of(*words, environment=environment) for _ in rounds)
        for name, words in commands.items()
    }
    cpu_s["one job, Batsim bridge"] = min(_bridge_s(folder, environment) for _ in rounds)
    cpu_s["hpcosim serve, until it listens"] = min(
        _listening_s(scenario, environment) for _ in rounds
    )
    return cpu_s


def _listening_s(scenario: Path, environment: Mapping[str, str]) -> float:
    """Return the CPU of a server of one process until it logs that it listens, s."""
    address = f"ipc://{scenario.with_name('socket')}"
    words = (*COMMAND, "serve", scenario, "--bind", address, "--workers", "1")
    command = [sys.executable, *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        assert any('"listening"' in line for line in server.stderr)
        on_cpu_ns = Path(f"/proc/{server.pid}/schedstat").read_text().split()[0]
        server.terminate()
        server.stderr.read()
    return int(on_cpu_ns) / 1e9


def cpu_of(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> float:
    """Return the CPU of a Python process and of the processes it starts, s."""
    command = [sys.executable, *map(str, arguments)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _bridge_s(folder: Path, environment: Mapping[str, str]) -> float:
    """Return the CPU of `hpcosim batsim` with one job, s; the scheduler is a thread here."""
    platform = write_platform(folder, 1)
    workload = write_workload(folder, *delays(1, 1, np.random.default_rng(1)))
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        address = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
        scheduler = threading.Thread(target=_start_each_job, args=(socket,))
        scheduler.start()
        options = ("-p", platform, "-w", workload, "-s", address, "-e", folder / "out")
        cpu_s = cpu_of(*COMMAND, "batsim", *options, environment=environment)
        scheduler.join()
    return cpu_s


def _start_each_job(socket: zmq.Socket[bytes]) -> None:
    """Reply as a Batsim scheduler that starts each job on host 0."""
    over = False
    while not over:
        message = json.loads(socket.recv())
        events = message["events"]
        over = any(event["type"] == "SIMULATION_ENDS" for event in events)
        started = [
            {
                "timestamp": message["now"],
                "type": "EXECUTE_JOB",
                "data": {"job_id": event["data"]["job_id"], "alloc": "0"},
            }
            for event in events
            if event["type"] == "JOB_SUBMITTED"
        ]
        socket.send_string(json.dumps({"now": message["now"], "events": started}))
