"""Submissions: what was run is verified, and what was changed is not."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcosim_experiments.benchmark.instance_runs import run_policy, run_served
from hpcosim_experiments.benchmark.submission import Verifier, read_submission
from hpcosim_experiments.benchmark.suite import Suite, VerificationError
from hpcosim_scenarios.errors import RunError
from hpcosim_server.service.keys import LOCAL_ONLY
from support.benchmark_suites import (
    AUTHOR,
    SCENARIO,
    SUITE,
    Files,
    about_changed,
    changed,
    journal_changed,
    smallest_of,
    submitted,
    tiny_suite,
)
from support.commands import invoke

SUITES = ("backfilling-1", "power-1", "pairing-1", "deep-eas-1")
SCHEDULE = (sys.executable, "-m", "hpcosim.cli", "schedule")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """A suite of two instances."""
    return tiny_suite(tmp_path_factory.mktemp("tiny"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_every_transport_gives_the_same_verified_journals(name: str, tmp_path: Path) -> None:
    """A run in process and one over the wire are verified, with the same journals and metrics."""
    one = smallest_of(name)
    policy = one.file.reference
    own = run_policy(
        one,
        policy.scheduler,
        policy.power,
        policy.power_awareness,
        tmp_path / "own.zip",
        AUTHOR,
        lambda _: None,
    )
    options = ("--power", json.dumps(policy.power), "--power-awareness", policy.power_awareness)
    client = (*SCHEDULE, policy.scheduler, "--connect", "{address}", *options)
    address = f"ipc://{tmp_path}/s"
    seen: list[str] = []
    wire = run_served(one, address, client, LOCAL_ONLY, tmp_path / "wire.zip", AUTHOR, seen.append)
    assert seen == [each.name for each in one.file.instances]
    journals = [read_submission(tmp_path / f"{each}.zip").journals for each in ("own", "wire")]
    assert journals[0] == journals[1]
    assert own.metrics == wire.metrics
    (seal,) = one.seals.values()
    assert list(own.scores.values()) == [seal.reference]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit(3)", "the scheduler ended with status 3 in session 1 of 2"),
        ("pass", "the scheduler ended with status 0 in session 1 of 2"),
    ],
)
def test_client_that_ends_early_ends_the_benchmark(
    code: str, message: str, suite: Suite, tmp_path: Path
) -> None:
    """A scheduler process that does not finish its session is named, and nothing is written."""
    client = (sys.executable, "-c", f"address = '{{address}}'; {code}")
    out = tmp_path / "out.zip"
    with pytest.raises(RunError, match=message):
        run_served(suite, f"ipc://{tmp_path}/s", client, LOCAL_ONLY, out, AUTHOR, print)
    assert not out.exists()


@pytest.mark.slow
def test_client_cannot_change_an_instance(suite: Suite, tmp_path: Path) -> None:
    """A hello with another seed is refused, and the scheduler's error is part of the message."""
    client = (*SCHEDULE, "fcfs", "--connect", "{address}", "--seed", "99")
    with pytest.raises(RunError, match="the instances of a suite are fixed"):
        run_served(
            suite, f"ipc://{tmp_path}/s", client, LOCAL_ONLY, tmp_path / "x.zip", AUTHOR, print
        )


def _without_b(files: Files) -> None:
    del files["b.jsonl"]
    about_changed(files, lambda about: about["instances"].pop("b"))


def _stated(change: Callable[[dict[str, Any]], object]) -> Callable[[Files], None]:
    return lambda files: about_changed(files, lambda about: (change(about), None)[1])


def _lines(change: Callable[[list[bytes]], object]) -> Callable[[Files], None]:
    return lambda files: journal_changed(files, lambda lines: (change(lines), None)[1])


def _decision(text: bytes) -> Callable[[list[bytes]], object]:
    return lambda lines: lines.insert(1, b'{"decisions":[%s]}\n' % text)


