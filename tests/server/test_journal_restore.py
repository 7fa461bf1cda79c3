"""Sessions are restored from their journals, byte by byte."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcosim_protocol import Bye, Decisions, Goodbye, Hello, Welcome, encode
from hpcosim_server.journal.store import SUFFIX, SYNC_INTERVAL_S
from hpcosim_server.service.held_replies import Envelope
from hpcosim_server.service.socket_loop import TICK_S, answer_all
from support.journaled import JOURNALS, JournaledScheduler, JournaledServer, error_of


@pytest.fixture
def server(tmp_path: Path) -> JournaledServer:
    """A server with journals."""
    return JournaledServer(tmp_path)


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, bytes]:
    """The results of a run whose server has no journal and is not killed."""
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    return JournaledScheduler(JournaledServer(folder)).finish()


@pytest.mark.slow
def test_a_server_killed_after_every_request_loses_nothing(
    server: JournaledServer, undisturbed: dict[str, bytes]
) -> None:
    """A session whose server is killed after each request has the results of an undisturbed run."""
    scheduler = JournaledScheduler(server)
    while not scheduler.ended:
        scheduler.step()
        reply = scheduler.reply
        restored = server.kill()
        assert restored.refused == {}
        assert restored.sessions == (not scheduler.ended)
        assert scheduler.repeat() == reply
    assert server.results(scheduler.session) == undisturbed
    assert server.journals.open_names() == []


@pytest.mark.slow
def test_several_sessions_are_restored_together(
    server: JournaledServer, undisturbed: dict[str, bytes]
) -> None:
    """Sessions at different requests go on after random kills, each to the same results."""
    chance = random.Random(5)
    schedulers = [JournaledScheduler(server) for _ in range(4)]
    left = list(schedulers)
    while left:
        chosen = chance.choice(left)
        chosen.step()
        if chosen.ended:
            left.remove(chosen)
        if chance.random() < 0.2:
            server.service.tidy()
        if chance.random() < 0.15:
            server.kill()
    assert all(server.results(each.session) == undisturbed for each in schedulers)


def test_a_hello_that_is_repeated_after_a_kill_gets_its_session(server: JournaledServer) -> None:
    """A client that did not get its welcome gets it from the restarted server, byte for byte."""
    scheduler = JournaledScheduler(server, nonce="n")
    welcome = server.send(scheduler.hello)
    server.kill()
    assert server.send(scheduler.hello) == welcome
    assert isinstance(welcome, Welcome)
    assert welcome.session == scheduler.session


def test_the_last_reply_of_an_ended_session_is_repeated(server: JournaledServer) -> None:
    """A client that did not get `simulation_ended` gets it from the restarted server."""
    scheduler = JournaledScheduler(server)
    scheduler.finish()
    reply = scheduler.reply
    for _ in range(2):
        server.kill()
        assert scheduler.repeat() == reply


def test_results_are_written_of_a_session_that_left(server: JournaledServer) -> None:
    """A session that ended before its results were written gets them from the next server."""
    scheduler = JournaledScheduler(server)
    for _ in range(5):
        scheduler.step()
    assert isinstance(server.send(Bye(session=scheduler.session)), Goodbye)
    restored = server.kill()
    assert (restored.sessions, restored.ended) == (0, 1)
    assert b"the client left" in server.results(scheduler.session)["run.json"]
    assert isinstance(server.send(Bye(session=scheduler.session)), Goodbye)
    assert server.journals.ended_names() == [f"small-easy-{scheduler.session[:8]}"]


def test_a_session_that_was_resumed_is_restored(server: JournaledServer) -> None:
    """Snapshots are part of the journal, and repeated ones are recorded once."""
    scheduler = JournaledScheduler(server)
    resume = Hello(versions=[1], session=scheduler.session)
    for at in range(3):
        welcome = server.send(resume)
        sizes = []
        for _ in range(3):
            assert server.send(resume) == welcome
            (journal,) = server.disk.files.values()
            sizes.append(len(journal))
        assert len(set(sizes)) == 1
        assert server.kill().sessions == 1
        assert server.send(resume) == welcome
        seq = at + 1
        request = Decisions(session=scheduler.session, seq=seq, wake_on=["job_submitted"])
        server.send(request)


def test_a_stopped_server_keeps_its_sessions(
    server: JournaledServer, undisturbed: dict[str, bytes]
) -> None:
    """A stop writes the results so far; a server that restores the session replaces them."""
    scheduler = JournaledScheduler(server)
    for _ in range(8):
        scheduler.step()
    server.service.stop("stopped by SIGTERM")
    assert b"stopped by SIGTERM" in server.results(scheduler.session)["run.json"]
    assert server.kill().sessions == 1
    assert scheduler.finish() == undisturbed


def test_a_silent_session_stays_ended(server: JournaledServer) -> None:
    """A session that was closed for the silence of its client is not opened again."""
    scheduler = JournaledScheduler(server)
    scheduler.step()
    while len(server.service._open):  # a clock that jumps is a service that was stopped
        server.clock_s += 1.0
        server.service.tidy()
    assert server.kill() == (0, 1, {})
    scheduler.repeat()  # its last reply, as without a kill
    error = error_of(server.service.answer(encode(Hello(versions=[1], session=scheduler.session))))
    assert error.code == "unknown_session"
    assert b"no message from the client" in server.results(scheduler.session)["run.json"]


def test_a_changed_scenario_is_refused(server: JournaledServer) -> None:
    """A session of a scenario that has changed is refused; its journal stays as it is."""
    scheduler = JournaledScheduler(server)
    scheduler.step()
    before = dict(server.disk.files)
    text = server.scenario.read_text()
    server.scenario.write_text(text.replace("dynamic_w: 5", "dynamic_w: 6"))
    (refused,) = server.kill().refused.values()
    assert "the scenario 'small' or a file of it has changed" in refused
    assert server.disk.files == before
    error = error_of(scheduler.repeat())
    assert (error.code, "could not be restored" in error.message) == ("unknown_session", True)
    server.scenario.write_text(text)
    assert server.kill().sessions == 1


def test_a_difference_is_named(server: JournaledServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation that differs is refused with request, time, event, expected and got."""
    from hpcosim_sim.engine.simulation import Simulation

    scheduler = JournaledScheduler(server)
    for _ in range(6):
        scheduler.step()
    advance = Simulation.advance

    def later(self, *arguments, seq=0, **options):  # type: ignore[no-untyped-def]
        batch = advance(self, *arguments, seq=seq, **options)
        if seq == 5:
            batch.events[-1].time_s += 1.0
        return batch

    monkeypatch.setattr(Simulation, "advance", later)
    (refused,) = server.kill().refused.values()
    assert "the reply to request 5 differs, at the simulated time" in refused
    assert "events[" in refused
    assert "expected {" in refused
    assert "got {" in refused


