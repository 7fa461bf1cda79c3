"""The report of a journal of mode place: decisions, what became of them, and the fall-back."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from hpcosim_protocol import AllocateJob, Decision, Decisions, Hello, KillJob, SetAlarm
from hpcosim_slurm.journal import (
    FORMAT,
    AnyRecord,
    Asked,
    Began,
    FellBack,
    Opened,
    Refused,
    Seen,
)
from hpcosim_slurm.report.export import ActingFigures, Reported, report_of, write_folders
from hpcosim_slurm.worlds.difference import NO_STATE, difference
from hpcosim_slurm.worlds.site import Site
from support.fake_cluster import EPOCH_S, FakeCluster

SITE = Site(
    name="fake", partitions=("main",), mode="place", waiting=("queue",), start_timeout_s=5.0
)
WHY = "4 decisions in a row were rejected"


class Story:
    """A journal that a test tells, of a cluster with two nodes."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(nodes=2, starts=False)
        self.records: list[AnyRecord] = [
            Began(at_s=EPOCH_S, format=FORMAT, hpcosim="test", mode="place", site=SITE)
        ]
        self._state = NO_STATE
        self._seq = 0

    def look(self, after_s: float) -> None:
        """Let time pass and the bridge look at the cluster."""
        self.cluster.advance(self.cluster.now_s + after_s)
        before, self._state = self._state, self.cluster.state()
        change = difference(before, self._state, self.cluster.now_s)
        self.records.append(Seen(at_s=self.cluster.now_s, change=change))

    def open(self) -> None:
        """Let a scheduler open a session."""
        hello = Hello(versions=[1], client="mine", workload_manager=True)
        self.records.append(Opened(at_s=self.cluster.now_s, session="s", hello=hello))

    def ask(self, *decisions: Decision) -> None:
        """Let the scheduler decide."""
        self._seq += 1
        request = Decisions(session="s", seq=self._seq, decisions=list(decisions))
        self.records.append(Asked(at_s=self.cluster.now_s, request=request))

    def refuse(self, index: int, words: str) -> None:
        """Let Slurm refuse a decision of the last request."""
        now_s = self.cluster.now_s
        self.records.append(Refused(at_s=now_s, seq=self._seq, index=index, words=words))

    def start(self, job: int, node: str) -> None:
        """Let Slurm start a job."""
        self.cluster.jobs[job] = replace(
            self.cluster.jobs[job],
            state="running",
            slurm_state="RUNNING",
            started_s=self.cluster.now_s,
            nodes=(node,),
        )


@pytest.fixture
def reported() -> Reported:
    """The report of 40 s in which five decisions on starts had five outcomes."""
    story = Story()
    cluster = story.cluster
    one, two, three, four, other = (cluster.submit(run_s=10.0) for _ in range(5))
    story.look(0.0)
    story.open()
    story.ask(AllocateJob(one, [0]), AllocateJob(two, [0]), AllocateJob(three, [1]))
    story.refuse(2, "Access denied")
    cluster.now_s += 2.0
    story.start(one, "node1")
    story.look(0.0)
    story.ask(AllocateJob(four, [0]), SetAlarm(EPOCH_S + 900.0, 1))
    story.look(6.0)
    story.ask(AllocateJob(two, [0]))
    cluster.cancel(two)
    story.look(4.0)  # job 1 ends
    story.start(other, "node0")
    story.look(1.0)
    story.ask(KillJob(other))
    cluster.advance(EPOCH_S + 40.0)
    story.records.append(FellBack(at_s=EPOCH_S + 40.0, why=WHY))
    return report_of(story.records, 1.0)


def figures_in(reported: Reported) -> ActingFigures:
    """Return the figures of a report."""
    assert isinstance(reported.figures, ActingFigures)
    return reported.figures


def test_each_decision_has_one_outcome(reported: Reported) -> None:
    """One start is seen, one is a mistake, one is refused, one is late, and one is overtaken."""
    it = figures_in(reported)
    starts, kills = it.outcomes["allocate_job"], it.outcomes["kill_job"]
    assert (starts.decided, starts.carried_out, starts.delay_s.mean) == (5, 1, 2.0)
    assert (starts.invalid, starts.refused, starts.not_carried_out, starts.overtaken) == (1,) * 4
    assert (kills.decided, kills.open) == (1, 1)
    assert (it.requests, it.decisions) == (4, 7)


def test_failures_have_the_words_of_slurm(reported: Reported) -> None:
    """So has the mistake of the scheduler those of the bridge."""
    found = {each.fate: each.words for each in figures_in(reported).failures}
    assert found["refused"] == "Slurm: Access denied"
    assert found["not_carried_out"].startswith("Slurm has not started the job within 5 s")
    assert "node 0" in found["invalid"]


def test_starts_are_compared_with_decisions(reported: Reported) -> None:
    """The start came 2 s after the decision, on another node; Slurm started one job by itself."""
    it = figures_in(reported)
    assert (it.in_time, it.node_match, it.not_decided) == (0.0, 0.0, 1)
    # One job runs for 10 s, the other from 12 to 40 s.
    assert it.slurm.utilization == pytest.approx((10.0 + 28.0) / 80.0)


def test_the_text_has_the_fall_back_and_its_cause(reported: Reported) -> None:
    """People read what went wrong, and when."""
    assert f"fall-back              2027-01-15 08:00:40 UTC: {WHY}" in reported.text
    assert "1 allocate_job refused by Slurm: Slurm: Access denied" in reported.text


def test_the_folder_has_both_runs_and_a_table_of_decisions(
    reported: Reported, tmp_path: Path
) -> None:
    """One run starts at the decision, the other when Slurm started it."""
    decided, slurm = write_folders(reported, tmp_path, "test")
    starts = []
    for folder in (decided, slurm):
        with (folder / "jobs.csv").open() as file:
            first = next(csv.DictReader(file))
        starts.append((first["start_s"], first["nodes"]))
    assert starts == [("0.0", "0"), ("2.0", "1")]
    with (tmp_path / "decisions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["outcome"] for row in rows][:3] == ["carried_out", "invalid", "refused"]
    assert (rows[0]["delay_s"], rows[0]["nodes"], rows[0]["nodes_in_slurm"]) == (
        *("2.000", "node0", "node1"),
    )
