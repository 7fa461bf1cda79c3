"""The bridge to Batsim's protocol, rule by rule: messages, replies and their effects."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hpcosim.cli.batsim import UNSUPPORTED, app
from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.replies import read_reply
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.csv_files import summary
from hpcosim_batsim.errors import (
    BadReplyError,
    BatsimError,
    InputError,
    StuckError,
    UnknownEnergyError,
)
from hpcosim_batsim.inputs.external_events import parse_intervals, read_external_events
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.workload_json import read_workloads
from hpcosim_batsim.install import install_as_batsim
from hpcosim_batsim.results import results_of
from hpcosim_sim.record.tables import intervals
from support.batsim_inputs import write_platform, write_workload
from support.batsim_outputs import write_outputs
from support.batsim_recording import rows_of
from support.commands import invoke
from support.processes import SOON_S

HOSTS = 4
PROFILES: dict[str, Any] = {
    "d10": {"type": "delay", "delay": 10},
    "d0.2": {"type": "delay", "delay": 0.2},
    "bad": {"type": "delay", "delay": 10, "ret": 3},
    "cpu": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},  # 10 s in power state 0
    "total": {"type": "parallel_homogeneous_total", "cpu": 4e9, "com": 0},
    "long": {"type": "delay", "delay": 1000},
    "uneven": {"type": "parallel", "cpu": [1e9, 5e8], "com": []},
    "both": {"type": "composed", "seq": ["d10", "cpu"], "repeat": 2},
    "fails": {"type": "composed", "seq": ["d0.2", "bad", "cpu"], "repeat": 2},
}


LOST_AT_10 = '{"type": "machine_unavailable", "timestamp": 10, "resources": "3"}'


class BridgeSession:
    """A bridge, and the replies of a scheduler that a test plays.

    Attributes:
        bridge: the bridge.
        takes_end_of_jobs: `events` contain the notice that there are no more static jobs, and the
            test replies to its message; otherwise the session sends an empty reply to it.
        now_s: time of the last message, s.
        events: events of the last message: time, type and data.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.takes_end_of_jobs = False
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self._receive(bridge.first_message())

    def reply(
        self, *decisions: tuple[str, dict[str, Any]], now_s: float | None = None
    ) -> BridgeSession:
        """Send decisions at the time of the last message, and be ready then or at `now_s`."""
        events = [(self.now_s, kind, data) for kind, data in decisions]
        return self.reply_at(self.now_s if now_s is None else now_s, *events)

    def reply_at(
        self, now_s: float, *decisions: tuple[float, str, dict[str, Any]]
    ) -> BridgeSession:
        """Send each decision with its time, and be ready at `now_s`."""
        events = [
            {"timestamp": time_s, "type": kind, "data": data} for time_s, kind, data in decisions
        ]
        self._receive(
            self.bridge.next_message(json.dumps({"now": now_s, "events": events}).encode())
        )
        if not self.takes_end_of_jobs:
            notice = {"type": "no_more_static_job_to_submit"}
            self.events = [event for event in self.events if event[2] != notice]
            if not self.events:
                self.reply_at(now_s)
        return self

    def kinds(self) -> list[str]:
        """Return the types of the events in the last message."""
        return [kind for _, kind, _ in self.events]

    def kinds_and_notices(self) -> list[str]:
        """Return the types of the events in the last message, those in `NOTIFY` for it."""
        return [str(data["type"]) if kind == "NOTIFY" else kind for _, kind, data in self.events]

    def data(self, kind: str) -> dict[str, Any]:
        """Return the data of the only event of a type."""
        found: dict[str, Any]
        (found,) = [data for _, its, data in self.events if its == kind]
        return found

    def submitted(self) -> list[dict[str, Any]]:
        """Return the data of all `JOB_SUBMITTED` events in the last message."""
        return [data for _, kind, data in self.events if kind == "JOB_SUBMITTED"]

    def _receive(self, message: bytes) -> None:
        received = json.loads(message)
        self.now_s = received["now"]
        self.events = [(one["timestamp"], one["type"], one["data"]) for one in received["events"]]


def job(number: int, profile: str = "d10", submit_s: float = 0, **more: Any) -> dict[str, Any]:
    """Return a job of one host by default."""
    return {"id": number, "subtime": submit_s, "res": 1, "profile": profile, **more}


Opener = Callable[..., BridgeSession]


@pytest.fixture
def open_session(tmp_path: Path) -> Opener:
    """Start a run with these jobs on four hosts."""

    def open_with(
        *jobs: dict[str, Any], events: str | None = None, **options: Any
    ) -> BridgeSession:
        run_options = BatsimOptions(**options)
        platform = read_platform(write_platform(tmp_path, HOSTS, energy=run_options.energy))
        workloads = read_workloads([write_workload(tmp_path, list(jobs), PROFILES)])
        external = None
        if events is not None:
            file = tmp_path / "events"
            file.write_text(events, encoding="utf-8")
            external = read_external_events(
                [file], HOSTS, forward_unknown=run_options.forward_unknown_events
            )
        return BridgeSession(Bridge(workloads, platform, run_options, external))

    return open_with


