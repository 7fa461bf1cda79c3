"""A server with one fault, for tests of the conformance kit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import msgpack
import zmq

from hpcosim_server.service.service import Service

Map = dict[str, Any]
Fault = Callable[["Talk"], bytes | Map | None]
LOST = {"type": "error", "code": "unknown_session", "message": "no idea", "where": ""}


class Talk:
    """One request to a server, with access to the correct reply.

    Attributes:
        asked: the request; empty if it is not a map.
        number: number of earlier requests.
        seen: state of the fault, shared by all requests.
    """

    def __init__(self, service: Service, body: bytes, number: int, seen: Map) -> None:
        self._service, self.body, self.number, self.seen = service, body, number, seen
        try:
            asked = msgpack.unpackb(body)
        except Exception:
            asked = {}
        self.asked: Map = asked if isinstance(asked, dict) else {}

    def sound(self, **changed: Any) -> Map:
        """Return the correct reply to the request or to a changed request."""
        body = msgpack.packb(self.asked | changed) if changed else self.body
        answer: Map = msgpack.unpackb(self._service.answer(body))
        return answer

    def is_a(self, kind: str) -> bool:
        """Return whether the request has a type."""
        return self.asked.get("type") == kind


def events_without(kind: str) -> Fault:
    """Return a fault that omits all events of a type."""

    def fault(talk: Talk) -> Map:
        answer = talk.sound()
        if "events" in answer:
            answer["events"] = [e for e in answer["events"] if e["type"] != kind] or [
                {"type": "no_more_jobs", "time_s": answer["now_s"]}
            ]
        return answer

    return fault


def changing(code: str, /, **fields: Any) -> Fault:
    """Return a fault that changes fields of an error."""

    def fault(talk: Talk) -> Map:
        answer = talk.sound()
        return answer | fields if answer.get("code") == code else answer

    return fault


def on(kind: str, **changed: Any) -> Fault:
    """Return a fault that changes fields of every request of a type."""
    return lambda talk: talk.sound(**changed) if talk.is_a(kind) else talk.sound()


def in_welcome(**fields: Any) -> Fault:
    """Return a fault that changes fields of the welcome."""

    def fault(talk: Talk) -> Map:
        answer = talk.sound()
        return answer | fields if answer["type"] == "welcome" else answer

    return fault


def in_events(change: Callable[[Map], Map]) -> Fault:
    """Return a fault that changes replies with events."""

    def fault(talk: Talk) -> Map:
        answer = talk.sound()
        return change(answer) if answer["type"] == "events" else answer

    return fault


def _forgets_at_end(talk: Talk) -> Map:
    """Reject jobs at once that are to be rejected at the end."""
    if not talk.is_a("decisions"):
        return talk.sound()
    decisions = [
        {**each, "at_end": False} if "at_end" in each else each for each in talk.asked["decisions"]
    ]
    return talk.sound(decisions=decisions)


def secret_in_status(talk: Talk) -> Map:
    """Tell the name of the last session."""
    answer = talk.sound()
    if answer["type"] == "welcome":
        talk.seen["session"] = answer["session"]
    if answer["type"] == "server_status":
        answer["sessions"] = [{"label": talk.seen["session"]}]
    return answer


def in_history(changed: Callable[[Map], Map]) -> Fault:
    """Return a fault that changes fields of replies with a history."""

    def fault(talk: Talk) -> Map:
        answer = talk.sound()
        return answer | changed(answer) if answer["type"] == "history" else answer

    return fault


def _in_event(kind: str, **fields: Any) -> Fault:
    def change(answer: Map) -> Map:
        changed = [e | fields if e["type"] == kind else e for e in answer["events"]]
        return answer | {"events": changed}

    return in_events(change)


def _tolerant(talk: Talk) -> Map:
    """Reply to a ping with a trailing byte as to a valid ping."""
    answer = talk.sound()
    if answer.get("code") == "invalid_message" and talk.body.endswith(b"\x00"):
        return talk.sound(type="hello", versions=[])
    return answer


def _strict(talk: Talk) -> Map:
    if "a_field_of_tomorrow" in talk.asked:
        return {"type": "error", "code": "invalid_message", "message": "what is this?"}
    return talk.sound()


def _known_decisions_only(talk: Talk) -> Map:
    known = [d for d in talk.asked.get("decisions") or () if _type(d) != "format_disk"]
    return talk.sound(decisions=known) if talk.is_a("decisions") else talk.sound()


def _type(decision: object) -> object:
    return decision.get("type") if isinstance(decision, dict) else None


def _no_second_answer(talk: Talk) -> Map:
    if talk.is_a("decisions") and talk.seen.get("body") == talk.body:
        return {"type": "error", "code": "out_of_order", "message": "again?"}
    talk.seen["body"] = talk.body
    return talk.sound()


def _any_seq(talk: Talk) -> Map:
    answer = talk.sound()
    if answer.get("code") != "out_of_order":
        return answer
    return {"type": "events", "seq": 1, "now_s": 0.0, "events": []}


def _manages_always(talk: Talk) -> Map:
    answer = talk.sound()
    if answer["type"] == "welcome":
        answer["options"]["workload_manager"] = True
    return answer


def _stamped(talk: Talk) -> Map:
    return talk.sound() | {"stamp": talk.number}


def _stays_open(talk: Talk) -> Map:
    return {"type": "goodbye"} if talk.is_a("bye") else talk.sound()


def _never_ends(talk: Talk) -> Map:
    answer = talk.sound()
    if answer["type"] != "simulation_ended":
        return answer
    nothing = {"type": "no_more_jobs", "time_s": answer["now_s"]}
    return {"type": "events", "seq": answer["seq"], "now_s": answer["now_s"], "events": [nothing]}


def _ends_at_once(talk: Talk) -> Map:
    if not talk.is_a("decisions"):
        return talk.sound()
    return {"type": "simulation_ended", "seq": talk.asked.get("seq"), "now_s": 0.0, "metrics": {}}


def _nothing_happens(talk: Talk) -> Map:
    if not talk.is_a("decisions"):
        return talk.sound()
    return {"type": "events", "seq": talk.asked.get("seq"), "now_s": 0.0, "events": []}


def _everything_at_once(answer: Map) -> Map:
    """Add events about jobs and nodes that do not exist."""
    strange: list[Map] = [
        {"type": "job_submitted", "job_id": 7, "cores": 10**9, "requested_s": 1.0},
        {"type": "job_started", "job_id": 8, "nodes": [10**9], "cores": []},
        {"type": "job_completed", "job_id": 9, "state": "completed"},
        {"type": "node_power_changed", "node": 10**9, "state": "on"},
        {"type": "decision_rejected", "seq": 0, "index": 10**9, "decision": "", "code": "bad_job"},
    ]
    for event in strange:
        answer["events"].append({"time_s": answer["now_s"], "reason": ""} | event)
    return answer


def _one_clock(talk: Talk) -> Map:
    """Add a field with the latest time of any session."""
    answer = talk.sound()
    talk.seen["clock_s"] = max(talk.seen.get("clock_s", 0.0), answer.get("now_s", 0.0))
    return answer | {"clock_s": talk.seen["clock_s"]}


def _forgets_the_last(talk: Talk) -> Map:
    answer = talk.sound()
    if answer["type"] == "simulation_ended" and talk.seen.setdefault("end", talk.body) != talk.body:
        return LOST | {"seq": answer["seq"]}
    return answer


def _falling(answer: Map) -> Map:
    answer["now_s"] -= 1e6 * (answer["seq"] > 2)
    for event in answer["events"]:
        event["time_s"] = min(event["time_s"], answer["now_s"])
    return answer


def _answers_pings_with_welcome(talk: Talk) -> Map:
    return talk.sound(versions=[1]) if talk.asked.get("versions") == [] else talk.sound()


def _any_version(talk: Talk) -> Map:
    return talk.sound(versions=[1]) if talk.asked.get("versions") else talk.sound()


def _version_last(talk: Talk) -> Map:
    if talk.is_a("hello") and talk.asked.get("client") == 7:
        return {"type": "error", "code": "invalid_message", "message": "client: text is due"}
    return talk.sound()


def _no_nonce(talk: Talk) -> Map:
    return talk.sound(nonce="") if talk.is_a("hello") else talk.sound()


def _two_nonces_at_once(talk: Talk) -> Map:
    answer = talk.sound()
    if "another hello" in str(answer.get("message")):
        return talk.sound(nonce=f"{talk.number}")
    return answer


def _first_rejection_only(answer: Map) -> Map:
    rejected = [e for e in answer["events"] if e["type"] == "decision_rejected"]
    kept = [e for e in answer["events"] if e not in rejected[1:]]
    return answer | {"events": kept}


def _no_alarms(talk: Talk) -> Map:
    """Ignore alarms more than a day ahead."""
    decisions = talk.asked.get("decisions") or ()
    far = [n for n, decision in enumerate(decisions) if _is_far(decision)]
    if not far:
        return talk.sound()
    nothing = {"type": "cancel_alarm", "alarm_id": 10**6}
    answer = talk.sound(decisions=[nothing if _is_far(each) else each for each in decisions])
    if "events" in answer:
        answer["events"] = [e for e in answer["events"] if e.get("index") not in far]
    return answer


def _loud_explanations(talk: Talk) -> Map:
    """Add an event to the replies to explanations."""
    answer = talk.sound()
    if any(_type(each) == "explain" for each in talk.asked.get("decisions") or ()):
        answer["events"].append({"type": "no_more_jobs", "time_s": answer["now_s"]})
    return answer


def _is_far(decision: Any) -> bool:
    return _type(decision) == "set_alarm" and decision["at_s"] > 86_400.0


FAULTS: Mapping[str, Fault] = {
    "none": lambda talk: talk.sound(),
    "silent": lambda talk: None,
    "text": lambda talk: b"HTTP/1.1 400 Bad Request",
    "no_fields": lambda talk: {"type": "error"},
    "ping_opens": _answers_pings_with_welcome,
    "any_version": _any_version,
    "version_last": _version_last,
    "one_sided": changing("unsupported_version", message="I don't speak that"),
    "no_options": in_welcome(options={}),
    "no_name": in_welcome(session=""),
    "first_version": in_welcome(version=999),
    "one_session": on("hello", nonce="the same"),
    "old_session": in_welcome(seq=4),
    "any_scenario": on("hello", scenario=""),
    "acts_on_policy": lambda talk: talk.sound(**{"seed": 2} if talk.asked.get("policy") else {}),
    "no_nonce": _no_nonce,
    "two_nonces": _two_nonces_at_once,
    "tolerant": _tolerant,
    "known_decisions_only": _known_decisions_only,
    "strict": _strict,
    "small": changing("message_too_large", code="invalid_message"),
    "many": changing("too_many_decisions", code="invalid_message"),
    "no_second_answer": _no_second_answer,
    "any_seq": _any_seq,
    "no_seq_in_errors": changing("out_of_order", seq=0),
    "all_fatal": changing("out_of_order", fatal=True),
    "never_heard_of": changing("unknown_session", code="internal_error"),
    "stays_open": _stays_open,
    "no_snapshot": in_welcome(snapshot=[]),
    "short_history": in_history(lambda answer: {"exchanges": answer["exchanges"][1:]}),
    "secret_in_status": secret_in_status,
    "no_snapshot_in_history": in_history(lambda answer: {"snapshot": []}),
    "no_beginning": events_without("simulation_began"),
    "no_rejections": events_without("decision_rejected"),
    "one_rejection": in_events(_first_rejection_only),
    "wrong_index": _in_event("decision_rejected", decision="something"),
    "wrong_code": _in_event("decision_rejected", code="bad_job"),
    "near_alarms_only": _no_alarms,
    "loud_explanations": _loud_explanations,
    "no_starts": events_without("job_started"),
    "state_unknown": _in_event("job_completed", state="killed"),
    "no_power_path": events_without("node_power_changed"),
    "no_signals": events_without("signal_changed"),
    "past_forecast": _in_event("signal_changed", forecast=[[0.0, 1.0]]),
    "manages_always": _manages_always,
    "ignores_profile": on("hello", workload_manager=True),
    "no_devices": _in_event("job_started", gres=[]),
    "forgets_eligible_jobs": events_without("job_eligible"),
    "no_suspensions": events_without("job_suspended"),
    "forgets_at_end": _forgets_at_end,
    "no_requeues": events_without("job_requeued"),
    "late_alarms": _in_event("alarm", alarm_id=99),
    "sleepless": on("decisions", wake_on=None),
    "deaf_to_thinking": on("decisions", elapsed_s=0.0),
    "stamped": _stamped,
    "one_clock": _one_clock,
    "elsewhere": _in_event("job_allocated", cores=[10**6]),
    "never_wakes": in_welcome(options={"max_message_bytes": 10**6}),
    "other_seq": in_events(lambda answer: answer | {"seq": answer["seq"] + 1}),
    "falling_time": in_events(_falling),
    "early_now": in_events(lambda answer: answer | {"now_s": answer["now_s"] - 1.0}),
    "shuffled": in_events(lambda answer: answer | {"events": answer["events"][::-1]}),
    "never_ends": _never_ends,
    "ends_at_once": _ends_at_once,
    "nothing_happens": _nothing_happens,
    "everything_at_once": in_events(_everything_at_once),
    "forgets_the_last": _forgets_the_last,
    "stuck_for_ever": changing("simulation_stuck", fatal=False),
}


class BrokenServer:
    """A context manager: a service with a fault on a socket, in a thread.

    Args:
        service: the correct service.
        fault: a key of `FAULTS`, or a fault of the frames: `no_envelope`, `delimiter_always`,
            `any_frames`.

    Attributes:
        address: endpoint at which it listens.
    """

    def __init__(self, service: Service, fault: str) -> None:
        self._service, self._fault = service, fault
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.bind("tcp://127.0.0.1:*")
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()
        self._context.term()

    def _run(self) -> None:
        fault, number, seen = FAULTS.get(self._fault, FAULTS["none"]), 0, dict[str, Any]()
        while not self._over.is_set():
            if not self._socket.poll(20):
                continue
            identity, *before, body = self._socket.recv_multipart()
            if len(before) > 5 and self._fault != "any_frames":
                continue
            if self._fault == "no_envelope":
                before = before[-1:]
            if self._fault == "delimiter_always":
                before = before or [b""]
            answer = fault(Talk(self._service, body, number, seen))
            number += 1
            if answer is not None:
                data = answer if isinstance(answer, bytes) else msgpack.packb(answer)
                self._socket.send_multipart([identity, *before, data])
