"""Results of a service on a full disk: written later, or reported as lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpcosim_protocol import Bye, Decisions, Hello, Welcome, decode_server_message, encode
from hpcosim_scenarios.running.library import Library
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.outcomes import REMEMBERED, Outcomes
from hpcosim_server.service.service import Service
from hpcosim_server.service.status import Failure, Status
from hpcosim_sim.errors import ResultsFolderError
from hpcosim_sim.record.folder import MIN_FREE_BYTES, prepare

SCENARIO = """
name: one
platform: {nodes: [{count: 1, processors: [{cores: 1, static_w: 0, dynamic_w: 0}]}]}
workload: {inline: [{job_id: 1, submit_s: 0, cores: 1, run_s: 5}]}
"""
RETRY_S = 100.0


class Host:
    """A service on a disk that can be full, and a clock that the test moves.

    Attributes:
        full: whether the disk is full.
        now_s: the clock, s.
        attempts: number of attempts to write results on the full disk.
        told: what the service has reported.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full, self.now_s, self.attempts = True, 0.0, 0
        self.told: list[Status] = []
        scenario = folder / "one.yaml"
        scenario.write_text(SCENARIO)
        self.out = folder / "out"
        limits = Limits(sessions=2, results_retry_s=RETRY_S)
        library = Library([scenario], None, limits.jobs)
        self.service = Service(
            library.open, limits, self.out, report=self.told.append, clock=lambda: self.now_s
        )
        fsync = os.fsync

        def sync(descriptor: int) -> None:
            if self.full:
                self.attempts += 1
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", sync)

    def one_session(self) -> None:
        """Open a session and close it."""
        welcome = decode_server_message(
            self.service.answer(encode(Hello(versions=[1], client="tester")))
        )
        assert isinstance(welcome, Welcome)
        self.service.answer(encode(Decisions(session=welcome.session, seq=1)))
        self.service.answer(encode(Bye(session=welcome.session)))
        self.service.tidy()

    def wait(self, seconds: float) -> None:
        """Let time pass, with the service's regular work each second."""
        for _ in range(int(seconds)):
            self.now_s += 1.0
            self.service.tidy()

    @property
    def lost(self) -> int:
        """Number of results that are reported as lost."""
        return sum(
            isinstance(each, Failure) and each.cause == "results_not_written" for each in self.told
        )

    @property
    def folders(self) -> int:
        """Number of results folders."""
        return len(list(self.out.glob("one-*/run.json")))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A service on a full disk."""
    return Host(tmp_path, monkeypatch)


def test_results_are_written_when_the_disk_has_space_again(host: Host) -> None:
    """The session is kept, nothing is reported as lost, and no half results are there."""
    host.one_session()
    host.wait(30)
    assert (host.folders, host.lost) == (0, 0)
    assert list(host.out.iterdir()) == []
    host.full = False
    host.wait(40)
    assert (host.folders, host.lost) == (1, 0)


def test_attempts_become_rare_and_end_with_a_failure(host: Host) -> None:
    """After the time for retries the results are lost, which is reported once."""
    host.one_session()
    host.wait(int(RETRY_S) + 5)
    assert host.lost == 1
    assert host.attempts == 8  # after 0, 1, 3, 7, 15, 31, 63 and 100 s
    host.full = False
    host.wait(100)
    assert host.folders == 0


def test_a_service_that_stops_makes_a_last_attempt(host: Host) -> None:
    """It does not wait for the time of the next attempt."""
    host.one_session()
    host.wait(20)
    host.full = False
    host.service.stop("stopped by SIGTERM")
    assert (host.folders, host.lost) == (1, 0)
    assert not any(each.cause == "results_not_written" for each in host.service.failures)


def test_results_that_a_stopping_service_cannot_write_are_lost(host: Host) -> None:
    """The last attempt fails, and so does the service."""
    host.one_session()
    host.service.stop("stopped by SIGTERM")
    assert (host.folders, host.lost) == (0, 1)


def test_the_number_of_sessions_that_wait_is_limited(host: Host) -> None:
    """Each keeps a simulation in memory, so that of too many the results are lost at once."""
    for _ in range(3):
        host.one_session()
    assert host.lost == 1


def test_another_error_is_no_reason_to_wait(host: Host) -> None:
    """A file in the place of the folder does not go away."""
    host.full = False
    host.out.write_text("in the way")
    host.one_session()
    assert host.lost == 1


def test_lost_results_are_a_failure_after_many_others() -> None:
    """The exit status depends on lost results, however many clients have left before."""
    outcomes = Outcomes(lambda status: None)
    for _ in range(REMEMBERED + 1):
        outcomes.fail(Failure("client_left", "the client left"))
    for _ in range(2):
        outcomes.fail(Failure("results_not_written", "full"))
    causes = [failure.cause for failure in outcomes.failures]
    assert causes.count("client_left") == REMEMBERED
    assert causes.count("results_not_written") == 1


def test_a_full_disk_is_an_error_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check needs space for a small file and some more."""
    free = SimpleNamespace(f_bavail=MIN_FREE_BYTES // 4096 - 1, f_frsize=4096)
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda path: free)
        with pytest.raises(ResultsFolderError, match="the disk has 1044480 bytes left; expected"):
            prepare(tmp_path / "out")
    Host(tmp_path, monkeypatch)
    with pytest.raises(ResultsFolderError, match="cannot be written here: No space left"):
        prepare(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["one.yaml"]
