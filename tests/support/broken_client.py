"""A scheduler with one fault, for tests of the conformance kit.

    python broken_client.py FAULT tcp://127.0.0.1:28080

With the fault `none` it is correct. The policy is FCFS for jobs of placement `cores`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import zmq

Map = dict[str, Any]
RESEND_MS = 600
STAY_S = 60.0  # until the kit kills it
KNOWN_FIELDS = {"type", "time_s", "job_id", "cores", "requested_s", "nodes", "state"}
KNOWN_EVENTS = {"simulation_began", "job_submitted", "job_started", "job_completed", "no_more_jobs"}


class Scheduler:
    """The scheduler."""

    def __init__(self, fault: str, address: str) -> None:
        self.fault = fault
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 500
        self.socket.rcvtimeo = RESEND_MS
        self.socket.connect(address)
        self.free: list[int] = []
        self.queue: list[Map] = []
        self.running: dict[int, tuple[Map, dict[int, int]]] = {}
        self.now_s = 0.0

    # The wire

    def send(self, message: Map) -> None:
        """Send a message."""
        body = msgpack.packb(message)
        if self.fault == "trailing_byte":
            body += b"\x00"
        self.socket.send_multipart([b""] * (7 if self.fault == "seven_frames" else 1) + [body])

    def ask(self, message: Map) -> Map:
        """Return the reply to a message and resend the message until it arrives."""
        for attempt in range(100):
            if attempt and self.fault == "impatient":
                sys.exit("error: no answer")
            if attempt and self.fault == "other_nonce" and message["type"] == "hello":
                message = message | {"nonce": f"another {attempt}"}
            if attempt and self.fault == "other_request" and message["type"] == "decisions":
                message = message | {"elapsed_s": float(attempt)}
            self.send(message)
            answer = self.receive(message)
            if answer is not None:
                return answer
        sys.exit("error: no answer")

    def receive(self, message: Map) -> Map | None:
        """Return the reply to a message; None after the resend timeout."""
        while True:
            try:
                body = self.socket.recv_multipart()[-1]
            except zmq.Again:
                return None
            try:
                if self.fault == "small_buffer" and len(body) > 2**16:
                    sys.exit("error: too long")
                answer: Map = self.unpacked(body)
                kind = answer["type"]
            except Exception:
                if self.fault == "swallows_garbage":
                    return None
                raise
            if self.fault == "type_first" and next(iter(answer)) != "type":
                sys.exit("error: no type")
            if self.fault == "one_form" and msgpack.packb(answer) != body:
                sys.exit("error: an unusual form")
            if kind == "error":
                if self.fault == "deaf_to_errors":
                    return None
                sys.exit(0 if self.fault == "error_is_success" else f"error: {answer['code']}")
            if kind == "held":
                if self.fault == "gives_up_when_held":
                    sys.exit("error: held")
                continue
            if kind == "welcome" and message["type"] != "hello":
                continue
            due = message.get("seq", 0)
            if self.fault == "never_satisfied" and due == 2:
                return None
            if answer.get("seq", due) == due or self.fault == "takes_any_answer":
                return answer

    def unpacked(self, body: bytes) -> Any:
        """Return the decoded body of a message."""
        if self.fault != "reads_on":
            return msgpack.unpackb(body)
        unpacker = msgpack.Unpacker()
        unpacker.feed(body)
        return unpacker.unpack()

    # The loop

    def run(self) -> None:
        """Schedule one simulation."""
        versions = [2] if self.fault == "other_version" else [1]
        nonce = "" if self.fault == "no_nonce" else f"{time.time()}"
        hello: Map = {"type": "hello", "versions": versions, "nonce": nonce}
        if self.fault == "gives_up_when_held":
            hello["held_replies"] = True
        if self.fault in ("needs_no_eligibility", "deaf_to_requeues"):
            hello["workload_manager"] = True
        if self.fault == "large_policy":
            hello["policy"] = {"settings": "x" * 2**14}
        welcome = self.ask(hello)
        if welcome["version"] != 1 and self.fault != "any_version":
            sys.exit("error: another version")
        if self.fault == "needs_snapshot":
            welcome["snapshot"]
        session = welcome["session"]
        if self.fault == "asks_for_history":
            self.ask({"type": "get_history", "session": session})
        if self.fault == "plain_text":
            session = session.encode("ascii", "replace").decode()
        if self.fault == "no_session":
            session = "my own"
        self.free = list(self.cores(welcome))
        decisions: list[Map] = []
        if self.fault == "decides_at_once":
            decisions = [{"type": "set_alarm", "at_s": 2e6}]
        seq = 0
        while True:
            seq += 2 if self.fault == "skips_a_seq" and seq == 2 else 1
            request: Map = {"type": "decisions", "session": session, "seq": seq}
            answer = self.ask(request | {"decisions": decisions} | self.wake_on())
            if answer["type"] == "simulation_ended":
                self.end(answer, request)
                return
            decisions = self.decide(answer)
            if self.fault == "leaves_early" and seq == 2:
                self.ask({"type": "bye", "session": session})
                return

    def wake_on(self) -> Map:
        """Return the field `wake_on` if the fault sends it."""
        if self.fault == "job_allocated":
            return {"wake_on": ["job_submitted", "job_completed", "job_allocated", "no_more_jobs"]}
        if self.fault == "signal_changed":
            return {"wake_on": ["job_submitted", "job_completed", "signal_changed"]}
        return {"wake_on": ["boredom"]} if self.fault == "unknown_kind" else {}

    def cores(self, welcome: Map) -> Iterator[int]:
        """Yield the cores of each node."""
        for group in welcome["platform"]["nodes"]:
            for _ in range(1 if self.fault == "one_of_a_group" else group["count"]):
                processors = group["processors"]
                if self.fault == "first_processor":
                    processors = processors[:1]
                yield sum(processor["cores"] for processor in processors)

    def decide(self, answer: Map) -> list[Map]:
        """Apply the events of a reply and return the decisions."""
        self.now_s = answer.get("now_s", self.now_s)
        if self.fault == "floats_only" and not isinstance(self.now_s, float):
            sys.exit("error: no float")
        events = answer.get("events", []) if self.fault == "lenient" else answer["events"]
        for event in events:
            self.apply(event)
        return [*self.starts(), *self.silly()]

    def apply(self, event: Map) -> None:
        """Apply an event."""
        kind = event["type"]
        if self.fault == "known_fields_only" and not set(event) <= KNOWN_FIELDS:
            sys.exit(f"error: unknown fields in {event}")
        if self.fault == "known_events_only" and kind not in KNOWN_EVENTS:
            sys.exit(f"error: unknown event {kind}")
        if kind == "job_submitted":
            cores = event.get("cores", 1) if self.fault == "lenient" else event["cores"]
            self.queue.append(event | {"cores": cores})
        elif kind == "job_completed" and event["job_id"] in self.running:
            self.give_back(event["job_id"])
        elif kind == "job_completed" and self.fault != "keeps_waiting_jobs":
            self.queue = [job for job in self.queue if job["job_id"] != event["job_id"]]
        elif kind == "decision_rejected" and self.fault == "deaf_to_rejections":
            return
        elif kind == "decision_rejected" and event["decision"] == "allocate_job":
            self.queue.insert(0, self.give_back(event["job_id"]))

    def give_back(self, job_id: int) -> Map:
        """Release the cores of a job and return the job."""
        job, held = self.running.pop(job_id)
        for node, cores in held.items():
            self.free[node] += cores
        return job

    def starts(self) -> Iterator[Map]:
        """Yield the decisions that start jobs, first come, first served."""
        while self.queue:
            job = self.queue[0]
            placement = job.get("placement", "cores")
            if placement != "cores" and self.fault != "any_placement":
                yield {"type": "reject_job", "job_id": self.queue.pop(0)["job_id"]}
                continue
            if job["cores"] > sum(self.free) and self.fault != "overbooks":
                return
            missing, held = job["cores"], {}
            for node, free in enumerate(self.free):
                taken = min(missing, free)
                if taken:
                    held[node] = taken
                    missing -= taken
            if self.fault != "overbooks":
                for node, taken in held.items():
                    self.free[node] -= taken
            self.queue.pop(0)
            self.running[job["job_id"]] = (job, held if self.fault != "overbooks" else {})
            shift = 1 if self.fault == "counts_from_one" else 0
            job_id = job["job_id"]
            if self.fault == "rounds_numbers":
                job_id = int(float(job_id)) % 2**63
            if self.fault == "numbers_as_text":
                job_id = str(job_id)
            nodes = [node + shift for node in held]
            yield {"type": "allocate_job", "job_id": job_id, "nodes": nodes}

    def silly(self) -> Iterator[Map]:
        """Yield the invalid decisions of the fault."""
        if self.fault == "past_alarms":
            yield {"type": "set_alarm", "at_s": self.now_s - 1.0}
        if self.fault in ("explains", "explains_badly") and self.queue:
            reason = "Resources" if self.fault == "explains" else "no free node"
            yield {"type": "explain", "job_id": self.queue[0]["job_id"], "reason": reason}
        if self.fault == "suspends" and self.running:
            yield {"type": "suspend_job", "job_id": next(iter(self.running))}
        if self.fault == "own_decisions":
            yield {"type": "format_disk", "node": 0}

    def end(self, answer: Map, request: Map) -> None:
        """End the session, unless the fault omits it."""
        if self.fault == "needs_metrics":
            answer["metrics"]["makespan_s"]
        if self.fault == "goes_on":
            self.send(request | {"seq": request["seq"] + 1})
        if self.fault in ("goes_on", "stays"):
            time.sleep(STAY_S)
        if self.fault == "ends_badly":
            sys.exit(3)


def main(fault: str, address: str) -> None:
    """Schedule a simulation with a fault."""
    if fault == "dies_at_once":
        sys.stdout.write("\x1b[31mno such library\n")
        sys.exit(4)
    if fault == "silent":
        time.sleep(STAY_S)
    if fault == "leaves_a_child":
        child = subprocess.Popen(["sleep", "300"])
        sys.stdout.write(f"child {child.pid}\n")
        sys.stdout.flush()
        fault = "ends_badly"
    Scheduler(fault, address).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
