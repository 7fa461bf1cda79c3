"""Sessions that run again from their journals, and policies that take over."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from hpcosim_protocol import Events, decode_server_message, encode
from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.replay import replay
from hpcosim_server.errors import JournalError
from hpcosim_server.journal.journal_file import (
    HEADER,
    ExchangeRecord,
    JournalReader,
    OpenedRecord,
    framed,
)
from hpcosim_server.service.recovery import Rerun, open_again, opened_record, run_again
from support.commands import command, invoke
from support.journaled import SCENARIO, JournaledScheduler, JournaledServer
from support.memory_disk import MemoryDisk, MemoryFile

Results = dict[str, bytes]


class Recorded:
    """A recorded session.

    Args:
        folder: an empty folder.
        policy: its scheduler.
        jobs: number of jobs.
    """

    def __init__(self, folder: Path, policy: str = "fcfs", jobs: int = 12) -> None:
        self.folder = folder
        server = JournaledServer(folder, jobs)
        self.results = JournaledScheduler(server, policy).finish()
        (content,) = server.disk.files.values()
        self.content = bytes(content)
        self.scenario = server.scenario
        self.journal = folder / "session.journal"
        self.journal.write_bytes(self.content)

    def read(self, out: Path) -> Results:
        """Return the files of a results folder."""
        return {file.name: file.read_bytes() for file in out.iterdir()}


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """A session that was scheduled by FCFS."""
    return Recorded(tmp_path)


def test_a_replay_has_the_results_of_the_session(recorded: Recorded, tmp_path: Path) -> None:
    """Without its scheduler a session runs again to the same bytes."""
    replayed = replay(recorded.journal, out=tmp_path / "again")
    assert recorded.read(tmp_path / "again") == recorded.results
    assert replayed.metrics == json.loads(recorded.results["metrics.json"])
    assert replayed.fault == ""


@pytest.mark.slow
def test_a_journal_cut_at_any_byte_replays_up_to_the_cut(tmp_path: Path) -> None:
    """Every prefix of a journal gives the requests that are whole in it, with their replies."""
    recorded = Recorded(tmp_path, jobs=2)
    library = Library([recorded.scenario])
    whole = list(JournalReader(file_of(recorded.content)))
    ends = [each.end for each in whole if isinstance(each.record, ExchangeRecord)]
    for size in range(len(recorded.content)):
        reader = JournalReader(file_of(recorded.content[:size]))
        records = iter(reader)
        opening = opened_record(records, reader)
        if opening is None:
            assert size < whole[0].end
            continue
        rerun = Rerun(open_again(opening, library.open))
        for _ in run_again(rerun, records):
            pass
        assert rerun.session.seq == sum(end <= size for end in ends)
        assert reader.is_cut is (size not in {each.end for each in whole})


def file_of(content: bytes) -> MemoryFile:
    """Return a journal with a content."""
    return MemoryFile(MemoryDisk(), bytearray(content))


def test_a_cut_journal_is_named(recorded: Recorded, tmp_path: Path) -> None:
    """The results are those up to the cut, and say where it is."""
    recorded.journal.write_bytes(recorded.content[: len(recorded.content) // 2])
    replayed = replay(recorded.journal, out=tmp_path / "again")
    assert "is cut off" in replayed.fault
    run = json.loads((tmp_path / "again/run.json").read_text())
    assert not run["complete"]
    assert run["ended_because"].startswith(f"the journal ends here: request {replayed.requests}, ")


@pytest.mark.parametrize("fraction", [0.0, 0.33, 0.5, 0.95])
def test_results_up_to_a_time(recorded: Recorded, tmp_path: Path, fraction: float) -> None:
    """The replay ends at exactly the time, and jobs until then are those of the session."""
    end_s = json.loads(recorded.results["metrics.json"])["makespan_s"]
    until_s = fraction * end_s
    replayed = replay(recorded.journal, until_s=until_s, out=tmp_path / "again")
    assert replayed.replayed_s == until_s
    whole, part = (
        {
            row["job_id"]: row
            for row in csv.DictReader(files["jobs.csv"].decode().splitlines())
            if row["end_s"] and float(row["end_s"]) <= until_s
        }
        for files in (recorded.results, recorded.read(tmp_path / "again"))
    )
    assert part == whole


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.5, 0.7])
def test_the_same_policy_takes_over(tmp_path: Path, policy: str, fraction: float) -> None:
    """A policy without inner state that takes over from itself has the same schedule."""
    recorded = Recorded(tmp_path, policy)
    until_s = fraction * json.loads(recorded.results["metrics.json"])["makespan_s"]
    replayed = replay(recorded.journal, until_s=until_s, policy=policy, out=tmp_path / "again")
    results = recorded.read(tmp_path / "again")
    for name in ("jobs.csv", "schedule.csv", "nodes.csv"):
        assert results[name] == recorded.results[name]
    run = json.loads(results["run.json"])
    assert run["complete"]
    assert run["scheduler"] == f"{policy} then {policy}"
    assert run["policy"]["name"] == policy
    assert f"up to the simulated time {until_s} s, {replayed.part}" in str(run["warnings"])


def test_another_policy_takes_over(recorded: Recorded, tmp_path: Path) -> None:
    """What if: jobs that started before are as they were, and later ones are not."""
    replayed = replay(recorded.journal, until_s=300.0, policy="easy", out=tmp_path / "again")
    starts = []
    for files in (recorded.results, recorded.read(tmp_path / "again")):
        rows = csv.DictReader(files["jobs.csv"].decode().splitlines())
        starts.append({row["job_id"]: float(row["start_s"]) for row in rows})
    before = {job for job, start_s in starts[0].items() if start_s <= 300.0}
    assert before == {job for job, start_s in starts[1].items() if start_s <= 300.0}
    assert starts[0] != starts[1]
    assert replayed.metrics["jobs"] == 12


def test_nobody_takes_over_a_complete_session(recorded: Recorded) -> None:
    """The error names the end and the option."""
    with pytest.raises(ScenariosError, match=r"every job is over at .* s, .*--until"):
        replay(recorded.journal, policy="easy")


def test_a_difference_is_named(recorded: Recorded) -> None:
    """A reply that differs is an error with request, time, event, expected and got."""
    changed = b""
    for placed in JournalReader(file_of(recorded.content)):
        record = placed.record
        if isinstance(record, ExchangeRecord):
            reply = decode_server_message(record.reply)
            if isinstance(reply, Events) and reply.seq == 4:
                reply.events[0].time_s += 7.0
                record = ExchangeRecord(record.request, encode(reply))
        changed += framed(record)
    recorded.journal.write_bytes(HEADER + changed)
    with pytest.raises(JournalError, match=r"session\.journal: the reply to request 4 differs, at"):
        replay(recorded.journal)


def test_the_scenario_s_file_is_missing_or_changed(recorded: Recorded, tmp_path: Path) -> None:
    """The error says how to name a file, which must be the same."""
    text = recorded.scenario.read_text()
    recorded.scenario.unlink()
    with pytest.raises(JournalError, match=r"'.*small\.yaml' is missing; name it with --scenario"):
        replay(recorded.journal)
    other = tmp_path / "other.yaml"
    other.write_text(text)
    replay(recorded.journal, scenario=other)
    other.write_text(text.replace("jobs: 12", "jobs: 13"))
    with pytest.raises(JournalError, match="the scenario 'small' or a file of it has changed"):
        replay(recorded.journal, scenario=other)


def test_overrides_of_server_and_client_are_in_the_journal(tmp_path: Path) -> None:
    """A session with another seed and overrides is replayed with them."""
    server = JournaledServer(tmp_path)
    scheduler = JournaledScheduler(server, seed=9, overrides={"workload.synthetic.jobs": 5})
    results = scheduler.finish()
    (content,) = server.disk.files.values()
    (tmp_path / "a").write_bytes(bytes(content))
    replay(tmp_path / "a", out=tmp_path / "again")
    assert {file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()} == results


def test_a_journal_names_its_scenario(recorded: Recorded) -> None:
    """The first record has the absolute path of the scenario's file."""
    first = next(iter(JournalReader(file_of(recorded.content)))).record
    assert isinstance(first, OpenedRecord)
    assert first.scenario_file == str(recorded.scenario)