@pytest.mark.slow
def test_a_cut_journal_is_restored_up_to_the_cut(server: JournaledServer) -> None:
    """A journal cut at any byte gives a session up to its last whole request, or none."""
    scheduler = JournaledScheduler(server)
    places = []
    (journal,) = server.disk.files.values()
    for _ in range(6):
        scheduler.step()
        places.append(len(journal))
    content = bytes(journal)
    for size in range(0, len(content), 29):
        del journal[:]
        journal += content[:size]
        restored = server.kill()
        assert restored.refused == {}
        if not restored.sessions:
            assert server.disk.files == {}
            server.disk.files[JOURNALS / "open" / f"small{SUFFIX}"] = journal
            continue
        answer = server.send(Hello(versions=[1], session=scheduler.session))
        assert isinstance(answer, Welcome)
        assert answer.seq == sum(place <= size for place in places)


def test_a_damaged_journal_keeps_what_it_cannot_read(server: JournaledServer) -> None:
    """What follows a damaged record is put aside before the session goes on."""
    scheduler = JournaledScheduler(server)
    (path,) = server.disk.files
    scheduler.step()
    place = len(server.disk.files[path])
    for _ in range(3):
        scheduler.step()
    rest = bytes(server.disk.files[path][place:])
    server.disk.files[path][place + 20] ^= 1
    assert server.kill().sessions == 1
    (aside,) = [each for each in server.disk.files if each != path]
    assert bytes(server.disk.files[aside])[21:] == rest[21:]
    assert len(server.disk.files[path]) == place


@pytest.mark.parametrize("bad", ["pipe", "folder", "link", "device", "sparse"])
def test_a_bad_file_among_the_journals_stops_no_other(bad: str, tmp_path: Path) -> None:
    """It is refused by name, stays as it is, and the sessions of the other journals go on."""
    server = JournaledServer(tmp_path, on_disk=True)
    good, other = JournaledScheduler(server), JournaledScheduler(server)
    for scheduler in (good, other):
        scheduler.step()
    path = tmp_path / f"journals/open/small-easy-{other.session[:8]}.journal"
    if bad == "sparse":
        size = 20 * 2**30
        os.truncate(path, size)
    else:
        path.unlink()
    make: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "link": lambda: path.symlink_to("nothing"),
        "device": lambda: path.symlink_to("/dev/zero"),
        "sparse": lambda: None,
    }
    make[bad]()
    restored = server.kill()
    assert (restored.sessions, list(restored.refused)) == (1, [path.stem])
    good.step()
    if bad == "sparse":
        assert path.stat().st_size == size
        assert f"{path}: {size - 2**20}"[:-8] in restored.refused[path.stem]
        assert not list(path.parent.glob("*.after-*"))