def execute(number: int, alloc: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """Return the decision to start a job of the first workload."""
    return "EXECUTE_JOB", {"job_id": f"w0!{number}", "alloc": alloc, **more}


def call_at(time_s: float) -> tuple[str, dict[str, Any]]:
    """Return the decision to be called at a time."""
    return "CALL_ME_LATER", {"timestamp": time_s}


def switch(hosts: str, pstate: int) -> tuple[str, dict[str, Any]]:
    """Return the decision to set the pstate of hosts."""
    return "SET_RESOURCE_STATE", {"resources": hosts, "state": str(pstate)}


# Jobs


def test_conversation_from_start_to_end(open_session: Opener) -> None:
    """The first message begins the simulation, each instant has one, and the last ends it."""
    session = open_session(job(1, walltime=60), job(2, submit_s=3))
    session.takes_end_of_jobs = True
    assert (session.now_s, session.kinds()) == (0.0, ["SIMULATION_BEGINS"])
    session.reply()
    submitted = {"id": "w0!1", "subtime": 0, "res": 1, "profile": "d10", "walltime": 60}
    assert session.events == [(0.0, "JOB_SUBMITTED", {"job_id": "w0!1", "job": submitted})]
    session.reply(execute(1, "2"))
    assert session.now_s == 3.0
    assert session.kinds() == ["JOB_SUBMITTED"]
    session.reply(execute(2, "0"))
    assert session.events == [(3.0, "NOTIFY", {"type": "no_more_static_job_to_submit"})]
    session.reply()
    completed = {"job_state": "COMPLETED_SUCCESSFULLY", "return_code": 0}
    assert session.events == [
        (10.0, "JOB_COMPLETED", {"job_id": "w0!1", "alloc": "2", **completed})
    ]
    session.reply()
    assert session.events == [
        (13.0, "JOB_COMPLETED", {"job_id": "w0!2", "alloc": "0", **completed})
    ]
    session.reply()
    assert session.events == [(13.0, "SIMULATION_ENDS", {})]
    assert session.bridge.ended


def test_times_have_six_decimals(open_session: Opener) -> None:
    """Messages print times as Batsim does."""
    bridge = open_session(job(1, submit_s=0.1)).bridge
    message = bridge.next_message(b'{"now":0.0,"events":[]}')
    assert message.startswith(b'{"now":0.100000,"events":[{"timestamp":0.100000,"type":')


def test_numbers_of_jobs_and_profiles_have_six_decimals(open_session: Opener) -> None:
    """Numbers are printed as Batsim does: integers as they are, others with six decimals."""
    numbers = {"a": [1.5e9, {"b": -2.0000004}], "c": 2**70, "d": 2**64 - 1, "e": True}
    wide = job(1, submit_s=4.709164021244639, walltime=100, more=numbers)
    bridge = open_session(wide, forward_profiles=True).bridge
    message = bridge.next_message(b'{"now":0.0,"events":[]}').decode()
    assert message.startswith('{"now":4.709164,')
    assert (
        '"job":{"id":"w0!1","subtime":4.709164,"res":1,"profile":"d10","walltime":100,"more":'
        '{"a":[1500000000.000000,{"b":-2.000000}],"c":1180591620717411303424.000000,'
        '"d":18446744073709551615,"e":true}},"profile":{"type":"delay","delay":10}'
    ) in message


@pytest.mark.parametrize("subtime_s", [4.709163521244639, 0.1 + 0.2, 1234567.8901239])
def test_submission_time_is_not_after_its_message(open_session: Opener, subtime_s: float) -> None:
    """The `subtime` of a job is at most the `now` of its message."""
    session = open_session(job(1, submit_s=subtime_s)).reply()
    assert session.data("JOB_SUBMITTED")["job"]["subtime"] <= session.now_s


def test_printed_time_means_now(open_session: Opener) -> None:
    """A reply with the printed time, rounded up, applies to the current instant."""
    session = open_session(job(1, submit_s=0.0000016)).reply()
    assert session.now_s == 0.000002
    session.reply(execute(1, "0"))
    (outcome,) = results_of(session.bridge.run).jobs
    assert outcome.start_s == 0.0000016


def test_reply_in_the_past_is_now(open_session: Opener) -> None:
    """A reply with a time in the past applies now."""
    session = open_session(job(1, submit_s=2.75)).reply()
    session.reply_at(2.0, (2.0, *execute(1, "0")))
    assert session.events[0][:2] == (12.75, "JOB_COMPLETED")


def test_clock_of_the_scheduler_that_goes_back_is_an_error(open_session: Opener) -> None:
    """A reply with an earlier time than the reply before it is an error with both times."""
    session = open_session(job(1, submit_s=2), job(2, submit_s=9)).reply()
    session.reply_at(2.0)
    with pytest.raises(BadReplyError, match=r"\$\.now\): .* at least 2\.0, .* got 1\.5"):
        session.reply_at(1.5)


def test_reply_before_the_start_is_an_error(open_session: Opener) -> None:
    """The first reply has a time of at least 0."""
    with pytest.raises(BadReplyError, match=r"at least 0\.0, .* got -1\.0"):
        open_session(job(1)).reply_at(-1.0)


def test_decisions_out_of_order_are_an_error(open_session: Opener) -> None:
    """A decision with an earlier time than the decision before it is an error."""
    session = open_session(job(1), job(2)).reply()
    with pytest.raises(BadReplyError, match=r"events\[1\]\.timestamp\): .* at least 5\.0, .* 4\.0"):
        session.reply_at(9.0, (5.0, *execute(1, "0")), (4.0, *execute(2, "1")))


def test_reply_in_the_future_applies_then(open_session: Opener) -> None:
    """A decision for later applies then; events before it wait for the next message."""
    session = open_session(job(1), job(2, submit_s=4), job(3, submit_s=30)).reply()
    session.reply_at(7.5, (5.0, *execute(1, "0")))
    assert session.now_s == 7.5
    assert [time_s for time_s, _, _ in session.events] == [4.0]
    session.reply_at(20.0, (8.0, *execute(2, "1")))
    assert session.now_s == 20.0
    assert [(time_s, data["job_id"]) for time_s, _, data in session.events] == [
        (15.0, "w0!1"),
        (18.0, "w0!2"),
    ]


def test_end_of_jobs_waits_for_the_scheduler(open_session: Opener) -> None:
    """While the scheduler is not ready, the end of jobs follows the last submission."""
    session = open_session(job(1, submit_s=2), job(2, submit_s=3))
    session.takes_end_of_jobs = True
    session.reply().reply(execute(1, "0"), now_s=20.0)
    assert [(time_s, kind) for time_s, kind, _ in session.events] == [
        (3.0, "JOB_SUBMITTED"),
        (3.0, "NOTIFY"),
        (12.0, "JOB_COMPLETED"),
    ]


@pytest.mark.parametrize(
    ("energy", "ends"),
    [(False, ["JOB_COMPLETED", "REQUESTED_CALL"]), (True, ["REQUESTED_CALL", "JOB_COMPLETED"])],
)
def test_events_of_one_instant_have_the_order_of_batsim(
    energy: bool, ends: list[str], open_session: Opener
) -> None:
    """The process that began to wait first sends first; ends of submitters follow.

    The order of the first four without energy was observed with Batsim 4.2.1. With energy, Batsim
    reads that of all hosts at the end of a job, before it sends the event.
    """
    session = open_session(job(1), job(2, submit_s=10), events=LOST_AT_10, energy=energy).reply()
    session.takes_end_of_jobs = True
    session.reply(execute(1, "0"), call_at(10.0))
    assert session.kinds_and_notices() == [
        "event_machine_unavailable",
        "JOB_SUBMITTED",
        *ends,
        "no_more_external_event_to_occur",
        "no_more_static_job_to_submit",
    ]


def test_call_that_is_requested_before_a_start_precedes_the_end(open_session: Opener) -> None:
    """Decisions of one reply begin to wait in their order."""
    session = open_session(job(1)).reply().reply(call_at(10.0), execute(1, "0"))
    assert session.kinds() == ["REQUESTED_CALL", "JOB_COMPLETED"]


def test_composed_job_waits_since_its_last_part(open_session: Opener) -> None:
    """A call that is requested during the first part precedes the end of the second one."""
    session = open_session(job(1, "both")).reply().reply(execute(1, "0"), call_at(5.0))
    assert session.reply(call_at(40.0)).kinds() == ["REQUESTED_CALL", "JOB_COMPLETED"]


@pytest.mark.parametrize(
    ("submit_s", "before"), [(10.0, ["JOB_SUBMITTED", "JOB_SUBMITTED"]), (20.0, ["JOB_SUBMITTED"])]
)
def test_end_of_jobs_shares_the_message_of_two_workloads(
    tmp_path: Path, submit_s: float, before: list[str]
) -> None:
    """The first workload's submitter ends before the server has served that of the second.

    It has its own message after a submission that is alone at its instant.
    """
    paths = []
    for name, at_s in (("first", 10.0), ("second", submit_s)):
        folder = tmp_path / name
        folder.mkdir()
        paths.append(write_workload(folder, [job(1, submit_s=at_s)], PROFILES))
    platform = read_platform(write_platform(tmp_path, HOSTS))
    session = BridgeSession(Bridge(read_workloads(paths), platform, BatsimOptions()))
    session.takes_end_of_jobs = True
    together = submit_s == 10.0
    assert session.reply().kinds_and_notices() == [
        *before,
        *["no_more_static_job_to_submit"] * together,
    ]
    if not together:
        assert session.reply().kinds() == ["JOB_SUBMITTED"]
        assert session.reply().kinds_and_notices() == ["no_more_static_job_to_submit"]


@pytest.mark.parametrize("begin_s", [0.0, 1e7, 1.7e9])
def test_times_that_differ_by_rounding_are_one_instant(
    open_session: Opener, begin_s: float
) -> None:
    """A job from 0.1 to 0.1 + 0.2, which is not 0.3 in floating point, ends in the message of 0.3.

    The scheduler can use its host then. Rounding is coarser after months, and in Unix time.
    """
    jobs = [job(number, "d0.2", submit_s=begin_s + at) for number, at in ((1, 0.1), (2, 0.3))]
    session = open_session(*jobs).reply()
    session.reply(execute(1, "0"))
    assert session.kinds() == ["JOB_SUBMITTED", "JOB_COMPLETED"]
    assert {time_s for time_s, _, _ in session.events} == {round(begin_s + 0.3, 6)}
    session.reply(execute(2, "0"))
    assert session.kinds() == ["JOB_COMPLETED"]
    assert session.now_s == pytest.approx(begin_s + 0.5)


def test_decision_for_later_follows_the_events_of_its_instant(open_session: Opener) -> None:
    """A decision at 0.3 can use the host of a job that ends at 0.1 + 0.2."""
    session = open_session(job(1, "d0.2", submit_s=0.1), job(2, submit_s=0.2)).reply()
    session.reply(execute(1, "0"))
    session.reply_at(0.3, (0.3, *execute(2, "0")))
    assert (session.now_s, session.kinds()) == (0.3, ["JOB_COMPLETED"])
    assert session.reply().now_s == 10.3


TENTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1, max_size=HOSTS)


@given(TENTHS)
def test_instants_in_exact_arithmetic_are_the_messages(
    tmp_path_factory: pytest.TempPathFactory, times: list[tuple[int, int]]
) -> None:
    """Jobs of tenths of seconds that start at once: one message per instant with all its events."""
    folder = tmp_path_factory.mktemp("tenths")
    profiles = {f"d{tenths}": {"type": "delay", "delay": tenths / 10} for _, tenths in times}
    jobs = [
        job(number, f"d{tenths}", submit_s=at / 10) for number, (at, tenths) in enumerate(times)
    ]
    bridge = Bridge(
        read_workloads([write_workload(folder, jobs, profiles)]),
        read_platform(write_platform(folder, HOSTS)),
        BatsimOptions(),
    )
    session = BridgeSession(bridge)
    expected: dict[int, list[str]] = {}
    for number, (at, _) in enumerate(times):
        expected.setdefault(at, []).append(f"JOB_SUBMITTED w0!{number}")
    for number, (at, tenths) in enumerate(times):
        expected.setdefault(at + tenths, []).append(f"JOB_COMPLETED w0!{number}")
    found = {}
    while not session.reply(
        *(execute(int(data["job_id"][3:]), data["job_id"][3:]) for data in session.submitted())
    ).bridge.ended:
        assert session.now_s not in found
        assert {time_s for time_s, _, _ in session.events} == {session.now_s}
        found[session.now_s] = [f"{kind} {data['job_id']}" for _, kind, data in session.events]
    assert {at_s: sorted(said) for at_s, said in found.items()} == {
        at / 10: sorted(said) for at, said in expected.items()
    }
    ends_s = {one.name: one.end_s for one in results_of(bridge.run).jobs}
    assert ends_s == {
        str(number): pytest.approx((at + tenths) / 10) for number, (at, tenths) in enumerate(times)
    }


def test_submission_times_have_no_limits(open_session: Opener) -> None:
    """A job with a negative time is submitted at 0, and one with a very large time then."""
    session = open_session(job(1, submit_s=-5), job(2, submit_s=1e20)).reply()
    assert (session.now_s, session.data("JOB_SUBMITTED")["job"]["subtime"]) == (0.0, -5)
    session.reply(execute(1, "0")).reply()
    assert session.now_s == 1e20
    session.reply(execute(2, "0")).reply()
    assert session.kinds() == ["SIMULATION_ENDS"]
    outcome = results_of(session.bridge.run)
    assert [(one.submit_s, one.start_s) for one in outcome.jobs] == [(-5.0, 0.0), (1e20, 1e20)]


def test_jobs_of_one_time_are_sorted_by_id_as_text(
    open_session: Opener,
) -> None:
    """Job 10 is before job 2."""
    session = open_session(job(2), job(10), job(1)).reply()
    ids = [data["job_id"] for _, kind, data in session.events if kind == "JOB_SUBMITTED"]
    assert ids == ["w0!1", "w0!10", "w0!2"]


def test_profiles_of_jobs_are_sent_at_the_start(open_session: Opener) -> None:
    """SIMULATION_BEGINS has the profiles that jobs use, also as parts, and no others."""
    begins = open_session(job(1, "both"), job(2, "bad")).data("SIMULATION_BEGINS")
    assert begins["profiles"] == {
        "w0": {name: PROFILES[name] for name in ("d10", "bad", "cpu", "both")}
    }


def test_profile_is_forwarded_on_request(open_session: Opener) -> None:
    """JOB_SUBMITTED contains the profile with all its fields."""
    session = open_session(job(1, "bad"), forward_profiles=True).reply()
    assert session.data("JOB_SUBMITTED")["profile"] == PROFILES["bad"]


def test_return_code_of_the_profile_is_a_failure(
    open_session: Opener,
) -> None:
    """A job whose profile returns a code other than 0 has failed."""
    session = open_session(job(1, "bad")).reply().reply(execute(1, "0"))
    completed = session.data("JOB_COMPLETED")
    assert (completed["job_state"], completed["return_code"]) == ("COMPLETED_FAILED", 3)


def test_sequence_ends_with_the_first_part_that_fails(open_session: Opener) -> None:
    """A composed job fails with the return code of its first part that fails, at its end."""
    session = open_session(job(1, "fails")).reply().reply(execute(1, "0"))
    completed = session.data("JOB_COMPLETED")
    assert (completed["job_state"], completed["return_code"]) == ("COMPLETED_FAILED", 3)
    assert session.now_s == 10.2


