"""Schedulers that come back to their session with the state that they had."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hpcosim_client.connection
from hpcosim_client import Policy, View, run
from hpcosim_client.errors import PolicyDiffersError, ServerRefusedError
from hpcosim_protocol import Hello, Welcome, decode_server_message, encode
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers import make_policy, scheduler_names, with_power
from hpcosim_schedulers.heuristics.esjf import esjf
from hpcosim_schedulers.power.settings import Awareness, read_power
from hpcosim_server.journal.store import Journals
from hpcosim_server.service import session_journals as journaling
from hpcosim_server.service.recovery import restore
from hpcosim_server.service.service import Service
from support.memory_disk import MemoryDisk
from support.paths import ROOT

SCENARIO = """
name: back
seed: 11
platform:
  nodes:
    - count: 3
      processors: [{cores: 4, clock_ghz: 2.0, static_w: 100, dynamic_w: 5, idle_fraction: 0.5}]
      power_states: &states
        {sleep_w: 5, switch_on_s: 60, switch_on_w: 80, switch_off_s: 20, switch_off_w: 20,
         switch_on_sd_s: 10}
    - count: 2
      processors: [{cores: 8, static_w: 150, dynamic_w: 7}]
      power_states: *states
workload:
  synthetic: {model: poisson, jobs: 15, mean_interarrival_s: 60, cores: [1, 8], run_s: [10, 900]}
  placement: one_node
  reference_clock_ghz: 1.0
signals:
  co2_g_per_kwh: {changes: [[0, 300], [400, 100], [900, 300]], forecast_s: 600}
  power_cap_w: {changes: [[0, 900], [400, 700], [900, 900]], forecast_s: 600}
scheduler: {name: easy}
"""
MANAGERS = (
    {"name": "timeout", "timeout_s": 60},
    {"name": "timeout", "timeout_s": 20, "wait_price_w": 50},
    {"name": "keep-idle", "warm": 1},
    {"name": "slurm", "suspend_time_s": 30, "suspend_timeout_s": 30, "resume_timeout_s": 70},
)
ADAPTIVE = {
    "name": "adaptive",
    "model": str(ROOT / "scenarios/papers/power/models/adaptive-400-1.safetensors"),
}
Make = Callable[[], Policy]


class Killed(BaseException):
    """The scheduler was killed."""


class DirectLink:
    """Calls the service instead of sending; the scheduler is killed after some messages.

    Attributes:
        left: number of messages until the kill; negative: it is not killed.
        service: the service.
    """

    left = -1
    problem = ""
    service: Service

    def __init__(self, *_: object) -> None:
        self._replies: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Answer the message."""
        cls = type(self)
        if cls.left == 0:
            cls.left = -1
            if random.Random(len(data)).random() < 0.5:  # the reply is lost, not the request
                cls.service.answer(data)
            raise Killed
        cls.left -= 1
        self._replies.append(cls.service.answer(data))

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the reply."""
        return self._replies.pop(0) if self._replies else None

    def clock_s(self) -> float:
        """Return no time."""
        return 0.0

    def close(self) -> None:
        """Do nothing."""


class Server:
    """A service without a socket.

    Args:
        folder: folder for the scenario and the results.
        journals: whether it keeps journals.
    """

    def __init__(self, folder: Path, journals: bool = True) -> None:
        folder.mkdir(exist_ok=True)
        path = folder / "back.yaml"
        path.write_text(SCENARIO)
        self.out = folder / "out"
        self.disk = MemoryDisk()
        self._library = Library([path])
        self._start(journals)

    def _start(self, journals: bool) -> Journals | None:
        kept = Journals(Path("/j"), "never", self.disk) if journals else None
        self.service = Service(self._library.open, None, self.out, journals=kept)
        return kept

    def lose_half(self) -> None:
        """Be killed with the machine, which loses the last half of a journal; start again."""
        (journal,) = self.disk.files.values()
        del journal[len(journal) // 2 :]
        self.disk.kill()
        kept = self._start(journals=True)
        assert kept is not None
        assert restore(self.service, kept).sessions == 1
        DirectLink.service = self.service

    def schedule(self, make: Make, kills: list[int], **options: Any) -> dict[str, bytes]:
        """Run a session whose scheduler is killed after these numbers of messages."""
        DirectLink.service = self.service
        session = ""
        names: list[Welcome] = []
        for left in [*kills, -1]:
            DirectLink.left = left
            try:
                run(make(), name="p", session=session, welcomed=names.append, **options)
            except Killed:
                session = names[-1].session if names else ""
                continue
            except ServerRefusedError as refused:  # killed before it got `simulation_ended`
                if "every job is over" not in str(refused):
                    raise
            break
        return self.results(names[-1].session)

    def results(self, session: str) -> dict[str, bytes]:
        """Return the results of a session by file name."""
        self.service.tidy()
        (folder,) = self.out.glob(f"*-{session[:8]}")
        return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(autouse=True)
def link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect schedulers to the service directly."""
    monkeypatch.setattr(hpcosim_client.connection, "new_link", DirectLink)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with journals."""
    return Server(tmp_path_factory.mktemp("back"))


def policies() -> Mapping[str, Make]:
    """Return one way to make each policy, by a name for tests."""
    makers: dict[str, Make] = {}
    for name in scheduler_names():
        makers[name] = partial(make_policy, name)
    for number, settings in enumerate(MANAGERS):
        power = read_power(json.dumps(settings))
        for scheduler in ("easy", "conservative"):
            name = f"{scheduler} {settings['name']} {number}"
            awareness: Awareness = "aware" if settings["name"] == "slurm" else "planned"
            makers[name] = partial(with_power, scheduler, power, awareness)
    adaptive = read_power(json.dumps(ADAPTIVE))
    makers["conservative adaptive"] = partial(with_power, "conservative", adaptive, "planned")
    slurm = read_power(json.dumps(MANAGERS[-1]))
    makers["slurm slurm"] = partial(with_power, "slurm", slurm)
    for name in ("esjf", "esjf-now"):  # their default horizon is too short for these jobs
        makers[name] = partial(esjf, horizon=2000, now_only=name == "esjf-now")
    return makers


@pytest.mark.parametrize("name", policies())
def test_a_killed_scheduler_comes_back(name: str, server: Server) -> None:
    """With kills at random messages, the results are those of an undisturbed run."""
    if name == "conservative adaptive":
        pytest.importorskip("safetensors", reason="learned rules need the extra rl")
    make = policies()[name]
    chance = random.Random(name)
    undisturbed = server.schedule(make, [])
    kills = [chance.randrange(40) + at for at in range(1, 4)]
    assert server.schedule(make, kills) == undisturbed


def test_pages_of_a_long_history(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history of many pages is the same."""
    monkeypatch.setattr(journaling, "PAGE_BYTES", 500)

    def make() -> Policy:
        return make_policy("conservative")

    assert server.schedule(make, [50]) == server.schedule(make, [])


