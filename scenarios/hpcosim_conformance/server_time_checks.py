"""The checks of a server that are about decisions, time and the end."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_conformance import rules
from hpcosim_conformance.probe import Map, expect
from hpcosim_conformance.verdict import NotTriedError
from hpcosim_conformance.visit import MOST_REQUESTS, Bench, Visit

NO_JOB = 2**62
STEPS_COMPARED = 200
STEPS_APART = 20
LONG_S = 1e6


def first_events(bench: Bench) -> None:
    """The first events are that the simulation began, and the first submissions."""
    with bench.visit() as visit:
        began_s = visit.now_s
        kinds = [event["type"] for event in visit.decide()]
        expect(kinds[:1] == ["simulation_began"], rules.BEGAN, f"its first events are {kinds[:3]}")
        stands = visit.log[0]["time_s"] == began_s
        expect(stands, rules.BEGAN, "time did not stand at the first submission")


# Decisions


def rejected_decisions(bench: Bench) -> None:
    """What can't be carried out is rejected one by one, by name, at once; the rest stands."""
    with bench.visit() as visit:
        job = visit.until_a_job_waits()["job_id"]
        after_s, nodes = visit.now_s + LONG_S, len(visit.capacity)
        due: Sequence[tuple[Map, str]] = (
            ({"type": "allocate_job", "job_id": NO_JOB, "nodes": [0]}, "unknown_job"),
            ({"type": "allocate_job", "job_id": job, "nodes": [nodes]}, "unknown_node"),
            ({"type": "allocate_job", "job_id": job, "nodes": []}, "bad_allocation"),
            ({"type": "allocate_job", "job_id": job, "nodes": [0, 0]}, "bad_allocation"),
            ({"type": "set_alarm", "at_s": after_s, "alarm_id": 5}, ""),
            ({"type": "kill_job", "job_id": job}, "job_not_running"),
            ({"type": "reject_job", "job_id": NO_JOB}, "unknown_job"),
            ({"type": "set_alarm", "at_s": visit.now_s, "alarm_id": 6}, "bad_time"),
            ({"type": "cancel_alarm", "alarm_id": 77}, "unknown_alarm"),
            ({"type": "set_node_power", "node": nodes, "state": "sleeping"}, "unknown_node"),
        )
        before_s = visit.now_s
        events = visit.decide(*(decision for decision, _ in due), wake_on=[])
        expect(visit.now_s == before_s, rules.ALWAYS_WAKES, "time passed beside rejected decisions")
        told = {e["index"]: e for e in events if e["type"] == "decision_rejected"}
        for index, (decision, code) in enumerate(due):
            event = told.get(index, {})
            said, what = event.get("code", ""), f"{decision}: {event.get('code') or 'not rejected'}"
            expect(said == code, rules.REJECTION if code else rules.OTHERS_STAND, what)
            if event:
                _check_names(event, decision, visit.seq)
        left = visit.decide({"type": "cancel_alarm", "alarm_id": 5}, wake_on=["no_more_jobs"])
        gone = any(event["type"] == "decision_rejected" for event in left)
        expect(not gone, rules.OTHERS_STAND, "the alarm set beside rejected decisions is not set")


def _check_names(event: Map, decision: Map, seq: int) -> None:
    named = (event["seq"], event["decision"], event.get("job_id"))
    due = (seq, decision["type"], decision.get("job_id"))
    expect(named == due, rules.REJECTION, f"a rejection names {named}, not {due}")


def decisions_in_turn(bench: Bench) -> None:
    """Later decisions see what earlier ones did, and each leaves its echo in that order."""
    with bench.visit() as visit:
        job = visit.until_a_job_waits()
        allocation = visit.allocation(job)
        assert allocation is not None
        number = job["job_id"]
        kill = {"type": "kill_job", "job_id": number}
        events = visit.decide(allocation, allocation, kill, kill)
        ours = [
            event["code"] if event["type"] == "decision_rejected" else event["type"]
            for event in events
            if event.get("job_id") == number
        ]
        due = ["job_started", "job_not_waiting", "job_completed", "job_not_running"]
        told = [kind for kind in ours if kind != "job_allocated"]
        expect(told == due, rules.IN_TURN, f"starting and killing a job twice brought {ours}")