@pytest.mark.parametrize(
    ("profile", "walltime", "state", "end_s"),
    [
        ("d10", 5, "COMPLETED_WALLTIME_REACHED", 5.0),
        ("d10", 10, "COMPLETED_WALLTIME_REACHED", 10.0),  # MEASURED of the real one
        ("cpu", 10, "COMPLETED_SUCCESSFULLY", 10.0),
        ("d10", 11, "COMPLETED_SUCCESSFULLY", 10.0),
        ("d10", -1, "COMPLETED_SUCCESSFULLY", 10.0),
    ],
)
def test_walltime(
    open_session: Opener,
    profile: str,
    walltime: float,
    state: str,
    end_s: float,
) -> None:
    """A job ends at its walltime without JOB_KILLED, also a delay of just this duration."""
    session = open_session(job(1, profile, walltime=walltime)).reply().reply(execute(1, "0"))
    assert (session.now_s, session.kinds()) == (end_s, ["JOB_COMPLETED"])
    completed = session.data("JOB_COMPLETED")
    assert completed["job_state"] == state
    assert completed["return_code"] == (0 if state == "COMPLETED_SUCCESSFULLY" else -1)


@pytest.mark.parametrize("events_s", [(), (0.1, 100.3, 333.5, 700.9)])
def test_walltime_end_is_the_sum_rounded_once(
    open_session: Opener, tmp_path: Path, events_s: Sequence[float]
) -> None:
    """The sum of 4.2475035 and 700 is printed alike with and without other events.

    It is half way between two printed numbers. SimGrid adds the intervals between all events, so
    that Batsim prints the one or the other.
    """
    others = [job(2 + number, "d0.2", submit_s=time_s) for number, time_s in enumerate(events_s)]
    session = open_session(job(1, "long", submit_s=4.2475035, walltime=700), *others).reply()
    ends = []
    while not session.bridge.ended:
        ids = [data["job_id"].partition("!")[2] for data in session.submitted()]
        ends += [time_s for time_s, _, data in session.events if data.get("job_id") == "w0!1"]
        session.reply(*[execute(int(each), "0" if each == "1" else "1") for each in ids])
    write_outputs(tmp_path / "o", results_of(session.bridge.run))
    (row,) = [row for row in rows_of(tmp_path / "o_jobs.csv") if row["job_id"] == "1"]
    assert (ends[-1], row["finish_time"]) == (704.247503, "704.247503")


def test_job_ends_with_its_slowest_host(open_session: Opener) -> None:
    """A job of a `parallel` profile ends when its slowest host has finished."""
    session = open_session(job(1, "uneven", res=2)).reply().reply(execute(1, "0-1"))
    assert session.now_s == 10.0


@pytest.mark.parametrize(("alloc", "end_s"), [("0", 40.0), ("0-1", 20.0), ("0-3", 10.0)])
def test_total_work_runs_on_any_number_of_hosts(
    open_session: Opener, alloc: str, end_s: float
) -> None:
    """A total amount of work is divided by the number of hosts."""
    session = open_session(job(1, "total", res=4)).reply().reply(execute(1, alloc))
    assert session.now_s == end_s
    (row,) = results_of(session.bridge.run).jobs
    assert (row.res, len(row.hosts)) == (4, round(40 / end_s))


def test_mapping_assigns_executors_to_hosts(open_session: Opener) -> None:
    """Two executors on one host take twice as long."""
    mapping = {"0": "0", "1": "0", "2": "1"}
    session = open_session(job(1, "cpu", res=3)).reply().reply(execute(1, "1-2", mapping=mapping))
    assert (session.now_s, session.data("JOB_COMPLETED")["alloc"]) == (20.0, "1-2")


@pytest.mark.parametrize(
    ("more", "end_s", "energy_j"),
    [
        ({}, 10.0, 10 * 150 + 10 * 200),
        ({"smpi_ranks_to_hosts_mapping": [1, 0]}, 20.0, 20 * 150 + 5 * 200 + 15 * 100),
    ],
)
def test_usage_traces_are_replayed(
    tmp_path: Path, more: dict[str, Any], end_s: float, energy_j: float
) -> None:
    """1 Gflop on each of two of four cores, and 500 Mflop on each of four cores.

    The cores of the first host have 100 Mflop/s, those of the second one 50 Mflop/s.
    """
    (tmp_path / "traces.txt").write_text("first\nsecond\n")
    (tmp_path / "first").write_text("0 m_usage 0.5 1e9\n")
    (tmp_path / "second").write_text("1 m_usage 1.0 5e8\n")
    power = '<prop id="wattage_per_state" value="100:100:200"/>'
    speeds = {"a": "100Mf", "b": "50Mf", "master_host": "1Gf"}
    hosts = [f'<host id="{name}" speed="{speeds[name]}" core="4">{power}</host>' for name in speeds]
    (tmp_path / "platform.xml").write_text(
        '<?xml version="1.0"?>\n<platform version="4.1"><zone id="z" routing="None">'
        f"{''.join(hosts)}</zone></platform>"
    )
    profiles = {"replay": {"type": "usage_trace", "trace": "traces.txt"}}
    workload = write_workload(tmp_path, [job(1, "replay", res=2, **more)], profiles)
    platform = read_platform(tmp_path / "platform.xml")
    bridge = Bridge(read_workloads([workload]), platform, BatsimOptions(energy=True))
    session = BridgeSession(bridge).reply().reply(execute(1, "0-1"))
    assert (session.now_s, session.kinds()) == (end_s, ["JOB_COMPLETED"])
    (row,) = results_of(bridge.run).jobs
    assert row.energy_j == pytest.approx(energy_j)


def test_mapping_of_another_number_of_processes_is_an_error(tmp_path: Path) -> None:
    """The job maps one process, and the trace has two."""
    (tmp_path / "traces.txt").write_text("first\nsecond\n")
    (tmp_path / "first").write_text("0 m_usage 0.5 1e9\n")
    (tmp_path / "second").write_text("1 m_usage 1.0 5e8\n")
    profiles = {"replay": {"type": "usage_trace", "trace": "traces.txt"}}
    mapped = job(1, "replay", res=2, smpi_ranks_to_hosts_mapping=[1])
    workloads = read_workloads([write_workload(tmp_path, [mapped], profiles)])
    platform = read_platform(write_platform(tmp_path, HOSTS))
    session = BridgeSession(Bridge(workloads, platform, BatsimOptions())).reply()
    with pytest.raises(BadReplyError, match="has 2 processes, smpi_ranks_to_hosts_mapping of the"):
        session.reply(execute(1, "0-1"))


def test_host_that_replays_usage_keeps_its_pstate(tmp_path: Path) -> None:
    """A pstate change of its host is an error that names the job."""
    (tmp_path / "traces.txt").write_text("first\n")
    (tmp_path / "first").write_text("0 m_usage 0.5 1e9\n")
    profiles = {"replay": {"type": "usage_trace", "trace": "traces.txt"}}
    workloads = read_workloads([write_workload(tmp_path, [job(1, "replay")], profiles)])
    platform = read_platform(write_platform(tmp_path, HOSTS, energy=True))
    session = BridgeSession(Bridge(workloads, platform, BatsimOptions(energy=True))).reply()
    with pytest.raises(BadReplyError, match="job w0!1 replays the usage of hosts"):
        session.reply(execute(1, "0"), switch("0", 1))


def test_a_scheduler_chooses_no_files_to_be_read(open_session: Opener) -> None:
    """As in Batsim, it cannot register a profile that replays usage traces."""
    data = {**PROFILE[1], "profile": {"type": "usage_trace", "trace": "/etc/hostname"}}
    session = open_session(dynamic_jobs=True)
    with pytest.raises(BadReplyError, match="cannot register a profile that reads files"):
        session.reply(("REGISTER_PROFILE", data))


def test_rejected_job_has_no_message(open_session: Opener) -> None:
    """A rejection has no reply; the simulation ends, and the job is in the results."""
    session = open_session(job(1)).reply().reply(("REJECT_JOB", {"job_id": "w0!1"}))
    assert session.kinds() == ["SIMULATION_ENDS"]
    assert [one.state for one in results_of(session.bridge.run).jobs] == ["REJECTED"]


def test_kill_has_the_progress_of_a_job(open_session: Opener) -> None:
    """One message has the end of the job, and then JOB_KILLED with its progress."""
    session = open_session(job(1, "d10")).reply()
    session.reply_at(4.0, (0.0, *execute(1, "0")), (4.0, "KILL_JOB", {"job_ids": ["w0!1"]}))
    assert (session.now_s, session.kinds()) == (4.0, ["JOB_COMPLETED", "JOB_KILLED"])
    assert session.data("JOB_COMPLETED")["job_state"] == "COMPLETED_KILLED"
    progress = {"w0!1": {"profile_name": "d10", "progress": 0.4}}
    assert session.data("JOB_KILLED") == {"job_ids": ["w0!1"], "job_progress": progress}


@pytest.mark.parametrize(
    ("profile", "killed_s", "code"),
    [("d10", 4, -1), ("cpu", 4, -2), ("both", 5, -1), ("both", 15, -2)],
)
def test_killed_computation_has_a_return_code_of_its_own(
    open_session: Opener, profile: str, killed_s: float, code: int
) -> None:
    """A job killed in a computation returns -2, in a delay -1."""
    session = open_session(job(1, profile)).reply()
    kill = (killed_s, "KILL_JOB", {"job_ids": ["w0!1"]})
    session.reply_at(killed_s, (0.0, *execute(1, "0")), kill)
    assert session.data("JOB_COMPLETED")["return_code"] == code


def test_kill_has_the_task_of_a_composed_job(open_session: Opener) -> None:
    """The index of the current task counts the tasks of all repetitions."""
    session = open_session(job(1, "both")).reply()
    session.reply_at(35.0, (0.0, *execute(1, "0")), (35.0, "KILL_JOB", {"job_ids": ["w0!1"]}))
    assert session.data("JOB_KILLED")["job_progress"]["w0!1"] == {
        "profile_name": "both",
        "current_task_index": 3,
        "current_task": {"profile_name": "cpu", "progress": 0.5},
    }