@pytest.mark.slow
def test_the_command(recorded: Recorded, tmp_path: Path) -> None:
    """`hpcosim replay` verifies a journal, and lets a policy take over."""
    done = invoke("replay", str(recorded.journal))
    assert done.status == 0
    assert "all with the recorded replies" in done.out
    assert (
        "replayed: 1 request, up to " in invoke("replay", str(recorded.journal), "--until", "0").out
    )
    out = str(tmp_path / "again")
    takes_over = ("--until", "300", "--from-here", "easy", "--out", out)
    done = invoke("replay", str(recorded.journal), *takes_over)
    assert done.status == 0
    assert f"results: {out}" in done.out
    done = invoke("replay", str(tmp_path / "small.yaml"))
    assert done.status == 2
    assert "small.yaml: expected a journal of hpcosim, got another file" in done.error


@pytest.mark.slow
def test_a_run_with_a_journal(tmp_path: Path) -> None:
    """`hpcosim run --journal` keeps a journal whose replay has the same results."""
    (tmp_path / "small.yaml").write_text(SCENARIO.format(jobs=12))
    words = ("run", str(tmp_path / "small.yaml"), "--journal", str(tmp_path / "journals"))
    done = command(*words, "--out", str(tmp_path / "out"))
    assert done.status == 0, done.err
    (journal,) = (tmp_path / "journals/ended").iterdir()
    replay(journal, out=tmp_path / "again")
    results = [
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        for name in ("out", "again")
    ]
    assert results[0] == results[1]
    done = invoke(*words, "--transport", "inproc")
    assert "--journal needs --transport ipc or tcp" in done.error