TAMPERINGS: dict[str, tuple[Callable[[Files], object], str]] = {
    "journal changed": (
        lambda files: files.update({"a.jsonl": files["a.jsonl"].replace(b"[0", b"[7", 1)}),
        "a: the journal was changed: its SHA-256 is not the stated one",
    ),
    "request left out": (
        _lines(lambda lines: lines.pop(5)),
        "of the journal: the simulation is stuck at",
    ),
    "journal cut": (
        _lines(lambda lines: lines.__delitem__(slice(20, None))),
        "a: the replies to the requests of lines 1 to 20 of the journal differ",
    ),
    "line too many": (
        _lines(lambda lines: lines.append(lines[-1])),
        "of the journal",
    ),
    "no request": (
        _lines(lambda lines: lines.__setitem__(1, b'{"decide":1}\n')),
        "a: line 2 of the journal is no request: Object contains unknown field `decide`",
    ),
    "forbidden decision": (
        _lines(_decision(b'{"type":"reject_job","job_id":1}')),
        "a: line 2 of the journal has a decision reject_job; expected one of allocate_job, "
        "set_alarm, cancel_alarm",
    ),
    "many lines": (
        _lines(lambda lines: lines.__setitem__(slice(None), [b"{}\n"] * 2_000_001)),
        "a: the journal has 2000001 lines; expected at most 2000000",
    ),
    "a bad line far behind": (
        _lines(lambda lines: lines.__setitem__(slice(None), [b"{}\n"] * 1_000 + [b"bad\n"])),
        "of the journal: the simulation is stuck at",
    ),
    "endless time": (
        _lines(lambda lines: lines.__setitem__(0, b'{"elapsed_s":1e300}\n')),
        "a: line 1 of the journal is no request: Expected `float` <= 1000000000000000.0",
    ),
    "instance missing": (_without_b, "the instance b is missing"),
    "journal missing": (
        lambda files: files.pop("b.jsonl"),
        "the file b.jsonl is missing in the archive",
    ),
    "other suite": (
        _stated(lambda about: about.update(suite="tiny-2")),
        "it is of the suite 'tiny-2'; expected 'tiny-1'",
    ),
    "other instance": (
        _stated(lambda about: about["instances"]["a"].update(sha256="0" * 64)),
        "a: it is of another instance: expected the SHA-256 ",
    ),
    "metrics": (
        _stated(lambda about: about.update(metrics={"mean_wait_s": 0})),
        "submission.json: Object contains unknown field `metrics`",
    ),
    "name of a folder": (
        _stated(lambda about: about["instances"].update({"../x": about["instances"]["a"]})),
        "submission.json: ",
    ),
}


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_changed_submission_is_refused(kind: str, suite: Suite, tmp_path: Path) -> None:
    """Each change of a submission fails with one line that says what is wrong, and where."""
    path = tmp_path / "out.zip"
    submitted(suite, path)
    change, message = TAMPERINGS[kind]
    changed(path, lambda files: (change(files), None)[1])
    with pytest.raises(VerificationError, match=re.escape(message)) as error:
        Verifier(suite)(read_submission(path))
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_archive_that_expands_without_end_is_refused(suite: Suite, tmp_path: Path) -> None:
    """A small file of an archive cannot become a large journal in memory."""
    path = tmp_path / "out.zip"
    submitted(suite, path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["a.jsonl"] = b"{}\n" * 10_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.raises(VerificationError, match=r"a\.jsonl: \d+ compressed bytes expand to more"):
        read_submission(path)


def test_metrics_are_those_of_the_journal(suite: Suite, tmp_path: Path) -> None:
    """A submission with the journal of another scheduler has the metrics of that scheduler."""
    path, other = tmp_path / "fcfs.zip", tmp_path / "sjf.zip"
    first, second = submitted(suite, path), submitted(suite, other, "sjf")
    journal = read_submission(other).journals["a"].splitlines(keepends=True)
    changed(
        path,
        lambda files: journal_changed(files, lambda lines: lines.__setitem__(slice(None), journal)),
    )
    found = Verifier(suite)(read_submission(path)).metrics
    assert found == {"a": second.metrics["a"], "b": first.metrics["b"]}
    assert first.metrics["a"] != second.metrics["a"]


@pytest.mark.parametrize("content", [b"", b"what is this?", b"PK\x05\x06" + bytes(18)])
def test_other_file_is_no_submission(content: bytes, suite: Suite, tmp_path: Path) -> None:
    """A file that is no archive, and an empty archive, give an error of one line."""
    path = tmp_path / "out.zip"
    path.write_bytes(content)
    with pytest.raises(VerificationError, match=re.escape(str(path))):
        Verifier(suite)(read_submission(path))


def test_commands_run_verify_and_rank(suite: Suite, tmp_path: Path) -> None:
    """`benchmark run`, `verify` and `leaderboard` work together on a suite of one's own."""
    file, out = suite.folder / "suite.yaml", tmp_path / "sjf.zip"
    ran = invoke("benchmark", "run", file, "--scheduler", "sjf", "--out", out)
    assert ran.status == 0, ran.err
    verified = invoke("benchmark", "verify", out, "--suite", file)
    assert verified.out.splitlines() == ran.out.splitlines()[:-1]
    page = tmp_path / "board.html"
    assert invoke("benchmark", "leaderboard", out, "--suite", file, "--out", page).status == 0
    assert "<td>sjf</td>" in page.read_text()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("mean_response_s: 1", "mean_response: 1", "tiny-1: score: the bound mean-response is"),
        ("[mean_wait_s]", "[mean_wait]", "no metric 'mean_wait'; did you mean 'mean_wait_s'?"),
        ("{scheduler: easy}", "{scheduler: eazy}", "there is no scheduler 'eazy'"),
        ("name: b,", "name: a,", "expected each name once, got 'a' twice"),
        ("name: tiny-1", "name: tiny", "suite.yaml:1: name: "),
        ("scenario: tiny.yaml", "scenario: none.yaml", "none.yaml: cannot be read"),
    ],
)
def test_invalid_suite_is_one_line(before: str, after: str, message: str, tmp_path: Path) -> None:
    """A suite with an error cannot be sealed; one line says what is wrong."""
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE.replace(before, after, 1))
    assert message in invoke("benchmark", "seal", file).error
    assert not (tmp_path / "instances.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nothing-1", "--scheduler", "fcfs", "--out", "x.zip"), "no such suite"),
        (("run", "backfilling-1", "--out", "x.zip"), "expected either --scheduler, or --client"),
        (("verify", "missing.zip"), "missing.zip: No such file or directory"),
        (("leaderboard", "."), "expected submissions (.zip), got none"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong arguments of the commands give one line on standard error."""
    monkeypatch.chdir(tmp_path)
    assert message in invoke("benchmark", *arguments).error