def test_kill_of_an_ended_job_has_no_progress(open_session: Opener) -> None:
    """The first request is acknowledged without progress; the second is not acknowledged."""
    session = open_session(job(1)).reply().reply(execute(1, "0"))
    kill = ("KILL_JOB", {"job_ids": ["w0!1"]})
    session.reply(kill, kill)
    assert session.events == [(10.0, "JOB_KILLED", {"job_ids": ["w0!1"], "job_progress": {}})]
    assert session.reply(kill).kinds() == ["SIMULATION_ENDS"]


def test_job_that_ends_when_it_starts_has_a_run_time(open_session: Opener, tmp_path: Path) -> None:
    """As in Batsim, such a job ran for 0.00001 s."""
    session = open_session(job(1, submit_s=3)).reply()
    session.reply(execute(1, "0"), ("KILL_JOB", {"job_ids": ["w0!1"]}))
    write_outputs(tmp_path / "o", results_of(session.bridge.run))
    (row,) = rows_of(tmp_path / "o_jobs.csv")
    times = [row[name] for name in ("execution_time", "finish_time", "stretch")]
    assert times == ["0.000010", "3.000010", "1.000000"]


def test_requested_call_comes_at_its_time(open_session: Opener) -> None:
    """A requested call comes at its time, also after the last job."""
    session = open_session(job(1)).reply()
    session.reply(execute(1, "0"), ("CALL_ME_LATER", {"timestamp": 12.5}))
    assert session.kinds() == ["JOB_COMPLETED"]
    assert session.reply().events == [(12.5, "REQUESTED_CALL", {})]
    assert session.reply().kinds() == ["SIMULATION_ENDS"]


def test_metadata_is_kept_for_the_results(open_session: Opener, tmp_path: Path) -> None:
    """The jobs file has the metadata that the scheduler set last."""
    session = open_session(job(1)).reply()
    for text in ("first", "last"):
        metadata = ("SET_JOB_METADATA", {"job_id": "w0!1", "metadata": text})
        if text == "first":
            session.reply(execute(1, "0"), metadata)
        else:
            session.reply(metadata)
    write_outputs(tmp_path / "o", results_of(session.bridge.run))
    assert [row["metadata"] for row in rows_of(tmp_path / "o_jobs.csv")] == ["last"]


# Jobs that the scheduler registers

PROFILE = (
    "REGISTER_PROFILE",
    {"workload_name": "dyn", "profile_name": "p"} | {"profile": {"type": "delay", "delay": 3}},
)
JOB = (
    "REGISTER_JOB",
    {"job_id": "dyn!a", "job": {"id": "dyn!a", "subtime": 0, "res": 1, "profile": "p"}},
)
FINISHED = ("NOTIFY", {"type": "registration_finished"})


def test_registered_job_is_acknowledged(open_session: Opener) -> None:
    """The scheduler gets JOB_SUBMITTED of a job it registers."""
    session = open_session(dynamic_jobs=True, acknowledge_dynamic_jobs=True)
    session.reply(PROFILE, JOB, FINISHED)
    assert session.data("JOB_SUBMITTED") == {"job_id": "dyn!a", "job": JOB[1]["job"]}
    session.reply(("EXECUTE_JOB", {"job_id": "dyn!a", "alloc": "0"}))
    assert session.now_s == 3.0


def test_registered_job_can_start_at_once(open_session: Opener) -> None:
    """Without acknowledgement a job can be executed in the reply that registers it."""
    session = open_session(dynamic_jobs=True)
    session.takes_end_of_jobs = True
    session.reply(PROFILE, JOB, ("EXECUTE_JOB", {"job_id": "dyn!a", "alloc": "0"}), FINISHED)
    assert session.kinds() == ["NOTIFY"]  # that there is no job in the workload
    assert session.reply().events[0][:2] == (3.0, "JOB_COMPLETED")


def test_registration_keeps_the_simulation_open(open_session: Opener) -> None:
    """The simulation ends only after `registration_finished`."""
    session = open_session(job(1), dynamic_jobs=True).reply().reply(execute(1, "0"))
    assert session.kinds() == ["JOB_COMPLETED"]
    with pytest.raises(StuckError, match="NOTIFY registration_finished"):
        session.reply()
    session = (
        open_session(job(1), dynamic_jobs=True).reply().reply(execute(1, "0"), FINISHED).reply()
    )
    assert session.kinds() == ["SIMULATION_ENDS"]


def test_same_profile_may_be_registered_again(open_session: Opener) -> None:
    """An equal profile has no effect; a different one of the same name is an error."""
    session = open_session(job(1), dynamic_jobs=True).reply(PROFILE, PROFILE)
    other = ("REGISTER_PROFILE", {**PROFILE[1], "profile": {"type": "delay", "delay": 4}})
    with pytest.raises(BadReplyError, match="'dyn' has a different profile 'p'"):
        session.reply(other)


# Power states and energy


def test_switching_takes_time_and_is_acknowledged_once(
    open_session: Opener,
) -> None:
    """A switch off and a switch on are acknowledged when the last host has arrived."""
    session = open_session(job(1, submit_s=100), energy=True).reply(switch("0 2", 2))
    changed = {"resources": "0 2", "state": "2"}
    assert session.events == [(4.0, "RESOURCE_STATE_CHANGED", changed)]
    session.reply(switch("0 2", 1))
    changed = {"resources": "0 2", "state": "1"}
    assert session.events == [(14.0, "RESOURCE_STATE_CHANGED", changed)]


def test_energy_of_sleeping_and_switching(open_session: Opener) -> None:
    """A query returns the energy of all hosts, to the joule."""
    query: tuple[str, dict[str, Any]] = ("QUERY", {"requests": {"consumed_energy": {}}})
    session = open_session(job(1, submit_s=100), energy=True).reply(switch("0", 2))
    session.reply(("CALL_ME_LATER", {"timestamp": 10.0})).reply(query)
    # Three idle hosts; one that takes 4 s to fall asleep.
    assert session.events == [(10.0, "ANSWER", {"consumed_energy": 3 * 1000 + 4 * 110 + 6 * 10.0})]


def test_computation_pstate_changes_run_times_at_once(
    open_session: Opener,
) -> None:
    """A change to another computation pstate takes no time and changes the speed."""
    session = open_session(job(1, "cpu"), energy=True).reply().reply(switch("1", 1))
    assert session.events == [(0.0, "RESOURCE_STATE_CHANGED", {"resources": "1", "state": "1"})]
    session.reply(execute(1, "1"))
    assert session.now_s == 20.0
    (row,) = results_of(session.bridge.run).jobs
    assert row.energy_j == 20 * 90.0


@pytest.mark.parametrize(
    ("profile", "at_s", "end_s", "energy_j"),
    [
        ("cpu", 5.0, 5 + 5 * 2, 5 * 200 + 10 * 90),
        ("cpu", 0.0, 20, 20 * 90),
        ("both", 5.0, 10 + 20 + 10 + 20, 5 * 100 + 5 * 60 + 20 * 90 + 10 * 60 + 20 * 90),
        ("both", 15.0, 10 + 15 + 10 + 20, 1000 + 5 * 200 + 10 * 90 + 10 * 60 + 20 * 90),
        ("d10", 5.0, 10, 5 * 100 + 5 * 60),
    ],
)
def test_running_job_continues_at_the_speed_of_the_pstate(
    open_session: Opener, profile: str, at_s: float, end_s: float, energy_j: float
) -> None:
    """As in Batsim, half the speed doubles the time of the computation that is left."""
    session = open_session(job(1, profile), energy=True).reply()
    session.reply_at(at_s, (0.0, *execute(1, "1")), (at_s, *switch("1", 1)))
    while "JOB_COMPLETED" not in session.kinds():
        session.reply()
    assert session.now_s == end_s
    (row,) = results_of(session.bridge.run).jobs
    assert row.energy_j == pytest.approx(energy_j)


def test_running_job_can_change_its_speed_twice(open_session: Opener) -> None:
    """4 s at 100 Mflop/s, 4 s at 50 Mflop/s, and 400 Mflop at 100 Mflop/s."""
    session = open_session(job(1, "cpu"), energy=True).reply()
    changes = [(4.0, *switch("0", 1)), (8.0, *switch("0", 0))]
    session.reply_at(8.0, (0.0, *execute(1, "0")), *changes)
    session.reply()
    assert (session.now_s, session.kinds()) == (12.0, ["JOB_COMPLETED"])


def test_slowest_host_after_a_change_determines_the_end(open_session: Opener) -> None:
    """Half of the job is left when one host has half the speed; the other one draws less then."""
    session = open_session(job(1, "cpu", res=2), energy=True).reply()
    session.reply_at(5.0, (0.0, *execute(1, "0-1")), (5.0, *switch("1", 1)))
    session.reply()
    assert session.now_s == 15.0
    (row,) = results_of(session.bridge.run).jobs
    assert row.energy_j == pytest.approx(5 * 2 * 200 + 10 * (150 + 90))


def test_walltime_holds_after_a_change_of_the_pstate(open_session: Opener) -> None:
    """A job that would end at 15 s reaches its walltime; at its kill 70 % are complete."""
    session = open_session(job(1, "cpu", walltime=12), job(2, "cpu"), energy=True).reply()
    both = [(0.0, *execute(1, "0")), (0.0, *execute(2, "1"))]
    kill = (9.0, "KILL_JOB", {"job_ids": ["w0!2"]})
    session.reply_at(9.0, *both, (5.0, *switch("0-1", 1)), kill)
    progress = session.data("JOB_KILLED")["job_progress"]["w0!2"]
    assert progress == {"profile_name": "cpu", "progress": pytest.approx(0.7)}
    session.reply()
    assert session.now_s == 12.0
    assert session.data("JOB_COMPLETED")["job_state"] == "COMPLETED_WALLTIME_REACHED"


