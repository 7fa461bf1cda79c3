"""The commands `hpcosim show squeue`, `sinfo` and `top`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from support.commands import command, invoke
from support.frames_by_hand import small_run
from support.live_app import LiveServer

squeue, sinfo = partial(invoke, "show", "squeue"), partial(invoke, "show", "sinfo")
TITLE = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
TOKEN = "a-token-of-20-letters"
WRONG = {
    "show squeue": "expected either a results folder or --server URL",
    "show sinfo out --server http://x": "expected either a results folder or --server URL",
    "show squeue nowhere": "nowhere: no such folder; `hpcosim run` writes a results folder",
    "show squeue out --at 400d": "is not in the run, which goes from",
    "show squeue out --at 1:75": "expected seconds, 90m, 36h, 2d, 1w, M:SS, H:MM:SS, D-HH",
    "show squeue out --at noon": "--at: 'noon' is no time; expected seconds, 90m",
    "show squeue out --session one": "--session and --token apply to --server URL",
    "show squeue out -t Q": "--states: unknown state 'Q'; expected all, or of PD, R",
    "show sinfo --server ftp://x": "is no URL; expected http://127.0.0.1:8080",
    "show top out": "top needs a terminal; `hpcosim show squeue` prints a table",
    "show top --server http://x --speed 2": "--speed applies to a results folder",
}


@pytest.fixture
def results() -> Path:
    """Simulate `tiny.yaml`; return the results folder."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    return Path("out")


@pytest.mark.slow
def test_squeue_shows_a_results_folder_at_a_time(results: Path) -> None:
    """Without a time it is the middle of the run, and standard error says so."""
    for words in (("--at", "50%"), ()):
        done = squeue(results, *words)
        assert done.status == 0
        assert done.out.splitlines()[0] == TITLE
        assert len(done.out.splitlines()) > 1
        assert ("the middle of the run; --at TIME" in done.err) == (not words)
    assert squeue(results, "--at", "50%").out == done.out
    assert squeue(results, "--at", "100%").out == TITLE + "\n"


@pytest.mark.slow
def test_squeue_filters_jobs(results: Path) -> None:
    """-j, -u and -t select jobs by id, user and state."""
    ids = [line.split()[0] for line in squeue(results, "--at", "50%").out.splitlines()[1:]]
    only = squeue(results, "--at", "50%", "-j", f"{ids[-1]},x").out.splitlines()[1:]
    assert [line.split()[0] for line in only] == [ids[-1]]
    assert squeue(results, "--at", "50%", "-u", "nobody").out == TITLE + "\n"
    running = squeue(results, "--at", "50%", "-t", "R").out.splitlines()[1:]
    assert {line.split()[4] for line in running} == {"R"}
    every = squeue(results, "--at", "100%", "-t", "all").out.splitlines()[1:]
    assert len(every) == 20


@pytest.mark.slow
def test_json_has_whole_values(results: Path) -> None:
    """JSON has the time and the values without limits of width."""
    queue = json.loads(squeue(results, "--at", "50%", "--json").out)
    assert queue["at_s"] > 0
    assert {job["state"] for job in queue["jobs"]} <= {"waiting", "running"}
    assert all(isinstance(job["requested_s"], float) for job in queue["jobs"])
    nodes = json.loads(sinfo(results, "--at", "50%", "--json").out)["nodes"]
    assert sum(each["nodes"] for each in nodes) == 4


def test_unknown_users_and_jobs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table without jobs differs from one of a user that the run does not have."""
    monkeypatch.setattr("hpcosim.cli.show.run_and_time", lambda *_: (small_run(), 25.0))
    done = invoke(
        "show", "squeue", "--server", "http://127.0.0.1:1", "-u", "ann,9999", "-j", "6,77"
    )
    assert done.err == (
        "warning: no such user in the run: '9999'\nwarning: no such job in the run: '77'\n"
    )
    assert [line.split()[0] for line in done.out.splitlines()] == ["JOBID", "6"]


@pytest.mark.slow
def test_sinfo_shows_all_nodes(results: Path) -> None:
    """At the end of a run all nodes are idle."""
    assert sinfo(results, "--at", "100%").out == (
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"
        "group-0      up   infinite      4   idle node[0-3]\n"
    )


def test_a_live_session_is_shown_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is that of the server; the token is an option or a variable."""
    with LiveServer(token=TOKEN) as server:
        server.sessions["one"] = [small_run(now_s=25.0)]
        done = squeue("--server", server.url, "--token", TOKEN)
        assert done.out.splitlines()[1].endswith("1 (Resources)")
        assert done.err == ""
        monkeypatch.setenv("HPCOSIM_HTTP_TOKEN", TOKEN)
        assert "node[0-1]" not in squeue("--server", server.url, "--at", "1").out
        assert "mix" in sinfo("--server", server.url, "--session", "one").out
        monkeypatch.delenv("HPCOSIM_HTTP_TOKEN")
        done = sinfo("--server", server.url)
        assert (done.status, "it needs a token" in done.error) == (2, True)


def test_a_live_view_that_is_not_there_is_an_error_in_one_line() -> None:
    """The status is that of a server that does not answer."""
    done = squeue("--server", "http://127.0.0.1:9")
    assert done.status == 1
    assert "http://127.0.0.1:9: no live view answers: connection refused" in done.error


@pytest.mark.slow
def test_wrong_usage_is_an_error_in_one_line(results: Path) -> None:
    """The line says what was expected."""
    for words, error in WRONG.items():
        done = invoke(*words.split())
        assert (done.status, error in done.error) == (2, True), words


@pytest.mark.slow
def test_output_in_a_pipe_is_plain_text(results: Path) -> None:
    """It has no colours."""
    done = command("show", "squeue", results, "--at", "50%", "-t", "all")
    assert done.status == 0
    assert done.out.replace("\n", "").isprintable()
