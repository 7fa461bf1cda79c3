"""The report of a journal: the scheduler's shadow beside what Slurm did."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    Event,
    Explain,
    JobCompleted,
    JobStarted,
    JobSubmitted,
    SetAlarm,
)
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.journal import read
from hpcosim_slurm.report.export import (
    Comparison,
    Reported,
    last_session,
    report_of,
    report_of_shadow,
    write_folders,
)
from hpcosim_view.run.folder import read_folder
from support.bridges import Talk, bridge_of
from support.fake_cluster import EPOCH_S, FakeCluster

NODES = 3


class Fcfs:
    """Starts one-core jobs in order, each a time after it was submitted.

    Args:
        late_s: that time, s.
        last_first: whether it prefers the last free node to the first.
    """

    def __init__(self, late_s: float, last_first: bool) -> None:
        self.late_s = late_s
        self.queue: list[JobSubmitted] = []
        self.free = set(range(NODES))
        self.where: dict[int, int] = {}
        self.last_first = last_first

    def decide(self, events: list[Event]) -> list[Decision]:
        """Return decisions after some events."""
        decisions: list[Decision] = []
        for event in events:
            if isinstance(event, JobSubmitted):
                self.queue.append(event)
                decisions.append(Explain(event.job_id, "Resources", event.time_s + 5.0))
                if self.late_s:
                    decisions.append(SetAlarm(event.time_s + self.late_s, event.job_id))
            elif isinstance(event, JobStarted):
                self.where[event.job_id] = event.nodes[0]
            elif isinstance(event, JobCompleted):
                self.free.add(self.where[event.job_id])
        now_s = events[-1].time_s
        while self.queue and self.free and self.queue[0].time_s + self.late_s <= now_s:
            node = (max if self.last_first else min)(self.free)
            self.free.remove(node)
            decisions.append(AllocateJob(self.queue.pop(0).job_id, [node]))
        return decisions


def watched(journal: Path, *, late_s: float = 0.0, last_first: bool = False) -> Reported:
    """Return the report of a minute in which six jobs were submitted; see `Fcfs`."""
    cluster = FakeCluster(nodes=NODES)
    talk = Talk(bridge_of(cluster, journal), client="mine")
    policy = Fcfs(late_s, last_first)
    talk.decide()
    talk.ask()
    for _ in range(6):
        cluster.submit(run_s=10.0, limit_s=60.0)
    for _ in range(60):
        talk.bridge.note(cluster.state())
        while events := talk.due():
            talk.ask(*policy.decide(events))
        cluster.advance(cluster.now_s + 1.0)
    talk.bridge.close()
    return report_of(read(journal, lambda _: None), 1.0)


def figures_in(reported: Reported) -> Comparison:
    """Return the figures of a report of mode shadow."""
    assert isinstance(reported.figures, Comparison)
    return reported.figures


def compared(journal: Path, *, late_s: float = 0.0, last_first: bool = False) -> Comparison:
    """Return the figures of `watched`."""
    return figures_in(watched(journal, late_s=late_s, last_first=last_first))


def test_a_scheduler_that_does_what_slurm_does_matches(tmp_path: Path) -> None:
    """Equal decisions give equal starts, nodes, waits, utilization and energy."""
    it = compared(tmp_path / "journal")
    assert (it.jobs, it.started_by_both, it.start_match, it.node_match) == (6, 6, 1.0, 1.0)
    assert it.start_error_s.mean == 0.0
    assert it.shadow == it.slurm
    assert it.slurm.wait_s.mean == 5.0
    assert it.slurm.energy_kwh_per_day == [it.slurm.energy_kwh]


def test_utilization_and_energy_are_those_of_the_model(tmp_path: Path) -> None:
    """Nodes draw 200 W for the third of the time in which they have jobs, and 100 W otherwise."""
    it = compared(tmp_path / "journal")
    assert it.slurm.utilization == pytest.approx(60.0 / 180.0)
    assert it.slurm.energy_kwh == pytest.approx((60.0 * 200.0 + 120.0 * 100.0) / 3.6e6)


def test_a_node_that_is_down_draws_the_power_of_one_that_is_off(tmp_path: Path) -> None:
    """On both sides, also on a cluster that cannot switch nodes."""
    cluster = FakeCluster(nodes=2)
    cluster.submit(run_s=50.0)
    talk = Talk(bridge_of(cluster, tmp_path / "journal"))
    talk.ask()
    for happen, after_s in ((cluster.fail, 20.0), (cluster.repair, 30.0)):
        cluster.advance(cluster.now_s + after_s)
        happen("node1")
        talk.bridge.note(cluster.state())
    cluster.advance(cluster.now_s + 50.0)
    talk.bridge.note(cluster.state())
    talk.bridge.close()
    it = figures_in(report_of(read(tmp_path / "journal", lambda _: None), 1.0))
    expected_j = 50.0 * 200.0 + 50.0 * 100.0 + 70.0 * 100.0 + 30.0 * 10.0
    for side in (it.shadow, it.slurm):
        assert side.energy_kwh == pytest.approx(expected_j / 3.6e6)
    assert it.power.endswith("and 10 W off or down")


def test_a_late_scheduler_has_start_errors(tmp_path: Path) -> None:
    """Starts that are 3 s later do not match within 1 s."""
    it = compared(tmp_path / "journal", late_s=3.0)
    assert it.start_match == 0.0
    assert it.start_error_s.median == pytest.approx(3.0)
    assert it.shadow.wait_s.mean == pytest.approx(8.0)


def test_expected_starts_are_compared_with_both_sides(tmp_path: Path) -> None:
    """Jobs that are expected after 5 s start after 0 s or 10 s, in the shadow 3 s later."""
    it = compared(tmp_path / "journal", late_s=3.0)
    assert it.predicted_slurm["start_forecasts"] == 6
    assert it.predicted_slurm["mean_abs_start_error_s"] == pytest.approx(5.0)
    assert it.predicted_shadow["mean_start_error_s"] == pytest.approx(3.0)


def test_other_nodes_are_counted(tmp_path: Path) -> None:
    """Jobs that start at the same time on other nodes match in time only."""
    it = compared(tmp_path / "journal", last_first=True)
    assert it.start_match == 1.0
    assert it.node_match == pytest.approx(2.0 / 6.0)  # the middle node


def test_both_runs_are_results_folders(tmp_path: Path) -> None:
    """The folders have the starts of each side, in seconds since the begin of the session."""
    reported = watched(tmp_path / "journal", late_s=3.0)
    shadow, slurm = write_folders(reported, tmp_path / "out", "test")
    assert [row["start_s"] for row in rows_of(shadow)[:4]] == ["3.0", "3.0", "3.0", "13.0"]
    assert [row["start_s"] for row in rows_of(slurm)[:4]] == ["0.0", "0.0", "0.0", "10.0"]
    assert json.loads((slurm / "run.json").read_text())["scheduler"] == "Slurm"


def test_a_start_without_room_leaves_readable_results(tmp_path: Path) -> None:
    """Jobs that share cores in reality are counted, and the folder can be read."""
    watched(tmp_path / "journal")
    session = last_session(read(tmp_path / "journal", lambda _: None))
    shared = [row._replace(real=row.real._replace(nodes=(0,))) for row in session.rows]
    reported = report_of_shadow(session._replace(rows=shared), 1.0)
    assert figures_in(reported).slurm.not_shown == 4
    _, slurm = write_folders(reported, tmp_path / "out", "test")
    assert len(read_folder(slurm).columns["start.time_s"]) == 2


def test_a_run_time_that_is_known_after_the_time_limit_is_in_the_report(tmp_path: Path) -> None:
    """A job that Slurm starts long after the shadow has its real run time in both."""
    cluster = FakeCluster(nodes=1, starts=False)
    talk = Talk(bridge_of(cluster, tmp_path / "journal"), client="mine")
    talk.decide()
    talk.ask()
    cluster.submit(run_s=3.0, limit_s=5.0)
    talk.bridge.note(cluster.state())
    talk.due()
    talk.ask(AllocateJob(1, [0]))
    for second in range(30):
        cluster.advance(EPOCH_S + second)
        if second == 20:
            cluster.starts = True
            cluster.repair("node0")  # Slurm looks for jobs to start
        talk.bridge.note(cluster.state())
        talk.due()
    talk.bridge.close()
    (row,) = last_session(read(tmp_path / "journal", lambda _: None)).rows
    assert (row.shadow.end_s - row.shadow.start_s, row.shadow.state) == (3.0, "completed")
    assert row.real.start_s - row.shadow.start_s == 20.0


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Return the jobs of a results folder."""
    with (folder / "jobs.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_text_has_the_figures(tmp_path: Path) -> None:
    """People read match rates, errors, waits and energy."""
    text = watched(tmp_path / "journal", late_s=3.0).text
    assert "starts within 1 s      0.0% of the started jobs" in text
    assert "median 3.0 s" in text
    assert "a model, not measured" in text


def test_a_journal_without_a_session_has_no_report(tmp_path: Path) -> None:
    """The error says that no scheduler has connected."""
    bridge_of(FakeCluster(), tmp_path / "journal")
    with pytest.raises(JournalError, match="no scheduler has connected"):
        last_session(read(tmp_path / "journal", lambda _: None))


@pytest.mark.parametrize("text", ["", "no JSON\n", '{"record":"asked","at_s":1}\n', "{}\n"])
def test_another_file_is_no_journal(tmp_path: Path, text: str) -> None:
    """A file that is no journal is named in the error."""
    path = tmp_path / "other"
    path.write_text(text)
    with pytest.raises(JournalError, match="other"):
        list(read(path, lambda _: None))
