"""Job attributes from job lines, logs and the profiles of a scenario."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hpcosim.cli.main import app
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_workloads.errors import LineError, WorkloadError
from hpcosim_workloads.logs.job_lines import (
    LOG_FIELDS,
    MAX_OPS,
    JobLine,
    JobLines,
    JobProfile,
    read_jsonl,
)
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.table import MAX_TIME_S, JobSpec

PLATFORM = "platform: {nodes: [{count: 2, processors: [{cores: 8, static_w: 9, dynamic_w: 1}]}]}"
PROFILE = JobProfile(
    cores=4,
    req_ops=1.25e10,
    ipc=2.0,
    requested_s=5.5,
    placement="one_node",
    memory_mb=100.0,
    memory_volume_mb=1.0,
    max_energy_j=7.0,
)


def job(**fields: Any) -> JobSpec:
    """Return job 1, submitted at 0 s, from a line with these fields, without profiles."""
    return job_of({}, **fields)


def job_of(profiles: dict[str, JobProfile], **fields: Any) -> JobSpec:
    """Return job 1, submitted at 0 s, from a line with these fields and profiles."""
    lines = JobLines("cores", profiles)
    lines.add(msgspec.convert({"job_id": 1, "submit_s": 0, **fields}, JobLine))
    (row,) = lines.table().rows()
    return row


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Write objects, one per line, into a file and return its path."""

    def write(*objects: dict[str, Any]) -> Path:
        path = tmp_path / "jobs.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in objects))
        return path

    return write


File = Callable[..., Path]


# Job lines


def test_every_field_is_read() -> None:
    """Each field of a line is in the row of its job in the table."""
    row = job(
        cores=4,
        req_ops=1e9,
        ipc=0.5,
        requested_s=5,
        placement="one_node",
        memory_mb=100,
        memory_volume_mb=1.5,
        max_energy_j=7,
        profile="A",
    )
    assert row == JobSpec(1, 0.0, 2.0, 5.0, 4, "one_node", 2e9, 100.0, 1.5, 7.0, "A")


def test_missing_fields_have_defaults() -> None:
    """A line of cores and run time has the defaults for all other fields."""
    assert job(cores=4, run_s=3) == JobSpec(1, 0.0, 3.0, 3.0, 4, "cores", 0, 0, 0, math.inf, "")


@pytest.mark.parametrize(
    ("req_ops", "ipc", "ops"),
    [(10, 1, 10), (10, 4, 3), (10.5, 1, 11), (1e-300, 1, 1), (5e-324, 1e6, 1), (1e24, 1, 1e24)],
)
def test_operations_are_rounded_up(req_ops: float, ipc: float, ops: float) -> None:
    """A task has ceil(req_ops / ipc) operations, at least one."""
    assert job(cores=1, req_ops=req_ops, ipc=ipc, requested_s=1).ops == ops


@given(
    st.floats(0, MAX_OPS, exclude_min=True, allow_subnormal=True),
    st.floats(0, 1e6, exclude_min=True, allow_subnormal=True),
)
def test_operations_never_overflow(req_ops: float, ipc: float) -> None:
    """Operations and times are finite, or the line is an error."""
    if req_ops / ipc > MAX_OPS:
        with pytest.raises(LineError, match=r"at most 1e\+24 - at `\$\.ipc`"):
            job(cores=1, req_ops=req_ops, ipc=ipc, requested_s=1)
        return
    row = job(cores=1, req_ops=req_ops, ipc=ipc, requested_s=1)
    assert 1 <= row.ops <= MAX_OPS
    assert row.ops.is_integer()
    assert row.run_s == row.ops / 1e9 <= MAX_TIME_S


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "run time and operations": ({"run_s": 1, "req_ops": 1}, "run_s and req_ops"),
    "run time and ipc": ({"run_s": 1, "ipc": 1}, "run_s and ipc"),
    "no work": ({"cores": 1}, "`$.run_s`"),
    "ipc of nothing": ({"ipc": 2}, "`$.run_s`"),
    "no requested time": ({"req_ops": 1}, "`$.requested_s`"),
    "ipc 0": ({"req_ops": 1, "requested_s": 1, "ipc": 0}, "`$.ipc`"),
    "no operations": ({"req_ops": 0, "requested_s": 1}, "`$.req_ops`"),
    "too many operations": ({"req_ops": 1.1e24, "requested_s": 1}, "`$.req_ops`"),
    "far too many operations": ({"req_ops": 10**400, "requested_s": 1}, "`$.req_ops`"),
    "too few a cycle": ({"req_ops": 1e24, "requested_s": 1, "ipc": 0.9}, "`$.ipc`"),
    "operations in words": ({"req_ops": "many", "requested_s": 1}, "`$.req_ops`"),
    "negative memory": ({"run_s": 1, "memory_mb": -1}, "`$.memory_mb`"),
    "too much memory": ({"run_s": 1, "memory_mb": 1.1e12}, "`$.memory_mb`"),
    "negative volume": ({"run_s": 1, "memory_volume_mb": -1}, "`$.memory_volume_mb`"),
    "no energy": ({"run_s": 1, "max_energy_j": 0}, "`$.max_energy_j`"),
    "too much energy": ({"run_s": 1, "max_energy_j": 1.1e18}, "`$.max_energy_j`"),
    "profile is a number": ({"run_s": 1, "profile": 3}, "`$.profile`"),
    "long profile": ({"run_s": 1, "profile": "x" * 201}, "`$.profile`"),
    "profile of two lines": ({"run_s": 1, "profile": "a\nb"}, "`$.profile`"),
}