@pytest.mark.parametrize(("at_s", "end_s"), [(1.0, 2 + 20), (7.0, 7 + 10)])
def test_communicating_job_continues_at_the_speed_of_the_pstate(
    tmp_path: Path, at_s: float, end_s: float
) -> None:
    """2 s of latency pass first; then 10 s of computation overlap with 2 s of transfer."""
    power = '<prop id="wattage_per_state" value="100:100:200, 60:60:90"/>'
    hosts = [f'<host id="{name}" speed="100Mf, 50Mf">{power}</host>' for name in "abm"]
    link = '<link id="l" bandwidth="1MBps" latency="2s"/>'
    route = '<route src="a" dst="b"><link_ctn id="l"/></route>'
    platform = tmp_path / "platform.xml"
    platform.write_text(
        '<?xml version="1.0"?>\n<platform version="4.1"><zone id="z" routing="Full">'
        f"{''.join(hosts)}{link}{route}</zone></platform>"
    )
    profiles = {"c": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e6}}
    workload = write_workload(tmp_path, [job(1, "c", res=2)], profiles)
    read = read_platform(platform, master="m")
    bridge = Bridge(read_workloads([workload]), read, BatsimOptions(energy=True))
    session = BridgeSession(bridge).reply()
    session.reply_at(at_s, (0.0, *execute(1, "0-1")), (at_s, *switch("0", 1)))
    session.reply()
    assert (session.now_s, session.kinds()) == (end_s, ["JOB_COMPLETED"])


def test_jobs_that_share_a_host_continue_at_its_speed(open_session: Opener) -> None:
    """Two jobs have half of the host each: 20 s at full speed, 10 s of which take 20 s."""
    jobs = [job(1, "cpu"), job(2, "cpu")]
    session = open_session(*jobs, energy=True, compute_sharing=True).reply()
    both = [(0.0, *execute(1, "0")), (0.0, *execute(2, "0"))]
    session.reply_at(10.0, *both, (10.0, *switch("0", 1)))
    session.reply()
    assert (session.now_s, session.kinds()) == (30.0, ["JOB_COMPLETED", "JOB_COMPLETED"])
    rows = results_of(session.bridge.run).jobs
    assert sum(row.energy_j or 0.0 for row in rows) == pytest.approx(10 * 200 + 20 * 90)


def test_delay_draws_idle_power_and_work_full_power(
    open_session: Opener,
) -> None:
    """A delay draws idle power, a computation full power, and each job is charged its part."""
    session = open_session(job(1, "d10"), job(2, "cpu"), energy=True).reply()
    session.reply(execute(1, "0"), execute(2, "1"))
    used = {one.name: one.energy_j for one in results_of(session.bridge.run).jobs}
    assert used == {"1": 1000.0, "2": 2000.0}


def test_host_that_waits_for_a_slower_one_draws_less(
    open_session: Opener,
) -> None:
    """The host with half the work of a `parallel` job has half the load: 150 W."""
    session = open_session(job(1, "uneven", res=2), energy=True).reply().reply(execute(1, "0-1"))
    assert [one.energy_j for one in results_of(session.bridge.run).jobs] == [10 * (200.0 + 150.0)]


@pytest.mark.parametrize(
    ("killed_s", "energy_j"), [(15.0, 1000 + 1000), (25.0, 3500), (40.0, 6000)]
)
def test_composed_job_draws_the_power_of_each_part(
    open_session: Opener, killed_s: float, energy_j: float
) -> None:
    """Energy follows the load of each part of a composed job."""
    session = open_session(job(1, "both"), energy=True).reply()
    if killed_s < 40:
        kill = (killed_s, "KILL_JOB", {"job_ids": ["w0!1"]})
        session.reply_at(killed_s, (0.0, *execute(1, "0")), kill)
    else:
        session.reply(execute(1, "0"))
    assert session.now_s == killed_s
    outcome = results_of(session.bridge.run)
    assert [one.energy_j for one in outcome.jobs] == [energy_j]
    assert outcome.energy is not None
    assert outcome.energy[-1].energy_j == energy_j + 3 * 100.0 * killed_s
    assert session.reply().kinds() == ["SIMULATION_ENDS"]
    assert session.now_s == killed_s


def test_energy_of_the_summary_counts_from_the_first_submission(open_session: Opener) -> None:
    """The summary has the energy from the first submission, not from the first start."""
    session = open_session(job(1, "cpu", submit_s=2), energy=True).reply()
    session.reply_at(5.0, (5.0, *execute(1, "0")))
    assert session.now_s == 15.0
    outcome = results_of(session.bridge.run)
    assert outcome.energy_before_j == 2 * 400.0
    assert summary(outcome)["consumed_joules"] == 3 * 400.0 + 10 * 500.0


def test_each_request_to_switch_has_its_rows(open_session: Opener, tmp_path: Path) -> None:
    """As in Batsim, each request and its end has a row, also of several at one instant."""
    session = open_session(job(1), energy=True).reply(switch("0", 2), switch("1-2", 2))
    assert session.now_s == 0.0
    session.reply(switch("3", 1), execute(1, "3")).reply().reply()
    outcome = results_of(session.bridge.run)
    write_outputs(tmp_path / "o", outcome)
    states = (tmp_path / "o_machine_states.csv").read_text().splitlines()[1:]
    assert states == [
        "0,0,0,1,3,0",
        "0,0,0,3,1,0",
        "0,0,0,3,1,0",
        "0,0,0,3,0,1",
        "4,1,0,2,0,1",
        "4,3,0,0,0,1",
        "10,3,0,0,1,0",
    ]
    pstates = (tmp_path / "o_pstate_changes.csv").read_text().splitlines()[1:]
    assert pstates == ["0,0-3,0", "0,0,-2", "0,1-2,-2", "0,3,-1", "0,3,1", "4,0,2", "4,1-2,2"]
    energy = rows_of(tmp_path / "o_consumed_energy.csv")
    assert "".join(row["event_type"] for row in energy) == "ppppsppe"
    idle_w = [float(row["wattmin"]) for row in energy]
    assert idle_w == [400, 410, 430, 390, 390, 90, 90, 90]
    counts = summary(outcome)
    assert (counts["nb_grouped_switches"], counts["nb_machine_switches"]) == (3, 4)


def test_each_job_on_a_shared_host_has_its_rows(open_session: Opener, tmp_path: Path) -> None:
    """As in Batsim, each start and each end of a job has a row, also if the host is shared."""
    session = open_session(job(1), job(2), compute_sharing=True).reply()
    session.reply(execute(1, "0"), execute(2, "0"))
    write_outputs(tmp_path / "o", results_of(session.bridge.run))
    rows = (tmp_path / "o_machine_states.csv").read_text().splitlines()[1:]
    assert rows == ["0,0,0,0,3,1", "0,0,0,0,3,1", "10,0,0,0,3,1", "10,0,0,0,4,0"]


def test_simulation_ends_after_the_last_switch(open_session: Opener) -> None:
    """The simulation ends after the last switch is acknowledged."""
    session = (
        open_session(job(1), energy=True).reply().reply(execute(1, "0")).reply(switch("0-3", 2))
    )
    assert session.events == [(14.0, "RESOURCE_STATE_CHANGED", {"resources": "0-3", "state": "2"})]
    assert session.reply().events == [(14.0, "SIMULATION_ENDS", {})]


# External events


def test_unavailable_hosts_are_notified_and_not_allocated(
    open_session: Opener,
) -> None:
    """An unavailable host finishes its job and cannot be allocated until it is available."""
    events = (
        '{"type": "machine_unavailable", "timestamp": 3, "resources": "0-1"}\n'
        '{"type": "machine_available", "timestamp": 20, "resources": "0-1"}\n'
    )
    session = open_session(job(1), job(2), events=events).reply().reply(execute(1, "0"))
    assert session.events == [
        (3.0, "NOTIFY", {"type": "event_machine_unavailable", "resources": "0-1"})
    ]
    assert session.reply().kinds() == ["JOB_COMPLETED"]
    session.reply()
    assert session.kinds_and_notices() == ["event_machine_available"]
    assert session.reply().kinds_and_notices() == ["no_more_external_event_to_occur"]
    session.reply(execute(2, "1"))
    assert session.now_s == 30.0
    outcome = results_of(session.bridge.run)
    assert [(one.time_s, list(one.hosts), one.state) for one in outcome.states] == [
        (0.0, [0], "computing"),
        (3.0, [0, 1], "unavailable"),
        (10.0, [0], "unavailable"),
        (20.0, [0, 1], "idle"),
        (20.0, [1], "computing"),
        (30.0, [1], "idle"),
    ]


def test_rows_of_machine_states_are_those_of_jobs(open_session: Opener, tmp_path: Path) -> None:
    """As in Batsim, hosts that become unavailable or available add no row.

    A host that is unavailable while it runs a job is not counted as computing.
    """
    events = (
        '{"type": "machine_unavailable", "timestamp": 3, "resources": "0"}\n'
        '{"type": "machine_available", "timestamp": 12, "resources": "0"}\n'
        '{"type": "machine_unavailable", "timestamp": 13, "resources": "3"}\n'
    )
    session = open_session(job(1, res=2), job(2, submit_s=5), events=events).reply()
    session.reply(execute(1, "0-1")).reply().reply(execute(2, "2"))
    while not session.bridge.ended:
        session.reply()
    outcome = results_of(session.bridge.run)
    write_outputs(tmp_path / "o", outcome)
    rows = (tmp_path / "o_machine_states.csv").read_text().splitlines()[1:]
    assert rows == ["0,0,0,0,2,2", "5,0,0,0,1,2", "10,0,0,0,2,1", "15,0,0,0,3,0"]
    times = summary(outcome)
    assert (times["time_computing"], times["time_unavailable"]) == (3.0 + 10.0 + 10.0, 9.0)


def test_job_on_an_unavailable_host_is_rejected(open_session: Opener) -> None:
    """An allocation of an unavailable host is an error."""
    events = '{"type": "machine_unavailable", "timestamp": 0, "resources": "2"}'
    session = open_session(job(1), events=events).reply()
    with pytest.raises(BadReplyError, match=r"host 2 \(host2\) is unavailable"):
        session.reply(execute(1, "2"))


def test_event_of_another_type_is_forwarded_as_it_is(
    open_session: Opener,
) -> None:
    """With the option, the scheduler gets external events of unknown types unchanged."""
    event = {"type": "price", "timestamp": 1.5, "euros": [1, 2]}
    session = open_session(job(1), events=json.dumps(event), forward_unknown_events=True)
    session.reply().reply()
    assert session.events[0] == (1.5, "NOTIFY", event)