def reject_job(bench: Bench) -> None:
    """A job that is turned away is over at once."""
    with bench.visit() as visit:
        number = visit.until_a_job_waits()["job_id"]
        before_s = visit.now_s
        events = visit.decide({"type": "reject_job", "job_id": number})
        over = {"type": "job_completed", "time_s": before_s, "job_id": number, "state": "rejected"}
        expect(over in events, rules.IN_TURN, f"rejecting job {number} brought {events[:2]}")


def submit_job(bench: Bench) -> None:
    """A job may be added where the options say so, and nowhere else."""
    with bench.visit() as visit:
        visit.until_a_job_waits()
        job = {"type": "submit_job", "job_id": NO_JOB, "cores": 1, "run_s": 5.0}
        events = visit.decide(job, job)
        codes = [event["code"] for event in events if event["type"] == "decision_rejected"]
        if not visit.options.get("dynamic_jobs"):
            what = f"without the option, submit_job brought {codes}"
            expect(codes == ["not_allowed"] * 2, rules.DYNAMIC, what)
            return
        told = [event for event in events if event.get("job_id") == NO_JOB]
        expect(
            bool(told) and told[0]["type"] == "job_submitted", rules.IN_TURN, f"it brought {told}"
        )
        expect(codes == ["job_exists"], rules.REJECTION, f"submitting it twice brought {codes}")


def node_power(bench: Bench) -> None:
    """A node is switched off and on through the states, in the times, that are specified."""
    with bench.visit() as visit:
        visit.decide()
        node, states = _switchable(visit)
        if node is None:
            events = visit.decide(_switch(0, "sleeping"))
            codes = [event["code"] for event in events if event["type"] == "decision_rejected"]
            expect(codes == ["not_allowed"], rules.NO_POWER, f"it brought {codes}")
            return
        _follow(visit, node, "sleeping")
        _follow(visit, node, "on")
        told = [(event["state"], event["time_s"]) for event in _power_of(visit, node)]
        path = [state for state, _ in told]
        due = ["switching_off", "sleeping", "switching_on", "on"]
        expect(path == due, rules.POWER, f"node {node} was {', '.join(path)}")
        if not states.get("switch_off_sd_s"):
            took_s, due_s = told[1][1] - told[0][1], states["switch_off_s"]
            late = abs(took_s - due_s) > 1e-6 * max(1.0, due_s, told[0][1])
            expect(not late, rules.POWER, f"it took {took_s} s to switch off, not {due_s} s")


def allocation_of_a_sleeping_node(bench: Bench) -> None:
    """A job that is given a node that sleeps starts once it is on, if that is allowed at all."""
    with bench.visit() as visit:
        visit.decide()
        node, _ = _switchable(visit)
        if node is None:
            raise NotTriedError("no node of the scenario has power_states")
        _follow(visit, node, "sleeping")
        most = visit.capacity[node]
        small = "a job waits that the node could run"
        visit.until(lambda here: _smaller(here, most) is not None, small, idle=True)
        number = _smaller(visit, most)
        assert number is not None
        events = visit.decide({"type": "allocate_job", "job_id": number, "nodes": [node]})
        if not visit.options.get("wake_on_allocation"):
            codes = [event["code"] for event in events if event["type"] == "decision_rejected"]
            what = f"without wake_on_allocation it brought {codes}"
            expect(codes == ["wrong_power_state"], rules.NO_WAKING, what)
            return
        _follow(visit, node, "")
        ours = [event for event in visit.log if event.get("job_id") == number][1:3]
        kinds = [event["type"] for event in ours]
        what = f"job {number}, given node {node}, which slept, brought {kinds}"
        expect(kinds == ["job_allocated", "job_started"], rules.ALLOCATED, what)
        same = all(ours[0][name] == ours[1][name] for name in ("nodes", "cores"))
        on_s = _power_of(visit, node)[-1]["time_s"]
        expect(same, rules.ALLOCATED, f"it started elsewhere than it was allocated: {ours}")
        started_s = ours[1]["time_s"]
        what = f"it started at {started_s} s, and the node was on at {on_s} s"
        expect(started_s == on_s, rules.ALLOCATED, what)


