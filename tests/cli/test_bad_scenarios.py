"""Scenarios and options that are invalid: one line with file, line and field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_scenarios.model.overrides import as_options, parse
from support.commands import (
    PLATFORM,
    SCENARIO,
    SWF,
    command,
    invoke,
    write_scenario,
    written,
)

WORKLOAD = "workload: {synthetic: {model: lublin, jobs: 5, processors: 8}}"
BAD = {
    "no file": (None, ["bad.yaml: no such file"]),
    "an empty file": ("", ["bad.yaml:", "a mapping"]),
    "a sentence": ("good morning\n", ["bad.yaml:1", "a mapping"]),
    "not yaml": ("name: [x\nseed: 1\n", ["bad.yaml:2: is not YAML"]),
    "a tab": ("name: x\n\tseed: 1\n", ["bad.yaml:2: is not YAML"]),
    "a python object": ("name: !!python/object/apply:os.getcwd []\n", ["bad.yaml:1: is not YAML"]),
    "two documents": (f"name: a\n{PLATFORM}\n---\nname: b\n", ["bad.yaml:", "is not YAML"]),
    "a null byte": ("name: x\x00\n", ["bad.yaml", "is not YAML"]),
    "no name": (f"{PLATFORM}\n{WORKLOAD}\n", ["bad.yaml:1", "`name`"]),
    "a name that is a path": (
        f"name: ../x\n{PLATFORM}\n{WORKLOAD}\n",
        ["bad.yaml:1: name: expected a name of 1 to 100"],
    ),
    "no platform": (f"name: x\n{WORKLOAD}\n", ["bad.yaml:1", "`platform`"]),
    "no workload": (f"name: x\n{PLATFORM}\n", ["bad.yaml:1", "`workload`"]),
    "an unknown key below": (
        "name: x\nplatform:\n  nodes:\n    - count: 1\n      processors:\n"
        f"        - {{cores: 1, clok_ghz: 2}}\n{WORKLOAD}\n",
        [
            "bad.yaml:6: platform.nodes[0].processors[0]: unknown key 'clok_ghz'",
            "did you mean 'clock_ghz'?",
        ],
    ),
    "negative cores": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: -2')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].cores: expected an integer >= 1"],
    ),
    "half a core": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: 0.5')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].cores: "],
    ),
    "cores in words": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: two')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].cores: ", "an integer"],
    ),
    "no nodes": (
        f"name: x\nplatform: {{nodes: []}}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes: ", ">= 1"],
    ),
    "negative power": (
        f"name: x\n{PLATFORM.replace('10', '-10')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].static_w: expected a number >= 0"],
    ),
    "power that is no number": (
        f"name: x\n{PLATFORM.replace('10', '.nan')}\n{WORKLOAD}\n",
        ["bad.yaml:2: platform.nodes[0].processors[0].static_w: "],
    ),
    "two sources": (
        f"name: x\n{PLATFORM}\nworkload:\n  swf: a.swf\n  json: a.jsonl\n",
        ["bad.yaml:4: workload: ", "trace, synthetic, inline), got swf and json"],
    ),
    "no source": (
        f"name: x\n{PLATFORM}\nworkload: {{load: 1.5}}\n",
        ["bad.yaml:3: workload: ", "trace, synthetic, inline), got none"],
    ),
    "an unknown model": (
        f"name: x\n{PLATFORM}\nworkload: {{synthetic: {{model: magic}}}}\n",
        ["bad.yaml:3: workload.synthetic.model: expected one of bernoulli, lublin", "got 'magic'"],
    ),
    "a window that goes backwards": (
        f"name: x\n{PLATFORM}\nworkload: {{swf: a.swf, jobs: [9, 3]}}\n",
        ["bad.yaml:3: workload: ", "jobs: expected [first, last] with first < last"],
    ),
    "an empty workload": (
        f"name: x\n{PLATFORM}\nworkload: {{json: empty.jsonl}}\n",
        ["empty.jsonl: the file has no jobs; expected at least one line with a job"],
    ),
    "a log of comments": (
        f"name: x\n{PLATFORM}\nworkload: {{swf: comments.swf}}\n",
        ["comments.swf: the file has no jobs"],
    ),
    "a missing workload": (
        f"name: x\n{PLATFORM}\nworkload: {{swf: gone.swf}}\n",
        ["gone.swf: "],
    ),
    "a workload that is a folder": (
        f"name: x\n{PLATFORM}\nworkload: {{json: .}}\n",
        ["Is a directory"],
    ),
    "an unknown trace": (
        f"name: x\n{PLATFORM}\nworkload: {{trace: nasa-ipcs}}\n",
        ["'nasa-ipcs'", "did you mean nasa-ipsc"],
    ),
    "an unknown scheduler": (
        f"name: x\n{PLATFORM}\n{WORKLOAD}\nscheduler: {{name: easi}}\n",
        ["there is no scheduler 'easi'; did you mean easy"],
    ),
    "a corrupt line": (
        f"name: x\n{PLATFORM}\nworkload: {{swf: corrupt.swf}}\n",
        ["corrupt.swf:3: "],
    ),
    "more cores than a number can hold": (
        f"name: x\n{PLATFORM.replace('cores: 2', 'cores: 100000000000000000000')}\n{WORKLOAD}\n",
        ["bad.yaml"],
    ),
    "an impossible date": (f"name: x\nseed: 2020-13-45\n{PLATFORM}\n{WORKLOAD}\n", ["bad.yaml"]),
    "nested too deep": ("[" * 5000, ["bad.yaml"]),
    "a null in a path": (f'name: x\n{PLATFORM}\nworkload: {{swf: "a\\0b"}}\n', ["null"]),
    "a file that is too large": (
        "#" * (2**20 + 1),
        ["bad.yaml: expected a scenario of at most 1048576 bytes"],
    ),
}


# One error each in the file, the scheduler and the jobs, as different code reports them.
SOME = ("no file", "an unknown key below", "an unknown scheduler", "a corrupt line")
OTHERS = ("run", "run --transport inproc", "compare")


@pytest.mark.parametrize(
    ("words", "which"),
    [
        *(("validate", which) for which in BAD),
        *(
            pytest.param(words, which, marks=pytest.mark.slow if words == "run" else ())
            for words in OTHERS
            for which in SOME
        ),
    ],
)
def test_a_bad_scenario_is_an_error_in_one_line(words: str, which: str) -> None:
    """The line names file, line, field and remedy; the status is 2, and nothing is written."""
    text, parts = BAD[which]
    Path("corrupt.swf").write_text(SWF)
    Path("empty.jsonl").write_text("\n")
    Path("comments.swf").write_text("; MaxProcs: 8\n")
    if text is not None:
        write_scenario(text)
    before = written()
    options = ["--schedulers", "easi" if "easi" in (text or "") else "fcfs"]
    options = options if words == "compare" else []
    done = invoke(*words.split(), "bad.yaml", *options)
    assert done.status == 2, done.err
    for part in parts:
        assert part in done.error
    assert written() == before


@pytest.mark.parametrize(
    "change",
    [
        "workload.load",
        "=1",
        "workload.load=[1]",
        "workload.load={a: 1}",
        "workload.load='x",
        "workload.load=much",
        "workload.lod=1",
        "seed.x=1",
        "nodes.0=1",
        "platform.nodes.7.count=1",
        "platform.nodes.\u00b2.count=1",
        f"platform.nodes.{'9' * 5000}.count=1",
        "seed=2020-13-45",
    ],
    ids=lambda change: change[:24],
)
def test_a_bad_change_is_an_error_in_one_line(change: str) -> None:
    """A --set that is malformed or names an unknown field exits with status 2."""
    done = invoke("run", "tiny.yaml", "--transport", "inproc", "--set", change)
    assert done.status == 2
    assert done.error
    assert written() == ["tiny.yaml"]


@given(
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))
)
def test_changes_survive_the_way_to_the_server_process(value: Any) -> None:
    """The options of the server process are parsed to the same values, with the same types."""
    (option,) = as_options({"workload.load": value})
    back = parse([option.removeprefix("--set=")])["workload.load"]
    assert (type(back), back) == (type(value), value)


def test_an_unknown_scheduler_is_bad_input_with_advice() -> None:
    """The error of run, compare and schedule names the nearest schedulers."""
    for words in (
        ["run", "tiny.yaml", "--scheduler", "conservativ"],
        ["compare", "tiny.yaml", "--schedulers", "fcfs,conservativ"],
        ["schedule", "conservativ"],
    ):
        done = invoke(*words)
        assert done.status == 2
        assert "there is no scheduler 'conservativ'; did you mean conservative" in done.error
    assert written() == ["tiny.yaml"]


@pytest.mark.parametrize("names", ["", ",", " , "])
def test_compare_without_schedulers_is_bad_input(names: str) -> None:
    """An empty list of schedulers exits with status 2."""
    done = invoke("compare", "tiny.yaml", "--schedulers", names)
    assert (done.status, done.error) == (
        2,
        "no scheduler is named; expected names separated by commas",
    )


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["inproc", "ipc"])
def test_a_corrupt_line_is_left_out_and_counted_if_lenient(transport: str) -> None:
    """With --lenient, the other jobs run, and the results count the skipped lines."""
    Path("corrupt.swf").write_text(SWF)
    write_scenario(f"name: x\n{PLATFORM}\nworkload: {{swf: corrupt.swf}}\n")
    done = command(
        "run", "bad.yaml", "--lenient", "--out", "out", "--transport", transport, "--json"
    )
    assert done.status == 0
    metrics = json.loads(done.out)
    assert (metrics["jobs_completed"], metrics["jobs_skipped"]) == (2, 1)
    assert json.loads(Path("out/run.json").read_text())["skipped"] == {"corrupt_lines": 1}
    assert "corrupt_lines" in invoke("validate", "bad.yaml", "--lenient").out


@pytest.mark.parametrize("transport", ["inproc", pytest.param("ipc", marks=pytest.mark.slow)])
def test_jobs_larger_than_the_platform_are_rejected_and_counted(transport: str) -> None:
    """An infeasible job is rejected and counted, and the other jobs run."""
    jobs = [{"job_id": i, "submit_s": i, "cores": 7 + i, "run_s": 5} for i in range(3)]
    Path("jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    write_scenario(f"name: x\n{PLATFORM}\nworkload: {{json: jobs.jsonl}}\n")
    done = invoke("run", "bad.yaml", "--transport", transport, "--out", "out", "--json")
    assert done.status == 0
    assert "warning: 1 of 3 jobs were rejected; the first, job 2: " in done.err
    metrics = json.loads(done.out)
    assert (metrics["jobs"], metrics["jobs_completed"], metrics["jobs_rejected"]) == (3, 2, 1)


def test_a_workload_of_nothing_but_too_large_jobs_ends() -> None:
    """The run ends with all jobs rejected."""
    write_scenario(SCENARIO.replace("cores: [1, 8]", "cores: [9, 12]"))
    done = invoke("run", "bad.yaml", "--transport", "inproc", "--json")
    assert done.status == 0
    assert json.loads(done.out)["jobs_rejected"] == 20


@pytest.mark.slow
def test_two_scenarios_of_one_name_cannot_be_served() -> None:
    """The error names both files."""
    Path("again.yaml").write_text(SCENARIO)
    done = command("serve", "tiny.yaml", "again.yaml")
    assert done.status == 2
    assert "again.yaml: name: tiny.yaml has the same name, 'tiny'" in done.error


@pytest.mark.slow
@pytest.mark.parametrize("option", ["limits.max_jobs", "limits.max_total_jobs"])
def test_a_scenario_of_more_jobs_than_allowed_is_not_served(option: str) -> None:
    """A scenario is rejected whose sessions the server would always refuse."""
    done = command("serve", "tiny.yaml", "--set", f"{option}=19")
    assert done.status == 2
    assert re.search(rf"expected at most 19 jobs \(.*{option}\b.*\), got 20", done.error)