def test_a_damaged_journal_is_restored_on_a_full_disk(server: JournaledServer) -> None:
    """The session goes on without its journal, which stays as it is until there is room.

    What follows the damage is put aside then, also if an attempt before was cut off.
    """
    scheduler = JournaledScheduler(server)
    (path,) = server.disk.files
    places = []
    for _ in range(4):
        places.append(len(server.disk.files[path]))
        scheduler.step()
    server.disk.files[path][places[2] + 20] ^= 1
    damaged = bytes(server.disk.files[path])
    for room in (0, 10):
        server.disk.room = room
        assert server.kill() == (1, 0, {})
        assert server.disk.files == {path: damaged}
        assert server.journals.is_failing
        server.service.stop("stopped by SIGTERM")
    server.disk.room = None
    aside = path.with_name(f"{path.stem}.after-{places[2]}")
    server.disk.files[aside] = bytearray(b"a part")
    assert server.kill() == (1, 0, {})
    assert server.disk.files == {path: damaged[: places[2]], aside: damaged[places[2] :]}
    assert not server.journals.is_failing
    welcome = server.send(Hello(versions=[1], session=scheduler.session))
    assert isinstance(welcome, Welcome)
    assert welcome.seq == 2


def test_a_stopped_server_keeps_a_session_whose_journal_has_failed(server: JournaledServer) -> None:
    """The session can be restored to the last record, as after a kill."""
    scheduler = JournaledScheduler(server)
    for at in range(6):
        server.disk.room = 0 if at == 4 else None
        scheduler.step()
    server.service.stop("stopped by SIGTERM")
    assert server.kill() == (1, 0, {})
    welcome = server.send(Hello(versions=[1], session=scheduler.session))
    assert isinstance(welcome, Welcome)
    assert welcome.seq == 4


def test_a_full_disk_does_not_end_the_run(
    server: JournaledServer, undisturbed: dict[str, bytes]
) -> None:
    """A session goes on without its journal, to the same results, and leaves no stale journal."""
    scheduler = JournaledScheduler(server)
    for _ in range(4):
        scheduler.step()
    server.disk.room = 10
    assert scheduler.finish() == undisturbed
    server.disk.room = None
    assert server.disk.files == {}
    assert server.journals.failed == 1
    assert server.kill() == (0, 0, {})


def test_a_session_opens_on_a_full_disk(
    server: JournaledServer, undisturbed: dict[str, bytes]
) -> None:
    """Without room for a journal, a session runs without one."""
    server.disk.room = 0
    assert JournaledScheduler(server).finish() == undisturbed


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_a_machine_that_fails_loses_what_was_not_synced(tmp_path: Path, sync: str) -> None:
    """With `always` nothing is lost; with `interval` what is younger than the interval."""
    server = JournaledServer(tmp_path, sync=sync)  # type: ignore[arg-type]
    scheduler = JournaledScheduler(server)
    for _ in range(10):
        scheduler.step()
        server.clock_s += 0.3
        server.service.tidy()
    server.disk.lose_power()
    sessions = server.kill().sessions
    answer = server.send(Hello(versions=[1], session=scheduler.session))
    if sync == "never":
        assert sessions == 0
    else:
        assert isinstance(answer, Welcome)
        assert answer.seq in ([10] if sync == "always" else [7, 8, 9, 10])


def test_an_idle_server_synchronises_its_journals_after_the_interval(tmp_path: Path) -> None:
    """The loop of a server does it without a further request; a failing machine loses nothing."""
    server = JournaledServer(tmp_path, sync="interval")
    scheduler = JournaledScheduler(server)
    scheduler.step()
    until_s = server.clock_s + SYNC_INTERVAL_S
    synced = []

    class NobodyAtTheDoor:
        """A door at which no request arrives."""

        def receive(self, timeout_s: float) -> None:
            """Let time pass."""
            server.clock_s += timeout_s

        def send(self, envelope: Envelope, reply: bytes) -> None:
            """See `Door`."""

    def stopped() -> str:
        synced.append(server.disk.syncs)
        return "the test is over" if server.clock_s > until_s + 2 * TICK_S else ""

    answer_all(server.service, NobodyAtTheDoor(), stopped, shutdown_s=0.0)
    assert synced[0] == 0
    assert synced[-1] > 0


def test_a_worker_restores_its_own_sessions(tmp_path: Path) -> None:
    """With `of_worker`, only the sessions whose name has the worker's number are restored."""
    from hpcosim_server.service.recovery import restore
    from hpcosim_server.service.sessions import new_name

    server = JournaledServer(tmp_path)
    names = []
    for worker in (1, 2, 2):
        server.disk.kill()
        server.options = {"name": lambda worker=worker: new_name(worker)}
        server.start()
        names.append(JournaledScheduler(server).session)
    server.disk.kill()
    server.start()
    assert restore(server.service, server.journals, of_worker=2).sessions == 2
    replies = [server.send(Hello(versions=[1], session=name)) for name in names]
    assert [isinstance(reply, Welcome) for reply in replies] == [False, True, True]


def test_a_restored_session_counts(tmp_path: Path) -> None:
    """A server for one session that restores it opens no second one, and is done at its end."""
    server = JournaledServer(tmp_path)
    server.options = {"sessions": 1}
    server.disk.kill()
    server.start()
    scheduler = JournaledScheduler(server)
    scheduler.step()
    server.kill()
    refused = server.send(Hello(versions=[1]))
    assert getattr(refused, "code", "") == "too_many_sessions"
    scheduler.finish()
    assert server.service.done