@pytest.mark.parametrize(("fields", "part"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_line_is_named(file: File, fields: dict[str, Any], part: str) -> None:
    """The error contains file, line and field; `lenient` drops and counts the line."""
    path = file(
        {"job_id": 1, "submit_s": 0, "cores": 1, "run_s": 1},
        {"job_id": 2, "submit_s": 0, "cores": 1, **fields},
    )
    with pytest.raises(WorkloadError) as caught:
        read_jsonl(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert part in caught.value.what
    table = read_jsonl(path, lenient=True)
    assert (table.job_id.tolist(), table.skipped) == ([1], {"corrupt_lines": 1})


def test_a_line_without_cores_is_named(file: File) -> None:
    """A line without cores, also in its profile, is an error."""
    with pytest.raises(WorkloadError, match=r":1: job 1 needs cores.*`\$\.cores`"):
        read_jsonl(file({"job_id": 1, "submit_s": 0, "run_s": 1}))


# Profiles


def test_a_profile_supplies_missing_fields() -> None:
    """A line takes the fields that it omits from its profile."""
    row = job_of({"A": PROFILE}, profile="A")
    assert row == JobSpec(1, 0.0, 6.25, 5.5, 4, "one_node", 6.25e9, 100.0, 1.0, 7.0, "A")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cores", 3),
        ("requested_s", 9.0),
        ("placement", "whole_nodes"),
        ("memory_mb", 0.0),
        ("memory_volume_mb", 0.0),
        ("max_energy_j", 8.0),
    ],
)
def test_a_line_overrides_its_profile(field: str, value: Any) -> None:
    """A field of the line, also 0, overrides that of the profile."""
    plain = job_of({"A": PROFILE}, profile="A")
    assert job_of({"A": PROFILE}, profile="A", **{field: value}) == plain._replace(**{field: value})


@pytest.mark.parametrize(
    ("line", "profile", "run_s", "ops"),
    [
        ({"run_s": 3}, {"req_ops": 8e9, "ipc": 2}, 3.0, 0.0),
        ({"req_ops": 3e9}, {"run_s": 8}, 3.0, 3e9),
        ({"req_ops": 3e9}, {"req_ops": 8e9, "ipc": 2}, 1.5, 1.5e9),
        ({"ipc": 4}, {"req_ops": 8e9, "ipc": 2}, 2.0, 2e9),
        ({"req_ops": 3e9}, {"ipc": 2}, 1.5, 1.5e9),
        ({}, {"run_s": 8}, 8.0, 0.0),
    ],
)
def test_work_is_that_of_the_line_or_of_the_profile(
    line: dict[str, Any], profile: dict[str, Any], run_s: float, ops: float
) -> None:
    """A line with run time or operations takes neither from its profile."""
    kind = msgspec.convert({"cores": 1, "requested_s": 1, **profile}, JobProfile)
    row = job_of({"A": kind}, profile="A", **line)
    assert (row.run_s, row.ops) == (run_s, ops)


def test_ipc_for_a_profile_with_run_time_is_an_error() -> None:
    """`ipc` in a line with a run time from its profile is an error."""
    with pytest.raises(LineError, match="profile 'A' has run_s"):
        job_of({"A": JobProfile(cores=1, run_s=1.0)}, profile="A", ipc=2)


def test_a_requested_time_from_the_profile_goes_before_the_run_time() -> None:
    """The requested time is that of the line, of the profile, or the run time, in this order."""
    assert job_of({"A": PROFILE}, profile="A", run_s=3).requested_s == 5.5


def test_an_unknown_profile_is_an_error_with_the_nearest(file: File) -> None:
    """The error contains file, line, field and the nearest profile name."""
    path = file({"job_id": 1, "submit_s": 0, "profile": "memry"})
    with pytest.raises(WorkloadError) as caught:
        read_jsonl(path, profiles={"compute": PROFILE, "memory": PROFILE})
    expected = "there is no profile 'memry'; did you mean 'memory'? - at `$.profile`"
    assert str(caught.value) == f"{path}:1: {expected}"


def test_an_unknown_profile_without_a_near_name_is_an_error_with_all() -> None:
    """Without a near name, the error lists at most ten profiles."""
    profiles = {f"kind{number}": PROFILE for number in range(11)}
    with pytest.raises(LineError, match=r"expected 'kind0', .*'kind9', \.\.\."):
        job_of(profiles, profile="zzz")


def test_a_profile_is_a_label_without_profiles() -> None:
    """Without profiles, a profile name is a label."""
    assert job(cores=1, run_s=1, profile="mem bound").profile == "mem bound"


def test_a_profile_without_cores_does_not_help() -> None:
    """The error for a missing field names the line and its profile."""
    with pytest.raises(LineError, match="needs cores, here or in profile 'A'"):
        job_of({"A": JobProfile(run_s=1.0)}, profile="A")


def test_jobs_without_a_profile_may_stand_beside_profiles() -> None:
    """A line without a profile name has no profile."""
    row = job_of({"A": PROFILE}, cores=1, run_s=1)
    assert (row.profile, row.memory_mb, row.max_energy_j) == ("", 0.0, math.inf)


def test_profiles_of_a_table_are_numbered(file: File) -> None:
    """The table has each profile name once, preceded by the empty name."""
    lines: list[dict[str, Any]] = [
        {"job_id": i, "submit_s": 0, "cores": 1, "run_s": 1} for i in range(4)
    ]
    for line, profile in zip(lines, ("B", "", "A", "B"), strict=True):
        line |= {"profile": profile}
    table = read_jsonl(file(*lines))
    assert (table.profiles, table.profile.tolist()) == (("", "B", "A"), [1, 0, 2, 1])


# Scenarios


def scenario(folder: Path, workload: str) -> Scenario:
    """Load a scenario with this workload, which starts at line 4 of the file."""
    path = folder / "s.yaml"
    path.write_text(f"name: s\n{PLATFORM}\nworkload:\n{workload}")
    return load_scenario(path)


PROFILES = "  profiles: {A: {cores: 4, req_ops: 1.25e10, requested_s: 5.5, memory_mb: 100}}\n"


def test_inline_jobs(tmp_path: Path) -> None:
    """Inline jobs equal the jobs of the same lines in a file."""
    lines: list[dict[str, Any]] = [
        {"job_id": 3, "submit_s": 9, "profile": "A"},
        {"job_id": 1, "submit_s": 2, "profile": "A", "run_s": 2, "placement": "whole_nodes"},
        {"job_id": 2, "submit_s": 9, "cores": 1, "run_s": 2, "memory_volume_mb": 4},
    ]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    more = f"{PROFILES}  placement: one_node\n"
    inline = scenario(tmp_path, f"  inline: {json.dumps(lines)}\n{more}")
    rows = list(jobs_of(inline, tmp_path).rows())
    assert [row.job_id for row in rows] == [1, 3, 2]
    assert [row.placement for row in rows] == ["whole_nodes", "one_node", "one_node"]
    assert rows == list(jobs_of(scenario(tmp_path, f"  json: jobs.jsonl\n{more}"), tmp_path).rows())


def test_inline_jobs_are_shaped(tmp_path: Path) -> None:
    """Shaping settings apply to inline jobs."""
    lines = "".join(f"    - {{job_id: {i}, submit_s: {i}, profile: A}}\n" for i in range(4))
    spec = scenario(tmp_path, f"{PROFILES}  jobs: [1, 3]\n  max_cores: 3\n  inline:\n{lines}")
    table = jobs_of(spec, tmp_path)
    assert (table.job_id.tolist(), table.cores.tolist()) == ([1, 2], [3, 3])


def test_an_inline_scenario_runs(tmp_path: Path) -> None:
    """`hpcosim run` runs inline jobs, with run times or with operations."""
    scenario(tmp_path, f"{PROFILES}  inline: [{{job_id: 0, submit_s: 0, profile: A}}]\n")
    options = ["--transport", "inproc", "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, ["run", str(tmp_path / "s.yaml"), *options])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["makespan_s"] == 12.5


INLINE = "  inline: [{job_id: 0, submit_s: 0, profile: A}]\n"
BAD_SCENARIOS = {
    "an unknown profile": (
        f"{PROFILES}  inline:\n    - {{job_id: 0, submit_s: 0, profile: A}}\n"
        "    - {job_id: 1, submit_s: 0, profile: a}\n",
        [":7: workload.inline[1].profile: there is no profile 'a'", "'A'"],
    ),
    "an inline job without work": (
        "  inline:\n    - {job_id: 0, submit_s: 0, cores: 1}\n",
        [":5: workload.inline[0].run_s: job 0 needs run_s or req_ops, here or in a profile"],
    ),
    "an inline job without requested time": (
        "  inline:\n    - {job_id: 0, submit_s: 0, cores: 1, req_ops: 5}\n",
        [":5: workload.inline[0].requested_s: job 0 needs requested_s"],
    ),
    "an inline job twice": (
        f"{PROFILES}  inline:\n    - {{job_id: 0, submit_s: 0, profile: A}}\n"
        "    - job_id: 0\n      submit_s: 3\n      profile: A\n",
        [":7: workload.inline[1].job_id: a second job has the number 0"],
    ),
    "an inline job with an unknown key": (
        "  inline:\n    - {job_id: 0, submit_s: 0, coers: 1}\n",
        [":5: workload.inline[0]: unknown key 'coers'; did you mean 'cores'?"],
    ),
    "an inline job with a wrong value": (
        "  inline:\n    - {job_id: 0, submit_s: 0,\n       cores: 0, run_s: 1}\n",
        [":6: workload.inline[0].cores: expected an integer >= 1"],
    ),
    "an inline job of two kinds of work": (
        "  inline:\n    - {job_id: 0, submit_s: 0, cores: 1, run_s: 1, req_ops: 1}\n",
        [":5: workload.inline[0]: expected either run_s or req_ops"],
    ),
    "an inline job with half a letter": (
        '  inline:\n    - {job_id: 0, submit_s: 0, cores: 1, run_s: "\\ud800"}\n',
        [":5: is not YAML: expected Unicode text, got half of a surrogate pair"],
    ),
    "an inline job with an endless number": (
        f"  inline:\n    - {{job_id: 0, submit_s: 0, cores: 1, run_s: 0x{'f' * 100_000}}}\n",
        [":5: is not YAML: expected an integer of at most 100 characters, got 100002"],
    ),
    "an inline job with a profile of two lines": (
        '  inline:\n    - {job_id: 0, submit_s: 0, cores: 1, run_s: 1, profile: "a\\nb"}\n',
        [":5: workload.inline[0].profile: expected a name of printable characters"],
    ),
    "inline jobs and a log": (
        f"{INLINE}  swf: x\n",
        [":4: workload: expected one source of jobs (swf,", "got swf and inline"],
    ),
    "inline that is no list": ("  inline: 3\n", [":4: workload.inline: "]),
    "a profile with a wrong value": (
        f"  profiles:\n    A: {{cores: 1}}\n    B: {{cores: 1,\n      memory_mb: -1}}\n{INLINE}",
        [':7: workload.profiles["B"].memory_mb: expected a number >= 0'],
    ),
    "a profile with an unknown key": (
        f"  profiles:\n    x.B: {{cores: 1}}\n    x.C: {{memroy_mb: 1}}\n{INLINE}",
        [":6: workload.profiles[\"x.C\"]: unknown key 'memroy_mb'; did you mean 'memory_mb'?"],
    ),
    "a profile of two kinds of work": (
        f"  profiles:\n    A: {{run_s: 1, req_ops: 1}}\n{INLINE}",
        [':5: workload.profiles["A"]: expected either run_s or req_ops'],
    ),
    "a profile that is no mapping": (
        f"  profiles:\n    A: 3\n{INLINE}",
        [':5: workload.profiles["A"]: '],
    ),
    "a profile whose name is a number": (
        f"  profiles:\n    14: {{cores: 1}}\n{INLINE}",
        ["workload.profiles: expected keys that are text", "in quotes"],
    ),
    "a profile without a name": (
        f'  profiles:\n    "": {{cores: 1}}\n{INLINE}',
        ["workload.profiles: expected names of 1 to 200"],
    ),
    "profiles of a model": (
        f"{PROFILES}  synthetic: {{model: lublin, jobs: 5, processors: 8}}\n",
        [":4: workload.profiles: jobs of a synthetic workload have no profile"],
    ),
    "profiles of a log that has none": (
        f"{PROFILES}  trace: kit-fh2-25326\n",
        [":4: workload.profiles: jobs of the log kit-fh2-25326 have no profile"],
    ),
    "nothing to divide by": (f"{INLINE}{PROFILES}  divide_cores: 0\n", [".divide_cores: "]),
}


@pytest.mark.parametrize(("workload", "parts"), BAD_SCENARIOS.values(), ids=list(BAD_SCENARIOS))
def test_a_bad_scenario_is_named(tmp_path: Path, workload: str, parts: list[str]) -> None:
    """The error contains file, line, field and the expected value."""
    with pytest.raises(ScenarioError) as caught:
        scenario(tmp_path, workload)
    assert str(caught.value).startswith(f"{tmp_path / 's.yaml'}:")
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("source", ["swf: x.swf", "trace: nasa-ipsc"])
@pytest.mark.parametrize("field", LOG_FIELDS)
def test_a_profile_must_not_set_fields_of_a_log(tmp_path: Path, source: str, field: str) -> None:
    """A profile for a log must not set cores, work or requested time."""
    with pytest.raises(ScenarioError) as caught:
        scenario(tmp_path, f'  {source}\n  profiles:\n    "1":\n      {field}: 2\n')
    expected = f's.yaml:7: workload.profiles["1"].{field}: the log states {field} of each job'
    assert expected in str(caught.value)
    assert "may set other keys, such as placement" in str(caught.value)


def test_too_many_inline_jobs(tmp_path: Path) -> None:
    """More than 10,000 inline jobs are an error."""
    lines = "&j {job_id: 0, submit_s: 0}" + ", *j" * 10_000
    with pytest.raises(ScenarioError, match=r":4: workload\.inline: .*10000"):
        scenario(tmp_path, f"  inline: [{lines}]\n")


def test_profiles_can_be_changed_from_the_command(tmp_path: Path) -> None:
    """`--set` changes a field of a profile."""
    scenario(tmp_path, f"{PROFILES}{INLINE}")
    spec = load_scenario(tmp_path / "s.yaml", {"workload.profiles.A.cores": 2})
    assert jobs_of(spec, tmp_path).cores.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.25e10", 1.25e10),
        ("1e10", 1e10),
        ("1E10", 1e10),
        ("1e+10", 1e10),
        ("1.5e-3", 1.5e-3),
        ("2.e3", 2e3),
        (".5e1", 5.0),
        ("+.5e1", 5.0),
        ("12", 12.0),
        ("1.5", 1.5),
    ],
)
def test_floats_are_read_as_in_yaml_1_2(tmp_path: Path, text: str, value: float) -> None:
    """Numbers with an exponent are floats, with or without a point or a sign."""
    work = f"{{job_id: 0, submit_s: 0, cores: 1, requested_s: 1, memory_mb: {text}, run_s: 1}}"
    spec = scenario(tmp_path, f"  inline: [{work}]\n")
    assert jobs_of(spec, tmp_path).memory_mb.tolist() == [value]


