"""The checks of a server that are about messages, frames and sessions."""

from __future__ import annotations

import msgspec

from hpcosim_conformance import rules
from hpcosim_conformance.awkward import STRANGE
from hpcosim_conformance.probe import DELIMITER, Map, expect
from hpcosim_conformance.verdict import NotTriedError
from hpcosim_conformance.visit import Bench, Visit

NO_VERSION = 999
NOBODY = "0" * 24
MOST_BYTES = 64 * 2**20  # of a message that is sent only to be refused
MOST_DECISIONS = 1_000_000
OPTIONS = (
    "kill_at_walltime",
    "dynamic_jobs",
    "max_message_bytes",
    "max_decisions",
    "idle_timeout_s",
)
SOME_STEPS = 5
pack = msgspec.msgpack.encode

# Hello


def ping(bench: Bench) -> None:
    """A hello without versions is answered, and opens nothing."""
    answer = bench.probe.refused(
        {"type": "hello", "versions": []}, "unsupported_version", rules.PING
    )
    expect(not answer.get("fatal"), rules.PING, "its error is fatal")


def versions_refused(bench: Bench) -> None:
    """A hello of other versions only is refused, and both sides' versions are named."""
    hello = {"type": "hello", "versions": [NO_VERSION]}
    said = bench.probe.refused(hello, "unsupported_version", rules.VERSIONS)["message"]
    both = str(NO_VERSION) in said and "1" in said.replace(str(NO_VERSION), "")
    expect(both, rules.VERSIONS, f"its message does not name both sides' versions: {said}")


def version_before_all(bench: Bench) -> None:
    """A hello of a later version is refused for its version, whatever else it holds."""
    hello = {"type": "hello", "versions": [NO_VERSION], "client": 7, "nonce": [], "seed": "x"}
    bench.probe.refused(hello, "unsupported_version", rules.VERSION_FIRST)


def version_chosen(bench: Bench) -> None:
    """Of several versions the server picks the one it speaks."""
    with bench.visit(versions=[NO_VERSION, 1, 3]) as visit:
        version = visit.welcome["version"]
        expect(version == 1, rules.VERSIONS, f"it chose version {version}")


def welcome(bench: Bench) -> None:
    """The welcome of a new session says what holds."""
    with bench.visit() as visit:
        lacking = [name for name in OPTIONS if name not in visit.options]
        expect(not lacking, rules.OPTIONS, f"its options lack {', '.join(lacking)}")
        expect(bool(visit.session), rules.NAMES, "the session has no name")
        fresh = not visit.welcome.get("seq") and not visit.welcome.get("snapshot")
        expect(fresh, rules.SEQ, "a new session has a seq, or a snapshot")


def unknown_scenario(bench: Bench) -> None:
    """A hello for a scenario that is not there is refused by that name."""
    bench.probe.refused(
        bench.hello(scenario="no such scenario"), "unknown_scenario", rules.NO_SCENARIO
    )


def hello_again(bench: Bench) -> None:
    """A hello sent again with its nonce opens no second session; a changed one is refused."""
    hello = bench.hello()
    visit = bench.entered(bench.welcome(hello))
    first = bench.probe.body
    try:
        visit.step()
        bench.welcome(hello)
        expect(bench.probe.body == first, rules.NONCE, "the second welcome differs from the first")
        other = hello | {"client": "somebody else"}
        bench.probe.refused(other, "invalid_message", rules.NONCE_DIFFERS)
        visit.step()
    finally:
        bench.leave(visit.session)


def other_nonces(bench: Bench) -> None:
    """Hellos with other nonces, or with none, open sessions of their own."""
    with (
        bench.visit() as one,
        bench.visit() as two,
        bench.visit(nonce="") as three,
        bench.visit(nonce="") as four,
    ):
        names = {visit.session for visit in (one, two, three, four)}
        expect(len(names) == 4, rules.NONCE_DIFFERS, f"four hellos opened {len(names)} sessions")


# Frames


def frames_come_back(bench: Bench) -> None:
    """What stands before the body of a request comes back before that of its answer."""
    envelope = [b"request", b"\x00\x07", DELIMITER]
    bench.probe.send([*envelope, pack({"type": "hello", "versions": []})])
    *before, body = bench.probe.receive()
    bench.probe.read(body)
    expect(before == envelope, rules.ENVELOPE, f"{envelope} came back as {before}")


def no_delimiter(bench: Bench) -> None:
    """To a client without a delimiter the answer comes without one."""
    bench.probe.send([pack({"type": "hello", "versions": []})])
    *before, body = bench.probe.receive()
    bench.probe.read(body)
    expect(not before, rules.NO_DELIMITER, f"{before} came before the body")


