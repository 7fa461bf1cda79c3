"""Several components of Batsim 5 that decide together."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.requester import WallTimes
from hpcosim_batsim.edc.batsim5 import BINARY, JSON, Format, SimulationInfo
from hpcosim_batsim.edc.component_run import bridge_of, read_inputs
from hpcosim_batsim.edc.components import ComponentPlan, Introduction, exchange
from hpcosim_batsim.edc.ensemble import Member, combine
from hpcosim_batsim.edc.library import Interface
from hpcosim_batsim.edc.messages import Hello, RequestedFeatures
from hpcosim_batsim.errors import BadReplyError, RunFailedError
from hpcosim_batsim.results import results_of
from hpcosim_batsim.run import Inputs
from support.batsim5 import execution
from support.batsim_inputs import write_platform, write_workload

Answer = Callable[[float, str, dict[str, Any]], Sequence[Any]]
CALL = {"when_type": "OneShot", "when": {"time": 5}}
DELAY = {"type": "DelayProfile", "delay": 10}


class Stub:
    """A component in this process.

    Attributes:
        seen: time and kind of each event.
    """

    waited_s = 0.0

    def __init__(self, answer: Answer, form: Format) -> None:
        self._answer = answer
        self._form = form
        self.seen: list[tuple[float, str]] = []

    def begin(self, init: bytes, interface: object) -> tuple[int, bytes]:
        """Do nothing."""
        return 0, b""

    def decide(self, message: bytes) -> bytes:
        """Return the answers to the events."""
        received = self._form.decode(message)
        events = []
        for each in received["events"]:
            kind = each["event_type"].removesuffix("Event")
            self.seen.append((each["timestamp"], kind))
            for name, data in self._answer(each["timestamp"], kind, each.get("event", {})):
                timed = {"timestamp": received["now"], "event_type": name, "event": data}
                events.append(timed)
        return self._form.encode({"now": received["now"], "events": events})

    def say_goodbye(self, message: bytes) -> None:
        """Take the last message."""
        self.decide(message)

    def member(self, interface: Interface = "hello", **features: bool) -> Member:
        """Return the component as one of several."""
        hello = Hello(requested_simulation_features=RequestedFeatures(**features))
        plan = ComponentPlan(kind="library", target="stub", init=b"")
        return Member(self, plan, Introduction(hello, self._form, interface))


def run(folder: Path, members: Sequence[Member], jobs: Sequence[dict[str, Any]] = ()) -> Bridge:
    """Run a workload with several components, and return the simulation."""
    whole, said = combine(members)
    given = read_inputs(
        Inputs(
            platform=write_platform(folder, 2),
            workloads=(write_workload(folder, list(jobs), {"wait": DELAY}),),
            events=None,
            master="master_host",
            roles={},
            mmax=0,
            mmax_workload=False,
        ),
        energy=False,
        report=lambda _: None,
    )
    bridge = bridge_of(given, said.hello, said.form, SimulationInfo([], "{}"), energy=False)
    exchange(bridge, whole, WallTimes())
    return bridge


def silent(*_: object) -> list[Any]:
    """Return no decisions."""
    return []


@pytest.mark.parametrize("form", [JSON, BINARY], ids=["JSON", "binary"])
def test_one_component_starts_jobs_and_another_kills_them(form: Format, tmp_path: Path) -> None:
    """Both get events of jobs; each may have its own form of messages."""

    def start(_: float, kind: str, data: dict[str, Any]) -> list[Any]:
        return [execution(data["job_id"], "0")] if kind == "JobSubmitted" else []

    def kill(_: float, kind: str, __: dict[str, Any]) -> list[Any]:
        if kind == "JobSubmitted":
            return [("CallMeLaterEvent", {"call_me_later_id": "a", **CALL})]
        return [("KillJobsEvent", {"job_ids": ["w0!1"]})] if kind == "RequestedCall" else []

    starter, killer = Stub(start, JSON), Stub(kill, form)
    jobs = [{"id": 1, "subtime": 1, "res": 1, "profile": "wait"}]
    bridge = run(tmp_path, [starter.member(), killer.member()], jobs)
    (ended,) = results_of(bridge.run).jobs
    assert (ended.state, ended.end_s) == ("COMPLETED_KILLED", 5)
    assert (5, "RequestedCall") in killer.seen
    assert [each for each in killer.seen if each[1] != "RequestedCall"] == starter.seen


def test_equal_ids_of_two_components_are_two_calls(tmp_path: Path) -> None:
    """Each gets its own call, with the id that it has chosen."""
    ids: list[tuple[int, str]] = []

    def answer(member: int) -> Answer:
        def call(_: float, kind: str, data: dict[str, Any]) -> list[Any]:
            if kind == "SimulationBegins":
                period = {"period": 2 + member, "mode_type": "FinitePeriodNumber"}
                when = {"when_type": "Periodic", "when": {**period, "mode": {"nb_periods": 2}}}
                return [("CallMeLaterEvent", {"call_me_later_id": "x", **when})]
            if kind == "RequestedCall":
                ids.append((member, data["call_me_later_id"]))
            return []

        return call

    stubs = [Stub(answer(member), JSON) for member in range(2)]
    run(tmp_path, [stub.member() for stub in stubs])
    assert ids == [(0, "x"), (1, "x"), (0, "x"), (1, "x")]
    calls = [[time_s for time_s, kind in stub.seen if kind == "RequestedCall"] for stub in stubs]
    assert calls == [[2, 4], [3, 6]]


def test_registration_ends_with_the_last_component(tmp_path: Path) -> None:
    """A component that did not request it does not end it."""

    def finish(at_s: float) -> Answer:
        def answer(time_s: float, kind: str, _: dict[str, Any]) -> list[Any]:
            if kind == "SimulationBegins":
                when = {"when_type": "OneShot", "when": {"time": int(at_s)}}
                return [("CallMeLaterEvent", {"call_me_later_id": "x", **when})]
            return [("FinishRegistrationEvent", {})] if kind == "RequestedCall" else []

        return answer

    first, last, other = (Stub(finish(at_s), JSON) for at_s in (1, 3, 9))
    bridge = run(
        tmp_path,
        [
            first.member(dynamic_registration=True),
            last.member(dynamic_registration=True),
            other.member(),
        ],
    )
    assert not bridge.run.registering
    assert first.seen[-1] == last.seen[-1] == other.seen[-1] == (9, "SimulationEnds")


def test_a_bad_reply_names_its_component(tmp_path: Path) -> None:
    """The others are told that the simulation ends."""

    class Broken(Stub):
        def decide(self, message: bytes) -> bytes:
            return json.dumps({"now": "soon"}).encode()

    other = Stub(silent, JSON)
    with pytest.raises(BadReplyError, match="component stub: Expected `float`, got `str`"):
        run(tmp_path, [other.member(), Broken(silent, JSON).member()])
    assert other.seen == [(0, "SimulationBegins"), (0, "SimulationEnds")]


def test_a_component_with_the_older_interface_runs_alone() -> None:
    """The error says so."""
    with pytest.raises(RunFailedError, match="cannot run with others"):
        combine([Stub(silent, JSON).member("flags"), Stub(silent, JSON).member()])