@pytest.mark.parametrize("text", ['"1e10"', "1e", "e10", "1e1.5", "1e400", "-1e3", "."])
def test_invalid_floats_of_yaml_1_2_are_errors(tmp_path: Path, text: str) -> None:
    """Text and numbers out of range are errors with a line number."""
    work = f"{{job_id: 0, submit_s: 0, cores: 1, run_s: 1, memory_mb: {text}}}"
    with pytest.raises(ScenarioError, match=r":4: workload\.inline\[0\]\.memory_mb: "):
        scenario(tmp_path, f"  inline: [{work}]\n")


def test_cores_are_divided_before_they_are_cut(tmp_path: Path) -> None:
    """`divide_cores` rounds up and applies before `max_cores`."""
    lines = [
        {"job_id": i, "submit_s": i, "cores": cores, "run_s": 1}
        for i, cores in enumerate((1, 8, 9, 100))
    ]
    spec = scenario(
        tmp_path, f"  inline: {json.dumps(lines)}\n  divide_cores: 8\n  max_cores: 10\n"
    )
    table = jobs_of(spec, tmp_path)
    assert table.cores.tolist() == [1, 1, 2, 10]
    assert table.skipped == {"cores_capped": 1}


# Logs


def swf_file(folder: Path, *jobs: tuple[object, object, object]) -> Path:
    """Write a log with used and requested memory (KB) and executable number of each job."""
    path = folder / "log.swf"
    lines = [
        f"{number} {number} -1 60 2 -1 {used} 2 90 {asked} 1 1 1 {executable} 1 1 -1 -1\n"
        for number, (used, asked, executable) in enumerate(jobs, start=1)
    ]
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize(
    ("used", "asked", "memory_mb"),
    [
        (512, 2000, 2.0),
        (500, -1, 0.5),
        (500, 0, 0.5),
        (-1, -1, 0.0),
        (0, 0, 0.0),
        (-1, 1.5, 1.5 / 1000),
    ],
)
def test_swf_memory(tmp_path: Path, used: object, asked: object, memory_mb: float) -> None:
    """Memory is the requested, otherwise the used, otherwise 0, in MB of 1000 KB."""
    table = read_swf(swf_file(tmp_path, (used, asked, -1)))
    assert table.memory_mb.tolist() == [memory_mb]
    assert table.skipped == {}


