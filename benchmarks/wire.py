"""Two processes over tcp, compared with a ping-pong with messages of the same sizes."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from tempfile import TemporaryDirectory

import zmq

from benchmarks.cases import equal_nodes, lublin_256, simulate, trace
from hpcosim_client import run as schedule
from hpcosim_protocol import Hello, Platform
from hpcosim_schedulers import make_policy
from hpcosim_server.service.held_replies import Envelope
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_server.service.socket_loop import serve
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.record.results import Run
from hpcosim_workloads.table import JobTable

Sizes = list[tuple[int, int]]


class _MeasuredService(Service):
    """Records the sizes of each request and its reply, bytes."""

    sizes: Sizes

    def answer(self, data: bytes, envelope: Envelope = ()) -> bytes:
        answer = super().answer(data, envelope)
        self.sizes.append((len(data), len(answer)))
        return answer


def run(smoke: bool) -> dict[str, float]:
    """Return the figures.

    `x_of_limit` is the wall time over tcp divided by (1.5 x ping-pong + wall time in process). The
    target is at most 1. `cpu_x_of_limit` is the same quotient of CPU times, of both processes with
    their threads, with 1 x ping-pong.
    """
    figures: dict[str, float] = {}
    nasa = None if smoke else trace("nasa-ipsc")
    cases = [("lublin_256", lublin_256(500 if smoke else 10_000), 256)]
    cases += [("nasa-ipsc", nasa, 128)] if nasa is not None else []
    for name, jobs, nodes in cases:
        figures |= {f"{name} fcfs, {what}": value for what, value in _case(jobs, nodes).items()}
    return figures


def _case(jobs: JobTable, nodes: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        address = f"ipc://{folder}/a.sock"
        tcp = "tcp://127.0.0.1:*"
        cluster = equal_nodes(nodes)
        cpu_s = [_cpu_s()]
        wall_s, sizes = two_processes(tcp, cluster, jobs, "fcfs")
        cpu_s.append(_cpu_s())
        ping_pong_s = _ping_pong(tcp, sizes)
        cpu_s.append(_cpu_s())
        ipc_s, _ = two_processes(address, cluster, jobs, "fcfs")
    began_s, began_cpu_s = time.perf_counter(), _cpu_s()
    simulate(cluster, jobs, "fcfs")
    in_process_s, in_process_cpu_s = time.perf_counter() - began_s, _cpu_s() - began_cpu_s
    tcp_cpu_s, ping_pong_cpu_s = cpu_s[1] - cpu_s[0], cpu_s[2] - cpu_s[1]
    return {
        "messages": len(sizes),
        "tcp, s": wall_s,
        "ipc, s": ipc_s,
        "ping-pong, s": ping_pong_s,
        "in process, s": in_process_s,
        "jobs/s over tcp": len(jobs) / wall_s,
        "x_of_limit": wall_s / (1.5 * ping_pong_s + in_process_s),
        "CPU per message over tcp, us": 1e6 * tcp_cpu_s / len(sizes),
        "CPU per message of ping-pong, us": 1e6 * ping_pong_cpu_s / len(sizes),
        "cpu_x_of_limit": tcp_cpu_s / (ping_pong_cpu_s + in_process_cpu_s),
    }


def _cpu_s() -> float:
    """Return the CPU time of this process and of its children that have ended, s."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def two_processes(
    address: str,
    platform: Platform,
    jobs: JobTable,
    scheduler: str,
    rules: Rules | None = None,
) -> tuple[float, Sizes]:
    """Return the scheduler's wall time from hello to the end, and the sizes of all messages."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(address, platform, jobs, rules, theirs))
    server.start()
    endpoint = ours.recv()
    policy = make_policy(scheduler)
    began_s = time.perf_counter()
    schedule(policy, endpoint, name="benchmark")
    wall_s = time.perf_counter() - began_s
    sizes: Sizes = ours.recv()
    server.join()
    return wall_s, sizes


def _serve(
    address: str, platform: Platform, jobs: JobTable, rules: Rules | None, pipe: Pipe
) -> None:
    if address.endswith("*"):
        address = address.replace("*", str(free_port()))
    about = Run(hpcosim="", scenario="benchmark", scheduler="benchmark", seed=0)

    def opener(_: Hello) -> Opened:
        return Opened(Simulation(platform, jobs, rules), about, len(jobs))

    service = _MeasuredService(opener, sessions=1)
    service.sizes = []
    pipe.send(address)
    serve(service, address)
    pipe.send(service.sizes)


def _ping_pong(address: str, sizes: Sizes) -> float:
    """Return the wall time of requests and replies of the same sizes, without any processing."""
    ours, theirs = multiprocessing.Pipe()
    echo = multiprocessing.Process(
        target=_echo, args=(address, [answer for _, answer in sizes], theirs)
    )
    echo.start()
    endpoint = ours.recv()
    requests = [b"x" * request for request, _ in sizes]
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.connect(endpoint)
        socket.send(b"")
        socket.recv()
        began_s = time.perf_counter()
        for request in requests:
            socket.send(request)
            socket.recv()
        wall_s = time.perf_counter() - began_s
    echo.join()
    return wall_s


def _echo(address: str, sizes: Sequence[int], pipe: Pipe) -> None:
    answers = [b"x" * size for size in sizes]
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.bind(address)
        pipe.send(socket.getsockopt_string(zmq.LAST_ENDPOINT))
        for answer in [b"", *answers]:
            identity, empty, _ = socket.recv_multipart()
            socket.send_multipart([identity, empty, answer])


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as probe:
        return probe.bind_to_random_port("tcp://127.0.0.1")