def too_many_frames(bench: Bench) -> None:
    """A message of more than six frames is dropped, and the next is answered."""
    body = pack({"type": "hello", "versions": []})
    bench.probe.send([DELIMITER] * 6 + [body])
    bench.probe.send([b"the next", DELIMITER, body])
    frames = bench.probe.receive()
    expect(frames[0] == b"the next", rules.DROPPED, f"it answered a message of 7 frames: {frames}")


# Bad messages


def bad_messages(bench: Bench) -> None:
    """Bytes that are no message are refused, and the session is as it was."""
    with bench.visit() as visit:
        good = visit.request()
        bad: dict[str, bytes] = {
            "nothing": b"",
            "a byte of no meaning": b"\xc1",
            "JSON": msgspec.json.encode(good),
            "a byte after the message": pack(good) + b"\x00",
            "half a message": pack(good)[:-4],
            "a list": pack(["hello", [1]]),
            "a map without a type": pack({"versions": [1]}),
            "a type of no version": pack({"type": "please"}),
            "a server's message": pack({"type": "goodbye"}),
            "bytes for text": pack(good | {"session": b"x"}),
            "no session": pack({"type": "decisions", "seq": 1}),
            "no seq": pack({"type": "decisions", "session": visit.session}),
            "seq 0": pack(good | {"seq": 0}),
            "a boolean for seq": pack(good | {"seq": True}),
            "text for seq": pack(good | {"seq": "1"}),
            "a fraction for seq": pack(good | {"seq": 1.5}),
            "null for decisions": pack(good | {"decisions": None}),
            "a decision that is none": pack(good | {"decisions": [7]}),
            "a decision without its job": pack(good | {"decisions": [{"type": "kill_job"}]}),
            "time running backwards": pack(good | {"elapsed_s": -1.0}),
            "more time than there is": pack(good | {"elapsed_s": 2e15}),
        }
        for name, body in bad.items():
            answer = bench.probe.ask(body)
            code = answer.get("code", answer["type"])
            expect(code == "invalid_message", rules.INVALID, f"it answered {name} with {code}")
            expect(not answer.get("fatal"), rules.NOT_FATAL, f"its error for {name} is fatal")
        visit.step()


def unknown_decisions(bench: Bench) -> None:
    """A decision, or a kind in `wake_on`, that is not known refuses the whole message."""
    with bench.visit() as visit:
        visit.step()
        alarm = {"type": "set_alarm", "at_s": visit.now_s + 1e9, "alarm_id": 3}
        strange = visit.request(alarm, {"type": "format_disk", "node": 0})
        bench.probe.refused(strange, "invalid_message", rules.UNKNOWN_DECISIONS)
        bored = visit.request(alarm, wake_on=["boredom"])
        bench.probe.refused(bored, "invalid_message", rules.UNKNOWN_DECISIONS)
        events = visit.decide({"type": "cancel_alarm", "alarm_id": 3})
        refused = [event for event in events if event["type"] == "decision_rejected"]
        what = "the other decision of a message that it refused was carried out"
        expect(len(refused) == 1, rules.WHOLE, what)


def unknown_fields(bench: Bench) -> None:
    """Unknown fields change nothing, wherever they stand."""
    strange: Map = {"a_field_of_tomorrow": STRANGE}
    with bench.visit(seed=1, **strange) as one, bench.visit(seed=1) as two:
        one.decide(**strange)
        two.decide()
        job = two.until_a_job_waits()
        while one.seq < two.seq:
            one.step()
        allocation = two.allocation(job)
        assert allocation is not None
        answers = [
            bench.probe.ask(one.request(allocation | strange, **strange)),
            bench.probe.ask(two.request(allocation)),
        ]
        expect(answers[0] == answers[1], rules.UNKNOWN_FIELDS, "they changed the answer")


def too_large(bench: Bench) -> None:
    """A body that is a little too long is refused by name."""
    with bench.visit() as visit:
        most = visit.options.get("max_message_bytes", 0)
        if not 0 < most <= MOST_BYTES:
            raise NotTriedError(f"max_message_bytes is {most}")
        answer = bench.probe.refused(bytes(most + 1), "message_too_large", rules.TOO_LARGE)
        expect(not answer.get("fatal"), rules.NOT_FATAL, "its error is fatal")
        visit.step()