def test_end_of_an_empty_event_file_is_notified_once(
    open_session: Opener,
) -> None:
    """The end of external events is notified once, also if their file is empty."""
    session = open_session(job(1), events="").reply()
    types = [data["type"] for _, kind, data in session.events if kind == "NOTIFY"]
    assert types == ["no_more_external_event_to_occur"]
    assert session.reply(execute(1, "0")).kinds() == ["JOB_COMPLETED"]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("nonsense", "line 2: is not a JSON object"),
        ('{"type": "price", "timestamp": 1}', "unknown type 'price'"),
        ('{"timestamp": 1}', "type: expected a string"),
        (
            '{"type": "machine_available", "timestamp": -1, "resources": "0"}',
            "timestamp: expected",
        ),
        ('{"type": "machine_available", "timestamp": 1}', "resources: expected a string"),
        ('{"type": "machine_available", "timestamp": 1, "resources": "9"}', "no host 9"),
    ],
)
def test_bad_external_event_is_named(tmp_path: Path, line: str, wrong: str) -> None:
    """The error names the file and the line of the event."""
    file = tmp_path / "events"
    file.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=wrong) as caught:
        read_external_events([file], HOSTS, forward_unknown=False)
    assert str(caught.value).startswith(f"{file}: line 2: ")


# What a scheduler may not say


@pytest.mark.parametrize(
    ("decision", "wrong"),
    [
        (execute(9, "0"), "there is no job 'w0!9'"),
        (execute(3, "0"), "job w0!3 is not submitted yet"),
        (execute(1, "0-1"), "job w0!1 requests 1 hosts, got an allocation of 2"),
        (execute(1, ""), "at least one host"),
        (execute(1, "x"), "expected a host number or an interval such as 0-3, got 'x'"),
        (execute(1, "4"), "there is no host 4; expected 0 to 3"),
        (execute(2, "1 1"), "has a host twice"),
        (execute(1, "0", mapping={"0": "7"}), "expected positions in alloc from 0 to 0"),
        (execute(1, "0", additional_io_job={}), "additional_io_job is not supported"),
        (
            execute(1, "0", storage_mapping={"a": 1}),
            "storage_mapping: a: 1 is no storage host; there is none",
        ),
        (("REJECT_JOB", {"job_id": "w0!3"}), "job w0!3 is not submitted yet"),
        (("CALL_ME_LATER", {"timestamp": 0.0}), "CALL_ME_LATER: "),
        (("KILL_JOB", {"job_ids": ["w0!1"]}), "job w0!1 has not started"),
        (switch("0", 2), r"only with --energy \(-E\)"),
        (("QUERY", {"requests": {"consumed_energy": {}}}), r"requires --energy \(-E\)"),
        (("QUERY", {"requests": {"weather": {}}}), "the only supported query"),
        (JOB, "requires --enable-dynamic-jobs"),
        (PROFILE, "requires --enable-dynamic-jobs"),
        (FINISHED, "requires --enable-dynamic-jobs"),
        (("NOTIFY", {"type": "lunch"}), "got 'lunch'"),
        (("SET_JOB_METADATA", {"job_id": "w0!1", "metadata": '"'}), 'must not contain "'),
        (("CHANGE_JOB_STATE", {"job_id": "w0!1", "job_state": "RUNNING"}), "expected REJECTED"),
        (("TO_JOB_MSG", {"job_id": "w0!1", "msg": "hello"}), "not supported"),
    ],
)
def test_bad_decision_is_named(
    open_session: Opener, decision: tuple[str, dict[str, Any]], wrong: str
) -> None:
    """The error names the decision and what is wrong with it."""
    session = open_session(job(1), job(2, res=2), job(3, submit_s=9)).reply()
    with pytest.raises(BadReplyError, match=wrong) as caught:
        session.reply(decision)
    assert f"at 0.0 s ($.events[0]): {decision[0]}: " in str(caught.value)


@pytest.mark.parametrize(
    ("decision", "wrong"),
    [
        (switch("0", 9), "has no pstate 9; expected 0 to 4"),
        (switch("0", 3), "pstate 3 of host 0 (host0) is a transition pstate"),
        (switch("1", 2), "host 1 (host1) runs a job"),
        (switch("2", 2), "host 2 (host2) is asleep in pstate 2"),
        (switch("3", 0), "host 3 (host3) is switching_off"),
        (execute(2, "2"), "host 2 (host2) is sleeping, in pstate 2"),
        (execute(2, "1"), "host 1 (host1) runs a job"),
    ],
)
def test_decision_that_a_host_state_forbids(
    open_session: Opener, decision: tuple[str, dict[str, Any]], wrong: str
) -> None:
    """A decision that the state of a host does not allow is an error."""
    session = open_session(job(1), job(2), energy=True).reply()
    session.reply(execute(1, "1"), switch("2", 2), now_s=4.0)
    session.reply(switch("3", 2), ("CALL_ME_LATER", {"timestamp": 5.0}))
    with pytest.raises(BadReplyError) as caught:
        session.reply(decision)
    assert wrong in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "wrong"),
    [
        (b"", r"scheduler \(\$\)"),
        (b"[]", "Expected `object`"),
        (b'{"now": 1}', "missing required field `events`"),
        (b'{"now": "1", "events": []}', r"\(\$\.now\): Expected `float`"),
        (b'{"now": 1e99, "events": []}', "got 1e\\+99"),
        (
            b'{"now": 0, "events": [{"timestamp": 1, "type": "NOTIFY"}]}',
            "at most the message's now",
        ),
        (b'{"now": 0, "events": [{"timestamp": 0, "type": "SING"}]}', "unknown type 'SING'"),
        (
            b'{"now": 0, "events": [{"timestamp": 0, "type": "REJECT_JOB", "data": {"id": 1}}]}',
            "REJECT_JOB: Object",
        ),
        (b'{"now": 0, "events": ' + b"[" * 100_000, r"\(\$"),
    ],
)
def test_malformed_reply_is_named(open_session: Opener, reply: bytes, wrong: str) -> None:
    """The error names the invalid field of a reply."""
    with pytest.raises(BadReplyError, match=wrong):
        open_session(job(1)).bridge.next_message(reply)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_reply_or_an_error(reply: bytes) -> None:
    """Any bytes are a reply or a `BadReplyError`."""
    with suppress(BadReplyError):
        read_reply(reply)


IDS = st.sampled_from(["w0!1", "w0!2", "w0!3", "w0!4", "dyn!a", "dyn!b"])
SOME_HOSTS = st.sets(st.integers(0, HOSTS - 1), min_size=1).map(intervals)
DECISIONS = st.one_of(
    st.builds(
        lambda job_id, alloc: ("EXECUTE_JOB", {"job_id": job_id, "alloc": alloc}), IDS, SOME_HOSTS
    ),
    st.builds(lambda job_id: ("REJECT_JOB", {"job_id": job_id}), IDS),
    st.builds(lambda ids: ("KILL_JOB", {"job_ids": ids}), st.lists(IDS, min_size=1, max_size=3)),
    st.builds(lambda at_s: ("CALL_ME_LATER", {"timestamp": at_s}), st.floats(0, 100)),
    st.builds(switch, SOME_HOSTS, st.integers(0, 4)),
    st.just(("QUERY", {"requests": {"consumed_energy": {}}})),
    st.sampled_from([PROFILE, JOB, FINISHED, ("NOTIFY", {"type": "continue_registration"})]),
    st.builds(lambda job_id: ("SET_JOB_METADATA", {"job_id": job_id, "metadata": "m"}), IDS),
)
REPLIES = st.lists(
    st.tuples(st.lists(st.tuples(st.floats(0, 6), DECISIONS), max_size=3), st.floats(0, 6)),
    max_size=25,
)


@given(REPLIES, st.booleans())
def test_random_decisions(
    tmp_path_factory: pytest.TempPathFactory,
    replies: list[tuple[list[tuple[float, tuple[str, dict[str, Any]]]], float]],
    events: bool,
) -> None:
    """Random decisions are errors or have effect, and results are complete.

    Every simulation of the tests also checks that cores and energy add up.
    """
    folder = tmp_path_factory.mktemp("any")
    jobs = [job(1), job(2, "cpu", 3), job(3, "both", 3, walltime=35), job(4, "total", 20, res=2)]
    external = '{"type": "machine_unavailable", "timestamp": 5, "resources": "0"}'
    (folder / "events").write_text(external, encoding="utf-8")
    bridge = Bridge(
        read_workloads([write_workload(folder, jobs, PROFILES)]),
        read_platform(write_platform(folder, HOSTS, energy=True)),
        BatsimOptions(energy=True, dynamic_jobs=True, acknowledge_dynamic_jobs=True),
        read_external_events([folder / "events"], HOSTS, forward_unknown=False) if events else None,
    )
    session = BridgeSession(bridge)
    received: list[str] = []
    before_s = 0.0
    for decided, ready_s in replies:
        now_s = session.now_s
        timed = [(now_s + delay_s, decision) for delay_s, decision in decided]
        timed.sort(key=itemgetter(0))
        ready_s = max([now_s + ready_s, *(time_s for time_s, _ in timed)])
        try:
            session.reply_at(ready_s, *((time_s, *decision) for time_s, decision in timed))
        except (BadReplyError, StuckError):
            break
        received += [data["job_id"] for _, kind, data in session.events if kind == "JOB_SUBMITTED"]
        assert session.now_s >= before_s
        assert all(before_s <= time_s <= session.now_s for time_s, _, _ in session.events)
        before_s = session.now_s
        if bridge.ended:
            break
    assert len(set(received)) == len(received)
    outcome = results_of(bridge.run)
    write_outputs(folder / "o", outcome)
    assert [row["job_id"] for row in rows_of(folder / "o_jobs.csv")] == [
        over.name for over in outcome.jobs
    ]
    assert {over.full_id for over in bridge.run.registry.jobs if over.state == "ended"} == {
        f"{over.workload}!{over.name}" for over in outcome.jobs
    }


def test_simulation_without_progress_is_stuck(open_session: Opener) -> None:
    """The error names the waiting jobs."""
    with pytest.raises(StuckError, match=r"stuck at 0.0 s: 2 jobs wait \(w0!1, w0!2\)"):
        open_session(job(1), job(2)).reply().reply()