@pytest.mark.parametrize("value", ["x", "nan", "inf", "-inf", "1e16"])
def test_swf_memory_that_is_no_number(tmp_path: Path, value: str) -> None:
    """Invalid memory is an error that names the line; `lenient` counts it."""
    for used, asked in ((value, 1), (1, value)):
        path = swf_file(tmp_path, (1, 1, 1), (used, asked, 1))
        with pytest.raises(WorkloadError) as caught:
            read_swf(path)
        assert str(caught.value).startswith(f"{path}:2: ")
        assert read_swf(path, lenient=True).skipped == {"corrupt_lines": 1}


def test_swf_profiles(tmp_path: Path) -> None:
    """A job has the profile of its executable number and takes missing fields from it."""
    kind = JobProfile(memory_mb=3.0, memory_volume_mb=4.0, max_energy_j=5.0, placement="one_node")
    path = swf_file(tmp_path, (-1, 1000, 14), (-1, -1, 14), (-1, -1, 15), (-1, -1, -1))
    rows = list(read_swf(path, placement="whole_nodes", profiles={"14": kind}).rows())
    assert [tuple(row)[2:11] for row in rows] == [
        (60.0, 90.0, 2, "one_node", 0.0, 1.0, 4.0, 5.0, "14"),
        (60.0, 90.0, 2, "one_node", 0.0, 3.0, 4.0, 5.0, "14"),
        (60.0, 90.0, 2, "whole_nodes", 0.0, 0.0, 0.0, math.inf, ""),
        (60.0, 90.0, 2, "whole_nodes", 0.0, 0.0, 0.0, math.inf, ""),
    ]


def test_swf_profiles_of_a_scenario(tmp_path: Path) -> None:
    """Profiles of a scenario apply to its log."""
    swf_file(tmp_path, (-1, -1, 14), (-1, -1, 15))
    spec = scenario(tmp_path, '  swf: log.swf\n  profiles: {"14": {memory_volume_mb: 1e3}}\n')
    table = jobs_of(spec, tmp_path)
    assert table.memory_volume_mb.tolist() == [1000.0, 0.0]
    assert [row.profile for row in table.rows()] == ["14", ""]


def test_swf_profile_that_sets_fields_of_the_log(tmp_path: Path) -> None:
    """A profile that sets a field of the log is an error only if a job uses it."""
    path = swf_file(tmp_path, (-1, -1, 14))
    assert len(read_swf(path, profiles={"15": PROFILE})) == 1
    with pytest.raises(WorkloadError, match="profile '14', but the log states cores"):
        read_swf(path, profiles={"14": PROFILE})