def test_a_session_that_loses_requests_after_its_welcome_goes_on(tmp_path: Path) -> None:
    """The history is shorter than the welcome said; the scheduler goes on after its end."""
    server = Server(tmp_path)
    undisturbed = server.schedule(lambda: make_policy("easy"), [])
    server.disk.files.clear()
    DirectLink.left = 12
    names: list[Welcome] = []
    with pytest.raises(Killed):
        run(make_policy("easy"), name="p", welcomed=names.append)
    session = names[0].session
    run(make_policy("easy"), name="p", session=session, welcomed=lambda _: server.lose_half())
    assert server.results(session) == undisturbed


def test_another_policy_is_noticed(server: Server) -> None:
    """A policy that decides otherwise is an error with request, time, and both decisions."""
    DirectLink.service, DirectLink.left = server.service, 8
    names: list[Welcome] = []
    with pytest.raises(Killed):
        run(make_policy("easy"), name="p", welcomed=names.append)
    session = names[0].session
    with pytest.raises(PolicyDiffersError) as caught:
        run(_alarmist, name="p", session=session)
    assert caught.value.seq == 2
    assert caught.value.got.startswith('{"type":"set_alarm"')
    assert "--from-snapshot" in str(caught.value)
    # The session is open, and goes on as the error says.
    metrics = run(_alarmist, name="p", session=session, from_snapshot=True)
    assert metrics["jobs"] == 15


def _alarmist(view: View) -> None:
    """Set an alarm, and schedule as FCFS does."""
    if view.now_s == 0.0:
        view.set_alarm(1.0, 9)
    make_policy("fcfs")(view)


def test_a_scheduler_that_came_back_from_a_snapshot(server: Server) -> None:
    """The history begins with the last snapshot, so a scheduler of it comes back too."""
    DirectLink.service = server.service
    results = []
    for kills in ([], [3], [0], [12, 4]):
        DirectLink.left = 9
        names: list[Welcome] = []
        with pytest.raises(Killed):
            run(make_policy("easy"), name="p", welcomed=names.append)
        session = names[0].session
        for number, left in enumerate([*kills, -1]):
            DirectLink.left = left + 1 if left >= 0 else -1
            try:
                run(make_policy("sjf"), name="p", session=session, from_snapshot=number == 0)
            except Killed:
                continue
            except ServerRefusedError as refused:
                if "every job is over" not in str(refused):
                    raise
        results.append(server.results(session))
    assert all(each == results[0] for each in results)


def test_without_a_journal_a_scheduler_gets_a_snapshot(tmp_path: Path) -> None:
    """A server without journals sends a snapshot instead of a history."""
    server = Server(tmp_path, journals=False)
    results = server.schedule(lambda: make_policy("easy"), [30])
    assert json.loads(results["metrics.json"])["jobs"] == 15


def test_history_is_asked_for_only_to_resume(server: Server) -> None:
    """A new session has no option `history`."""
    hello = Hello(versions=[1])
    welcome = decode_server_message(server.service.answer(encode(hello)))
    assert isinstance(welcome, Welcome)
    assert not welcome.options.history