@pytest.mark.parametrize(
    "decision",
    [
        execute(0, "0"),
        switch("0", 0),
        ("QUERY", {"requests": {"consumed_energy": {}}}),
    ],
)
def test_reading_the_energy_of_hosts_without_power_is_an_error(
    tmp_path: Path, decision: tuple[str, dict[str, Any]]
) -> None:
    """With -E and registered jobs only, the run continues until such a decision."""
    platform = read_platform(write_platform(tmp_path, HOSTS))
    session = BridgeSession(Bridge((), platform, BatsimOptions(energy=True, dynamic_jobs=True)))
    session.reply(call_at(5.0))
    registered = {"profile_name": "d10", "workload_name": "w0", "profile": PROFILES["d10"]}
    new = {"job_id": "w0!0", "job": job(0)}
    session.reply(("REGISTER_PROFILE", registered), ("REGISTER_JOB", new), call_at(6.0))
    with pytest.raises(UnknownEnergyError, match=r"at 6\.0 s, but 4 hosts have no"):
        session.reply(decision)


def test_first_submission_reads_the_energy_of_hosts(tmp_path: Path) -> None:
    """As in Batsim, -E with a workload and a host without power ends at the first submission."""
    platform = read_platform(write_platform(tmp_path, HOSTS))
    workloads = read_workloads([write_workload(tmp_path, [job(1, submit_s=3)], PROFILES)])
    session = BridgeSession(Bridge(workloads, platform, BatsimOptions(energy=True)))
    with pytest.raises(UnknownEnergyError, match=r"read at 3\.0 s"):
        session.reply()


def test_many_hosts_without_power_are_one_short_line(tmp_path: Path) -> None:
    """A message names five hosts."""
    platform = read_platform(write_platform(tmp_path, 9))
    assert platform.hosts_without_power() == (
        "9 hosts have no wattage_per_state: host0, host1, host2, host3, host4 and 4 more"
    )


@given(st.sets(st.integers(0, 40), min_size=1))
def test_intervals_round_trip(hosts: set[int]) -> None:
    """The parser reads the intervals that results contain."""
    assert parse_intervals(intervals(hosts), 41) == sorted(hosts)


# The command


class Scheduler(threading.Thread):
    """A scheduler that sends given replies, and then repeats the last one.

    Args:
        folder: for its socket.
        replies: what it says.
        then: what it does when it has said all: goes on, hangs up, or says nothing any more.

    Attributes:
        address: where it listens.
        received: the messages it got.
    """

    def __init__(self, folder: Path, *replies: bytes, then: str = "go on") -> None:
        super().__init__(daemon=True)
        self.address = f"ipc://{folder}/s"
        self.received: list[dict[str, Any]] = []
        self._replies = replies
        self._then = then

    def run(self) -> None:
        """Reply to the messages of one run."""
        with zmq.Context() as context, context.socket(zmq.REP) as socket:
            socket.linger, socket.rcvtimeo = 1000, 20_000
            socket.bind(self.address)
            while True:
                self.received.append(json.loads(socket.recv()))
                said = len(self.received) - 1
                if self.received[-1]["events"][-1]["type"] == "SIMULATION_ENDS":
                    socket.send(READY)
                    return
                if said >= len(self._replies) and self._then != "go on":
                    if self._then == "be silent":
                        socket.poll(3000)
                    return
                socket.send(self._replies[min(said, len(self._replies) - 1)])


READY = b'{"now":0,"events":[]}'
EXECUTE = (
    b'{"now":0,"events":[{"timestamp":0,"type":"EXECUTE_JOB",'
    b'"data":{"job_id":"w0!1","alloc":"0"}}]}'
)


def command(folder: Path, *options: str, jobs: Sequence[dict[str, Any]] = (job(1),)) -> Any:
    """Run `hpcosim batsim` on small inputs."""
    platform = write_platform(folder, HOSTS)
    workload = write_workload(folder, list(jobs), PROFILES)
    names = ["-p", str(platform), "-w", str(workload), "-e", f"{folder}/o"]
    return CliRunner().invoke(app, [*names, *options])


def error_of(done: Any) -> str:
    """Return the last line on standard error, which must be an error."""
    line: str = done.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    return line


def test_command_runs_a_scheduler(tmp_path: Path) -> None:
    """The command runs the jobs, writes the files and prints nothing on standard output."""
    scheduler = Scheduler(tmp_path, READY, EXECUTE, READY)
    scheduler.start()
    done = command(tmp_path, "-s", scheduler.address)
    assert (done.exit_code, done.stdout) == (0, "")
    assert [row["finish_time"] for row in rows_of(tmp_path / "o_jobs.csv")] == ["10.000000"]
    assert sorted(path.name for path in tmp_path.glob("o_*")) == [
        "o_jobs.csv",
        "o_machine_states.csv",
        "o_schedule.csv",
    ]


def test_dynamic_jobs_require_no_workload(tmp_path: Path) -> None:
    """With dynamic jobs no workload file is required, and the end of its jobs is not notified."""
    data = [PROFILE, JOB, ("EXECUTE_JOB", {"job_id": "dyn!a", "alloc": "0"}), FINISHED]
    events = [{"timestamp": 0, "type": kind, "data": said} for kind, said in data]
    busy = Scheduler(tmp_path, json.dumps({"now": 0, "events": events}).encode(), READY)
    busy.start()
    platform = str(write_platform(tmp_path, HOSTS))
    options = ["-p", platform, "-s", busy.address, "-e", f"{tmp_path}/o", "--enable-dynamic-jobs"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0
    types = [event["type"] for message in busy.received for event in message["events"]]
    assert types == ["SIMULATION_BEGINS", "JOB_COMPLETED", "SIMULATION_ENDS"]
    assert [row["workload_name"] for row in rows_of(tmp_path / "o_jobs.csv")] == ["dyn"]


def test_quiet_command_prints_nothing(tmp_path: Path) -> None:
    """A quiet command prints nothing, and a disabled file is not written."""
    scheduler = Scheduler(tmp_path, READY, EXECUTE, READY)
    scheduler.start()
    done = command(
        tmp_path, "-s", scheduler.address, "-v", "quiet", "--disable-machine-state-tracing"
    )
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "o_machine_states.csv").exists()


@pytest.mark.parametrize("verbosity", ["quiet", "network-only", "information"])
def test_messages_are_shown_as_batsim_does(tmp_path: Path, verbosity: str) -> None:
    """Unless it is quiet, the command prints every message and every reply."""
    scheduler = Scheduler(tmp_path, READY, EXECUTE, READY)
    scheduler.start()
    done = command(tmp_path, "-s", scheduler.address, "-v", verbosity)
    shown = [line for line in done.stderr.splitlines() if line.endswith("}'")]
    if verbosity == "quiet":
        assert shown == []
        return
    assert shown[0].startswith('Sending \'{"now":0.000000,"events":[{"timestamp":0.000000,')
    assert shown[1] == f"Received '{READY.decode()}'"
    assert shown[3] == f"Received '{EXECUTE.decode()}'"
    assert len(shown) == 2 * len(scheduler.received)


def test_no_scheduler_runs_jobs_one_by_one(tmp_path: Path) -> None:
    """Without a scheduler each job runs alone, and one that is too large is rejected."""
    jobs = [job(1, submit_s=5), job(2, "cpu", submit_s=5, res=2), job(3, res=HOSTS + 1)]
    done = command(tmp_path, "--no-sched", "--enable-dynamic-jobs", jobs=jobs)
    assert done.exit_code == 0
    columns = ("job_id", "final_state", "starting_time", "allocated_resources")
    assert [tuple(row[name] for name in columns) for row in rows_of(tmp_path / "o_jobs.csv")] == [
        ("3", "REJECTED", "", ""),
        ("1", "COMPLETED_SUCCESSFULLY", "5.000000", "0"),
        ("2", "COMPLETED_SUCCESSFULLY", "15.000000", "0-1"),
    ]


def test_options_of_simgrid_have_no_effect(tmp_path: Path) -> None:
    """SimGrid's options are accepted with a warning each."""
    options = ("--no-sched", "--sg-cfg", "host/model:ptask_L07", "--sg-log", "network.thresh:info")
    done = command(tmp_path, *options)
    assert done.exit_code == 0
    assert [line for line in done.stderr.splitlines() if line.startswith("warning")] == [
        f"warning: {option} has no effect: hpcosim does not use SimGrid"
        for option in ("--sg-cfg", "--sg-log")
    ]


@pytest.mark.slow
def test_scheduler_that_does_not_connect(tmp_path: Path) -> None:
    """The command ends after --hello-timeout-s, names the address and keeps earlier results."""
    (tmp_path / "o_jobs.csv").write_text("earlier")
    done = command(tmp_path, "-s", f"ipc://{tmp_path}/nobody", "--hello-timeout-s", "0.3")
    assert done.exit_code == 1
    assert "no scheduler listens at ipc://" in error_of(done)
    assert "results" not in error_of(done)
    assert [path.name for path in tmp_path.glob("o_*")] == ["o_jobs.csv"]
    assert (tmp_path / "o_jobs.csv").read_text() == "earlier"


def test_scheduler_that_disconnects(tmp_path: Path) -> None:
    """The command notices a lost connection and writes the jobs that have ended.

    The summary of an earlier run is removed: as in Batsim, a run cut short has none.
    """
    (tmp_path / "o_schedule.csv").write_text("earlier")
    dying = Scheduler(tmp_path, READY, EXECUTE, then="hang up")
    dying.start()
    done = command(tmp_path, "-s", dying.address, jobs=[job(1), job(2, submit_s=50)])
    assert done.exit_code == 1
    assert "closed the connection; its output may name the reason; results" in error_of(done)
    assert [row["job_id"] for row in rows_of(tmp_path / "o_jobs.csv")] == ["1"]
    assert not (tmp_path / "o_schedule.csv").exists()


