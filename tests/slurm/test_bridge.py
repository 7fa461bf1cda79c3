"""The bridge: sessions, wake-ups, alarms, copies of requests and schedulers that come back."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import (
    Alarm,
    AllocateJob,
    Bye,
    Decisions,
    Error,
    Events,
    GetStatus,
    Goodbye,
    Hello,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    NodeFailed,
    ServerStatus,
    SetAlarm,
    SimulationBegan,
    Welcome,
)
from hpcosim_protocol.server_messages import Held
from hpcosim_sim.engine.simulation import snapshot_of
from hpcosim_slurm.errors import JournalError
from support.bridges import CLIENT, Talk, bridge_of
from support.examples import examples
from support.fake_cluster import EPOCH_S, FakeCluster


def pass_s(talk: Talk, cluster: FakeCluster, seconds: float) -> None:
    """Let time pass, and let the bridge look at the cluster."""
    cluster.advance(cluster.now_s + seconds)
    talk.bridge.note(cluster.state())


def test_a_welcome_describes_the_cluster() -> None:
    """The platform has the nodes with their names, and time is Unix time."""
    welcome = Talk(bridge_of(FakeCluster(nodes=3, cpus=2))).welcome
    (group,) = welcome.platform.nodes
    assert (group.count, group.names, group.cores) == (3, "node[0-2]", 2)
    assert welcome.now_s == EPOCH_S
    assert welcome.options.kill_at_walltime
    assert welcome.options.realtime


def test_a_reply_waits_for_an_event() -> None:
    """A request gets its reply when an event wakes the scheduler, with all events since."""
    cluster = FakeCluster()
    talk = Talk(bridge_of(cluster))
    assert talk.decide() == [SimulationBegan(EPOCH_S)]
    assert talk.decide() == []
    pass_s(talk, cluster, 5.0)
    assert talk.due() == []
    cluster.submit()
    pass_s(talk, cluster, 1.0)
    (event,) = talk.due()
    assert isinstance(event, JobSubmitted)
    assert event.time_s == EPOCH_S + 6.0


def test_wake_on_decides_what_wakes() -> None:
    """An event that is not in `wake_on` comes with the next one that is."""
    cluster = FakeCluster()
    talk = Talk(bridge_of(cluster))
    talk.decide()
    assert talk.decide(wake_on=["node_failed"]) == []
    cluster.submit()
    pass_s(talk, cluster, 1.0)
    assert talk.due() == []
    cluster.fail("node2")
    pass_s(talk, cluster, 1.0)
    assert [type(event) for event in talk.due()] == [JobSubmitted, NodeFailed]


def test_alarms_are_timers_of_the_wall_clock() -> None:
    """An alarm goes off at its Unix time, between two looks at the cluster."""
    cluster = FakeCluster()
    talk = Talk(bridge_of(cluster))
    talk.decide()
    assert talk.decide(SetAlarm(EPOCH_S + 3.0, 7)) == []
    assert talk.bridge.next_s() == 3.0
    cluster.now_s += 3.0
    assert talk.due() == [Alarm(EPOCH_S + 3.0, 7)]


def test_an_alarm_that_came_while_the_scheduler_decided_goes_off_at_once() -> None:
    """A scheduler knows only the time of the last reply: an alarm after that is not refused."""
    cluster = FakeCluster()
    talk = Talk(bridge_of(cluster))
    talk.decide()
    cluster.now_s += 5.0
    assert talk.decide(SetAlarm(EPOCH_S + 3.0)) == []
    cluster.now_s += 0.001
    (event,) = talk.due()
    assert isinstance(event, Alarm)
    assert talk.decide(SetAlarm(EPOCH_S + 4.0))  # a real mistake is rejected


def test_a_decision_starts_a_job_in_the_shadow() -> None:
    """A job that the scheduler starts ends after its real run time; the cluster is untouched."""
    cluster = FakeCluster()
    talk = Talk(bridge_of(cluster))
    talk.decide()
    job = cluster.submit(run_s=10.0)
    talk.decide()
    pass_s(talk, cluster, 1.0)
    assert talk.due()
    before = cluster.jobs[job]
    assert talk.decide(AllocateJob(job, [3])) == []
    assert cluster.jobs[job] == before
    pass_s(talk, cluster, 20.0)
    assert talk.due() == [
        JobStarted(EPOCH_S + 1.0, job, [3], [1]),
        JobCompleted(EPOCH_S + 21.0, job, "completed"),
    ]


def test_copies_of_a_waiting_request_get_held() -> None:
    """A client that understands `held` gets it for each copy; the last copy gets the reply."""
    cluster = FakeCluster()
    talk = Talk(bridge_of(cluster), held_replies=True)
    talk.decide()
    assert talk.decide() == []
    copy = Decisions(session=talk.welcome.session, seq=2)
    assert talk.say(copy) == Held(seq=2, now_s=EPOCH_S)
    cluster.submit()
    talk.bridge.note(cluster.state())
    assert talk.due()
    assert isinstance(talk.say(copy), Events)  # the last answer again


def test_a_wrong_number_is_out_of_order() -> None:
    """A request that is neither the next one nor a copy has no effect."""
    talk = Talk(bridge_of(FakeCluster()))
    reply = talk.say(Decisions(session=talk.welcome.session, seq=3))
    assert isinstance(reply, Error)
    assert reply.code == "out_of_order"
    assert talk.decide()


def test_a_second_scheduler_is_refused_by_name() -> None:
    """While a scheduler is connected, the bridge names it to another one."""
    talk = Talk(bridge_of(FakeCluster()), client="easy")
    reply = talk.say(Hello(versions=[1], client="fcfs"), (b"other",))
    assert isinstance(reply, Error)
    assert reply.code == "too_many_sessions"
    assert "'easy'" in reply.message
    talk.bridge.left(b"client")
    assert isinstance(talk.say(Hello(versions=[1], client="fcfs"), (b"other",)), Welcome)


def test_bye_closes_the_session() -> None:
    """After `bye`, another scheduler is welcome."""
    talk = Talk(bridge_of(FakeCluster()))
    assert talk.say(Bye(session=talk.welcome.session)) == Goodbye()
    assert Talk(talk.bridge).decide()


def test_a_scheduler_that_comes_back_gets_a_snapshot() -> None:
    """A resumed session has the jobs and nodes as they are in the shadow."""
    cluster = FakeCluster()
    job = cluster.submit(run_s=100.0, limit_s=200.0)
    talk = Talk(bridge_of(cluster))
    talk.decide()
    cluster.fail("node3")
    cluster.submit()
    pass_s(talk, cluster, 1.0)
    welcome = talk.say(Hello(versions=[1], session=talk.welcome.session), (b"again",))
    assert isinstance(welcome, Welcome)
    assert [type(event) for event in welcome.snapshot] == [
        SimulationBegan, NodeFailed, JobSubmitted, JobSubmitted, JobStarted,
    ]  # fmt: skip
    assert welcome.seq == 1
    assert welcome.snapshot[-1] == JobStarted(EPOCH_S, job, [0], [1])


def test_a_new_session_adopts_what_runs() -> None:
    """A scheduler that was replaced leaves nothing behind: the next one sees the real cluster."""
    cluster = FakeCluster(nodes=2)
    talk = Talk(bridge_of(cluster))
    talk.decide()
    job = cluster.submit(run_s=100.0, limit_s=200.0)
    pass_s(talk, cluster, 1.0)
    talk.decide()
    talk.decide(AllocateJob(job, [1]))
    talk.bridge.left(CLIENT[0])
    events = Talk(talk.bridge).decide()
    assert events[-1] == JobStarted(EPOCH_S, job, [0], [1])


def test_a_bridge_rebuilds_its_state_from_its_journal(tmp_path: Path) -> None:
    """A bridge that starts again knows the session, its alarms and jobs, and repeats the reply."""
    cluster = FakeCluster()
    journal = tmp_path / "journal"
    talk = Talk(bridge_of(cluster, journal))
    talk.decide()
    job = cluster.submit(run_s=10.0)
    talk.decide()
    pass_s(talk, cluster, 1.0)
    assert talk.due()
    assert talk.decide(AllocateJob(job, [2]), SetAlarm(EPOCH_S + 30.0)) == []
    talk.bridge.close()
    talk.bridge = bridge_of(cluster, journal)
    pass_s(talk, cluster, 10.0)
    for _ in talk.bridge.due():
        raise AssertionError("nobody has asked this bridge yet")
    copy = Decisions(
        session=talk.welcome.session,
        seq=talk.seq,
        decisions=[AllocateJob(job, [2]), SetAlarm(EPOCH_S + 30.0)],
    )
    reply = talk.say(copy)
    assert isinstance(reply, Events)
    assert [type(event) for event in reply.events] == [JobStarted, JobCompleted]
    assert talk.decide() == []
    cluster.now_s = EPOCH_S + 30.0
    assert talk.due() == [Alarm(EPOCH_S + 30.0, 0)]


@pytest.mark.slow
@given(st.integers(0, 2**32))
@examples(5)
def test_a_journal_rebuilds_any_state(seed: int) -> None:
    """After random events and decisions, a bridge that starts again is in the same state."""
    with TemporaryDirectory() as folder:
        journal, draw = Path(folder) / "journal", Random(seed)
        cluster = FakeCluster(nodes=3)
        talk = Talk(bridge_of(cluster, journal))
        talk.ask()
        for _ in range(60):
            happen(cluster, draw)
            talk.bridge.note(cluster.state())
            session = talk.bridge.course.session
            assert session is not None
            if talk.due():
                waiting = list(session.world.engine.jobs.waiting)
                jobs = [AllocateJob(job, [draw.randrange(3)]) for job in waiting]
                talk.ask(*jobs, SetAlarm(cluster.now_s + draw.uniform(1.0, 9.0)))
        talk.bridge.close()
        before, after = talk.bridge.course.session, bridge_of(cluster, journal).course.session
        assert before is not None
        assert after is not None
        for each in (before, after):
            each.world.pass_to(cluster.now_s)
        assert (after.seq, after.last_answer) == (before.seq, before.last_answer)
        engines = before.world.engine, after.world.engine
        assert engines[0].alarms.times_s() == engines[1].alarms.times_s()
        assert snapshot_of(engines[0]) == snapshot_of(engines[1])
        assert engines[0].outbox.events == engines[1].outbox.events


def happen(cluster: FakeCluster, draw: Random) -> None:
    """Let something random happen in a cluster."""
    cluster.advance(cluster.now_s + draw.uniform(0.0, 5.0))
    action, node = draw.randrange(6), draw.choice(cluster.names)
    if action < 3:
        cluster.submit(run_s=draw.uniform(1.0, 20.0))
    elif action == 3:
        draw.choice((cluster.fail, cluster.drain, cluster.repair))(node)
    else:
        open_jobs = [job.id for job in cluster.jobs.values() if job.state == "running"]
        if open_jobs:
            draw.choice((cluster.cancel, cluster.requeue))(draw.choice(open_jobs))


def test_a_journal_that_is_cut_off_is_continued(tmp_path: Path) -> None:
    """A record whose line was not written to its end is left out, and the next one is whole."""
    cluster = FakeCluster()
    journal = tmp_path / "journal"
    talk = Talk(bridge_of(cluster, journal))
    talk.decide()
    talk.bridge.close()
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"record":"asked","at_')
    bridge_of(cluster, journal)
    assert journal.read_bytes() == whole


def test_a_second_bridge_cannot_write_to_a_journal(tmp_path: Path) -> None:
    """The journal of a bridge is locked until the bridge closes it."""
    cluster, path = FakeCluster(), tmp_path / "journal"
    first = bridge_of(cluster, path)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another bridge writes to this journal; end it"):
        bridge_of(cluster, path)
    assert path.read_bytes() == before
    first.close()
    bridge_of(cluster, path).close()


def test_the_status_names_the_scheduler() -> None:
    """`hpcosim status` shows the session without its secret name."""
    talk = Talk(bridge_of(FakeCluster()), client="easy")
    status = talk.say(GetStatus())
    assert isinstance(status, ServerStatus)
    assert [each.scheduler for each in status.sessions] == ["easy"]
    assert status.sessions[0].label in talk.welcome.session