def too_many_decisions(bench: Bench) -> None:
    """A message of too many decisions is refused by name, and none is carried out."""
    with bench.visit() as visit:
        visit.step()
        most = visit.options.get("max_decisions", 0)
        request = visit.request(*[{"type": "cancel_alarm"}] * (min(most, MOST_DECISIONS) + 1))
        body = pack(request)
        if not 0 < most <= MOST_DECISIONS or len(body) > visit.options.get("max_message_bytes", 0):
            raise NotTriedError(f"max_decisions is {most}")
        answer = bench.probe.refused(body, "too_many_decisions", rules.TOO_MANY)
        named = answer.get("seq") == visit.seq + 1
        expect(named, rules.ERROR_SEQ, f"the error's seq is {answer.get('seq')}")
        visit.step()


# Sessions


def resend(bench: Bench) -> None:
    """The last request sent again gets the same bytes, and nothing happens."""
    with bench.visit() as visit:
        for _ in range(SOME_STEPS):
            request = visit.request()
            events = visit.take(bench.probe.ask(request))
            first = bench.probe.body
            for _ in range(2):
                bench.probe.ask(request)
                expect(bench.probe.body == first, rules.RESEND, "the second answer differs")
            changed = request | {"elapsed_s": 1.0}
            bench.probe.refused(changed, "out_of_order", rules.RESEND)
            if not events:
                return


def out_of_order(bench: Bench) -> None:
    """A `seq` that is not due is refused, and the one that is due still works."""
    with bench.visit() as visit:
        visit.step()
        visit.step()
        for seq in (1, visit.seq + 2, 2**63 - 1):
            answer = bench.probe.refused(
                visit.request() | {"seq": seq}, "out_of_order", rules.OUT_OF_ORDER
            )
            expect(not answer.get("fatal"), rules.NOT_FATAL, "its error is fatal")
            named = answer.get("seq") == seq
            expect(named, rules.ERROR_SEQ, f"the error's seq is {answer.get('seq')}, not {seq}")
        visit.step()


def unknown_session(bench: Bench) -> None:
    """Who names a session that never was is told so."""
    decisions = {"type": "decisions", "session": NOBODY, "seq": 1}
    bench.probe.refused(decisions, "unknown_session", rules.UNKNOWN_SESSION)
    bye = {"type": "bye", "session": NOBODY}
    bench.probe.refused(bye, "unknown_session", rules.UNKNOWN_SESSION)
    bench.probe.refused(bench.hello(session=NOBODY), "unknown_session", rules.UNKNOWN_SESSION)


def bye(bench: Bench) -> None:
    """A client may leave; the session is over then, and no other is."""
    with bench.visit() as stays:
        visit = bench.entered(bench.welcome(bench.hello()))
        visit.step()
        answer = bench.probe.ask({"type": "bye", "session": visit.session})
        expect(answer["type"] == "goodbye", rules.BYE, f"it answered bye with {answer['type']}")
        said = bench.probe.refused(visit.request(), "unknown_session", rules.BYE)
        expect(bool(said["message"]), rules.UNKNOWN_SESSION, "it does not say why")
        stays.step()


def coming_back(bench: Bench) -> None:
    """A client that comes back is told where it is, twice if it likes, and goes on."""
    with bench.visit() as visit:
        visit.until(lambda here: here.running and here.seq > SOME_STEPS, "a job runs")
        for _ in range(2):
            _check_snapshot(visit, bench.welcome(bench.hello(session=visit.session)))
        visit.step()


def _check_snapshot(visit: Visit, welcome: Map) -> None:
    rule = rules.COMING_BACK
    expect(welcome["session"] == visit.session, rule, "it came back to another session")
    told = (welcome.get("seq"), welcome.get("now_s"))
    what = f"seq and now_s are {told}, not {(visit.seq, visit.now_s)}"
    expect(told == (visit.seq, visit.now_s), rule, what)
    snapshot = welcome.get("snapshot") or [{"type": "nothing"}]
    began = snapshot[0]["type"] == "simulation_began"
    expect(began, rule, f"its snapshot begins with {snapshot[0]['type']}")
    jobs = [event["job_id"] for event in snapshot if event["type"] == "job_submitted"]
    still = {*visit.waiting, *visit.running}
    due = [e["job_id"] for e in visit.log if e["type"] == "job_submitted" and e["job_id"] in still]
    expect(jobs == due, rule, f"its snapshot has the jobs {jobs}, not {due}")
    started = {event["job_id"] for event in snapshot if event["type"] == "job_started"}
    heard = {event["job_id"] for event in visit.log if event["type"] == "job_started"}
    what = f"its snapshot has the starts of {sorted(started)}, not all of {sorted(visit.running)}"
    expect(heard & set(visit.running) <= started <= set(visit.running), rule, what)