def test_results_of_a_run_cut_short_say_so(tmp_path: Path) -> None:
    """A file has time and reason of the end; the next complete run removes it."""
    dying = Scheduler(tmp_path, READY, EXECUTE, READY, then="hang up")
    dying.start()
    command(tmp_path, "-s", dying.address, jobs=[job(1), job(2, submit_s=50)])
    said = (tmp_path / "o_cut_short.txt").read_text()
    assert said.startswith("The run was cut short at 50.000000 s of simulated time: the scheduler")
    assert command(tmp_path, "--no-sched").exit_code == 0
    assert not (tmp_path / "o_cut_short.txt").exists()


def test_scheduler_that_does_not_reply(tmp_path: Path) -> None:
    """The command ends after --timeout-s."""
    slow = Scheduler(tmp_path, READY, then="be silent")
    slow.start()
    done = command(tmp_path, "-s", slow.address, "--timeout-s", "0.3")
    assert done.exit_code == 1
    assert "did not reply within 0.3 s" in error_of(done)


def test_bad_decision_ends_the_run(tmp_path: Path) -> None:
    """The scheduler gets SIMULATION_ENDS with the error, and the command prints it."""
    bad = EXECUTE.replace(b'"alloc":"0"', b'"alloc":"0-1"')
    wrong = Scheduler(tmp_path, READY, bad)
    wrong.start()
    done = command(tmp_path, "-s", wrong.address)
    wrong.join(SOON_S)
    assert done.exit_code == 1
    assert "EXECUTE_JOB: job w0!1 requests 1 hosts, got an allocation of 2" in error_of(done)
    last = wrong.received[-1]["events"][-1]
    assert last["type"] == "SIMULATION_ENDS"
    assert "job w0!1 requests 1 hosts, got an allocation of 2" in last["data"]["error"]
    assert (tmp_path / "o_jobs.csv").exists()


def test_hosts_without_power_are_a_warning_and_then_an_error(tmp_path: Path) -> None:
    """With -E the command warns at the start and ends when the energy is read."""
    scheduler = Scheduler(tmp_path, READY)
    scheduler.start()
    done = command(tmp_path, "-E", "-s", scheduler.address)
    scheduler.join(SOON_S)
    assert done.exit_code == 1
    hosts = "4 hosts have no wattage_per_state: host0, host1, host2, host3"
    warning = f"warning: {tmp_path}/platform.xml: {hosts}; they draw 0 W, and energy cannot be read"
    assert warning in done.stderr.splitlines()
    assert f"energy is read at 0.0 s, but {hosts}; add this property" in error_of(done)
    assert hosts in scheduler.received[-1]["events"][-1]["data"]["error"]


def test_stuck_simulation_ends_the_run(tmp_path: Path) -> None:
    """The scheduler and the user get the error of a simulation without progress."""
    idle = Scheduler(tmp_path, READY)
    idle.start()
    done = command(tmp_path, "-s", idle.address)
    idle.join(SOON_S)
    assert done.exit_code == 1
    assert "stuck at 0.0 s: 1 job waits (w0!1)" in error_of(done)
    assert "stuck" in idle.received[-1]["events"][-1]["data"]["error"]


def test_scheduler_rejects_a_job_larger_than_the_platform(tmp_path: Path) -> None:
    """The scheduler gets a job that is too large, and the user gets a warning."""
    reject = b'{"now":0,"events":[{"timestamp":0,"type":"REJECT_JOB","data":{"job_id":"w0!1"}}]}'
    careful = Scheduler(tmp_path, READY, reject, READY)
    careful.start()
    done = command(tmp_path, "-s", careful.address, jobs=[job(1, res=HOSTS + 1)])
    assert done.exit_code == 0
    assert "warning: " in done.stderr
    assert "job w0!1: requests 5 hosts" in done.stderr
    assert [row["final_state"] for row in rows_of(tmp_path / "o_jobs.csv")] == ["REJECTED"]


@pytest.mark.parametrize("res", [1, 2])
def test_communication_without_links_is_a_warning(tmp_path: Path, res: int) -> None:
    """Communication between hosts of a platform without links gives one warning."""
    profiles = {
        "c": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e6},
        "twice": {"type": "composed", "seq": ["c"], "repeat": 2},
    }
    jobs = [job(number, res=res, profile="twice") for number in (1, 2)]
    path = write_workload(tmp_path, jobs, profiles, "communicating.json")
    done = command(tmp_path, "-w", str(path), "-s", "tcp://localhost")
    warning = f"warning: {path}: profile twice: communication takes no time, because {tmp_path}/"
    assert done.stderr.count("warning: ") == res - 1
    assert (warning in done.stderr) == (res > 1)


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_options_of_simgrid_are_ignored_with_a_warning(
    tmp_path: Path, quiet: tuple[str, ...]
) -> None:
    """`--sg-cfg` and `--sg-log` are accepted; a quiet command does not warn."""
    scheduler = Scheduler(tmp_path, READY, EXECUTE, READY)
    scheduler.start()
    options = ("--sg-cfg", "host/model:ptask_L07", "--sg-cfg=a:b", "--sg-log", "root.thres:debug")
    done = command(tmp_path, "-s", scheduler.address, *options, *quiet)
    assert (done.exit_code, done.stdout) == (0, "")
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        f"warning: {option} has no effect: hpcosim does not use SimGrid"
        for option in ("--sg-cfg", "--sg-log")
        if not quiet
    ]


@pytest.mark.parametrize("option", UNSUPPORTED)
def test_unsupported_option_is_named(tmp_path: Path, option: str) -> None:
    """An unsupported option of Batsim is an error before files are read or written."""
    done = command(tmp_path, option, "x")
    assert done.exit_code == 2
    assert f"{option} is an option of Batsim that is not supported" in error_of(done)
    assert not list(tmp_path.glob("o_*"))


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--no-such-thing"], "there is no option --no-such-thing"),
        (["-p", "nowhere.xml"], "nowhere.xml: cannot be read"),
        (["-w", "nowhere.json"], "nowhere.json: cannot be read"),
        (["--mmax", "9"], "has 4 compute hosts; --mmax requests 9"),
        (["-r", "host1"], "expected HOST,...:ROLE"),
        (["-r", "host1:cook"], "has the unknown role 'cook'"),
        (["--events", "nowhere"], "nowhere: cannot be read"),
        (["--sched-cfg-file", "nowhere"], "nowhere cannot be read"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, options: list[str], wrong: str) -> None:
    """Invalid input ends the command with status 2 and one line."""
    done = command(tmp_path, *options)
    assert done.exit_code == 2
    assert wrong in error_of(done)


def test_execution_context_is_dumped(tmp_path: Path) -> None:
    """The execution context is printed as JSON, and no simulation runs."""
    done = command(tmp_path, "-s", "tcp://localhost:1", "--dump-execution-context")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["socket_endpoint"] == "tcp://localhost:1"


@pytest.mark.parametrize("name", ["batsim", "batsim5"])
def test_version_of_simgrid_is_printed(name: str) -> None:
    """A script that asks for it gets the version whose models are implemented."""
    done = invoke(name, "--simgrid-version")
    assert (done.status, done.out) == (0, "3.32.0 (implemented by hpcosim)\n")


@pytest.mark.parametrize("option", ["--batsim-git-commit", "--simgrid-git-commit"])
def test_commits_are_refused(option: str) -> None:
    """There are no commits of Batsim and SimGrid to print."""
    done = invoke("batsim5", option)
    assert done.status == 2
    assert (
        f"{option} is an option of Batsim that is not supported: hpcosim is not built" in done.err
    )


def test_existing_executable_is_not_overwritten(tmp_path: Path) -> None:
    """An existing program called batsim is not overwritten."""
    ours = install_as_batsim(tmp_path / "bin")
    assert install_as_batsim(tmp_path / "bin") == ours
    (tmp_path / "batsim").write_text("the real one")
    with pytest.raises(BatsimError, match="was not changed"):
        install_as_batsim(tmp_path)
    assert (tmp_path / "batsim").read_text() == "the real one"


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("localhost:28000", "got 'localhost:28000'; did you mean tcp://localhost:28000?"),
        ("http://localhost:28000", "expected tcp://HOST:PORT or ipc://PATH, got 'http:"),
    ],
)
def test_address_without_a_known_transport(tmp_path: Path, address: str, wrong: str) -> None:
    """An address without `tcp://` is bad input; the message has the corrected address."""
    done = command(tmp_path, "-s", address)
    assert done.exit_code == 2
    assert wrong in error_of(done)
    assert not list(tmp_path.glob("o_*"))


def test_unusable_output_folder(tmp_path: Path) -> None:
    """A file in place of the folder of the output files is an error before the run."""
    (tmp_path / "file").write_text("")
    done = command(tmp_path, "-e", f"{tmp_path}/file/o")
    assert done.exit_code == 2
    assert "expected a results folder" in error_of(done)
    assert "waiting" not in done.stderr


def test_address_without_a_port(tmp_path: Path) -> None:
    """An address that ZeroMQ rejects ends the run with the expected form."""
    done = command(tmp_path, "-s", "tcp://localhost")
    assert done.exit_code == 1
    assert "'tcp://localhost'" in error_of(done)
    assert "expected tcp://HOST:PORT" in error_of(done)
    assert not list(tmp_path.glob("o_*"))


def test_swapped_platform_and_workload(tmp_path: Path) -> None:
    """A workload after -p and a platform after -w get a hint."""
    platform = str(write_platform(tmp_path, HOSTS))
    workload = str(write_workload(tmp_path, [job(1)], PROFILES))
    swapped = "Are the files of -p and -w swapped?"
    for names, kind in ((["-p", workload, "-w", workload], "JSON"), (["-w", platform], "XML")):
        done = CliRunner().invoke(app, ["-p", platform, *names])
        assert done.exit_code == 2
        assert f"is {kind}; expected" in error_of(done)
        assert swapped in error_of(done)


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("walltime", "1h", "write it without quotes and without a unit, in s"),
        ("subtime", "5 s", "without a unit, in s"),
        ("res", "2 nodes", "without a unit, in hosts"),
    ],
)
def test_number_with_a_unit_in_a_workload(
    tmp_path: Path, field: str, value: str, hint: str
) -> None:
    """A string that begins with a number gets the unit of its field as a hint."""
    done = command(tmp_path, jobs=[{**job(1), field: value}])
    assert done.exit_code == 2
    assert f"jobs[0].{field}: must be a" in error_of(done)
    assert hint in error_of(done)