def _switchable(visit: Visit) -> tuple[int | None, Map]:
    """Return the first node that can be switched off, and how; None: there is none."""
    groups = visit.welcome["platform"]["nodes"]
    kinds = [group.get("power_states") for group in groups for _ in range(group["count"])]
    return next(((node, states) for node, states in enumerate(kinds) if states), (None, {}))


def _switch(node: int, state: str) -> Map:
    return {"type": "set_node_power", "node": node, "state": state}


def _power_of(visit: Visit, node: int) -> list[Map]:
    """Return what was told of a node's power states so far."""
    return [e for e in visit.log if e["type"] == "node_power_changed" and e["node"] == node]


def _smaller(visit: Visit, most: int) -> int | None:
    """Return the number of a waiting job of so many cores at most, if there is one."""
    return next((job["job_id"] for job in visit.waiting.values() if job["cores"] <= most), None)


def _follow(visit: Visit, node: int, state: str) -> None:
    """Switch a node, try in vain to switch it on meanwhile, and wait until it is switched.

    Args:
        visit: the session.
        node: which.
        state: where to; empty: it is being switched.
    """
    if state:
        events = visit.decide(_switch(node, state), _switch(node, "on"))
        codes = [event["code"] for event in events if event["type"] == "decision_rejected"]
        what = f"switching a node twice at once brought {codes}"
        expect(codes == ["wrong_power_state"], rules.POWER, what)
    for _ in range(MOST_REQUESTS):
        told = _power_of(visit, node)
        expect(bool(told), rules.POWER, f"it tells nothing of node {node} being switched")
        if told[-1]["state"] in ("sleeping", "on"):
            return
        visit.decide(wake_on=["node_power_changed"])
    raise NotTriedError(f"node {node} is not switched within {MOST_REQUESTS} requests")


# Time


def alarms(bench: Bench) -> None:
    """Alarms go off at their time and are gone; one of the same number is replaced."""
    with bench.visit() as visit:
        visit.until_a_job_waits()
        now_s = visit.now_s
        times = {1: now_s + 4.0, 2: now_s + 2.0, 3: now_s + 4.0}
        sets = [_alarm(1, now_s + 1.0)] + [_alarm(number, at_s) for number, at_s in times.items()]
        visit.decide(*sets, _alarm(4, now_s + 3.0), _cancel(4), wake_on=[])
        _expect_alarms(visit, [(2, times[2])])
        visit.decide(wake_on=[])
        _expect_alarms(visit, [(1, times[1]), (3, times[3])])
        codes = [event.get("code") for event in visit.decide(_cancel(1), wake_on=[])]
        expect("unknown_alarm" in codes, rules.ALARM, "an alarm that went off can be cancelled")


def _alarm(number: int, at_s: float) -> Map:
    return {"type": "set_alarm", "alarm_id": number, "at_s": at_s}


def _cancel(number: int) -> Map:
    return {"type": "cancel_alarm", "alarm_id": number}


def _expect_alarms(visit: Visit, due: Sequence[tuple[int, float]]) -> None:
    """Check what alarms the last answer had."""
    heard = [
        (event["alarm_id"], event["time_s"])
        for event in visit.log
        if event["type"] == "alarm" and event["time_s"] == visit.now_s
    ]
    woke = visit.now_s == due[0][1]
    expect(woke and heard == list(due), rules.ALARM, f"at {visit.now_s} s alarms were {heard}")


def wake_on(bench: Bench) -> None:
    """An empty `wake_on` leaves alarms to wake for, and nothing that happens meanwhile is lost."""
    with bench.visit(seed=2) as asleep, bench.visit(seed=2) as awake:
        for visit in (asleep, awake):
            visit.decide()
        at_s = awake.now_s + LONG_S
        alarm = _alarm(9, at_s)
        asleep.decide(alarm, wake_on=[])
        expect(
            asleep.now_s == at_s, rules.ALWAYS_WAKES, f"it woke at {asleep.now_s} s, not {at_s} s"
        )
        awake.decide(alarm)
        for _ in range(MOST_REQUESTS):
            if awake.now_s >= at_s:
                break
            awake.decide()
        else:
            raise NotTriedError(f"{LONG_S:g} s take more than {MOST_REQUESTS} requests")
        same = asleep.log == awake.log
        expect(same, rules.NOT_LOST, "what happened while it was not to be woken is not all told")


def elapsed(bench: Bench) -> None:
    """The time that thinking took passes before the decisions."""
    with bench.visit() as visit:
        visit.until_a_job_waits()
        due_s = visit.now_s + 1.5
        events = visit.decide(_cancel(55), elapsed_s=1.5)
        passed = visit.now_s == due_s and {event["time_s"] for event in events[-1:]} == {due_s}
        expect(passed, rules.ELAPSED, f"after 1.5 s it is {visit.now_s} s, not {due_s} s")


def same_again(bench: Bench) -> None:
    """The same seed and requests give the same answers, byte for byte."""
    with bench.visit(seed=5) as one, bench.visit(seed=5) as two:
        for _ in range(STEPS_COMPARED):
            one.step()
            body = bench.probe.body
            two.step()
            what = f"the answers to seq {one.seq} differ"
            expect(bench.probe.body == body, rules.SAME_AGAIN, what)
            if one.metrics is not None:
                return


def sessions_apart(bench: Bench) -> None:
    """What one client does is nothing to another in a session like its own."""
    with bench.visit(seed=6) as alone:
        due = [_answer_to_a_step(alone) for _ in range(STEPS_APART)]
    with bench.visit(seed=6) as one, bench.visit(seed=6) as other:
        for number, body in enumerate(due):
            same = _answer_to_a_step(one) == body
            expect(same, rules.APART, f"beside another, its answer to seq {one.seq} differs")
            if other.metrics is None:
                turned_away = [{"type": "reject_job", "job_id": job} for job in other.waiting]
                other.decide(*turned_away, elapsed_s=float(number))


def _answer_to_a_step(visit: Visit) -> bytes:
    """Return the answer to the next step, as it came; none where the simulation is over."""
    if visit.metrics is not None:
        return b""
    visit.step()
    return visit.probe.body


# The end


def end(bench: Bench) -> None:
    """When every job is over the simulation ends, and the last answer can still be had."""
    with bench.visit() as visit:
        visit.until(lambda here: here.metrics is not None or _over(here), "every job is over")
        request = visit.request()
        events = visit.take(bench.probe.ask(request))
        expect(not events, rules.END, f"when every job was over it sent {events[:2]}")
        last = bench.probe.body
        bench.probe.ask(request | {"elapsed_s": 3.0})  # by its seq alone
        expect(bench.probe.body == last, rules.LAST_ANSWER, "the last answer is not sent again")
        bench.probe.refused(visit.request(), "unknown_session", rules.END)


def _over(visit: Visit) -> bool:
    """Tell whether nothing is left to be done, as far as was told."""
    all_came = any(event["type"] == "no_more_jobs" for event in visit.log)
    return all_came and not visit.waiting and not visit.running


def stuck(bench: Bench) -> None:
    """A scheduler that lets nothing happen any more is told so, and its session is over."""
    with bench.visit() as visit:
        for _ in range(MOST_REQUESTS):
            answer = bench.probe.ask(visit.request())
            if answer["type"] == "error":
                break
            if not visit.take(answer):
                raise NotTriedError("the scenario ends without a single job to wait")
        else:
            raise NotTriedError(f"submissions take more than {MOST_REQUESTS} requests")
        code = answer["code"]
        expect(code == "simulation_stuck", rules.STUCK, f"it answered with the error {code}")
        expect(bool(answer.get("fatal")), rules.FATAL, "the error is not fatal")
        named = answer.get("seq") == visit.seq + 1
        expect(named, rules.ERROR_SEQ, f"the error's seq is {answer.get('seq')}")
        visit.seq += 1
        bench.probe.refused(visit.request(), "unknown_session", rules.FATAL)
