"""Requests, arrays and dependencies of job lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import Checkpointing, Dependency, JobRequest, NodeGroup, Platform, Processor
from hpcosim_protocol.hosts import NodeNames
from hpcosim_workloads.errors import LineError, WorkloadError
from hpcosim_workloads.logs import job_lines as job_links
from hpcosim_workloads.logs.job_lines import JobLine, JobLines, JobProfile, read_jsonl
from hpcosim_workloads.logs.quantities import parse_array, parse_dependency
from hpcosim_workloads.shaping import cap_cores, divide_cores, window_by_number
from hpcosim_workloads.table import JobSpec, JobTable

PLATFORM = Platform((NodeGroup(4, (Processor(8),), names="n[1-4]"),))


def read(folder: Path, *lines: dict[str, Any], **settings: Any) -> JobTable:
    """Return the jobs of a file with these lines; the defaults are 4 cores for 10 s at 0 s."""
    path = folder / "jobs.jsonl"
    base = {"submit_s": 0, "cores": 4, "run_s": 10}
    path.write_text("\n".join(json.dumps(base | line) for line in lines))
    return read_jsonl(path, **settings)


def jobs(folder: Path, *lines: dict[str, Any], **settings: Any) -> dict[int, JobSpec]:
    """Return the jobs of `read` by number."""
    return {job.job_id: job for job in read(folder, *lines, **settings).rows()}


def request(folder: Path, **fields: Any) -> JobRequest:
    """Return the request of a job with these fields."""
    found = jobs(folder, {"job_id": 1, **fields})[1].request
    assert found is not None
    return found


def test_a_job_of_cores_and_time_has_no_request(tmp_path: Path) -> None:
    """Only what a job requires beyond cores and time makes a request."""
    found = jobs(tmp_path, {"job_id": 1, "user": "ann", "account": 7, "hold": False, "nice": 0})[1]
    assert found.request is None
    assert (found.user, found.account, found.qos) == ("ann", "7", "")


def test_the_request_has_what_the_line_states(tmp_path: Path) -> None:
    """Attributes keep their names and values."""
    stated = {
        "name": "train",
        "nice": -5,
        "begin_s": 60,
        "gres_per_node": {"gpu:a100": 2},
        "gres_per_task": {"gpu": 0.25},
        "licenses": {"matlab": 1},
        "features": "[rack1|rack2]",
        "cores_per_task": 2,
        "memory_per_node_mb": 500,
        "requeue": True,
        "checkpointing": {"cost_s": 5, "interval_s": 600},
        "required_nodes": [3, 1],
        "reservation": "maint",
        "priority": 0,
    }
    found = request(tmp_path, **stated)
    assert found.checkpointing == Checkpointing(5, 600)
    assert found.required_nodes == (1, 3)
    for name in set(stated) - {"checkpointing", "required_nodes"}:
        assert getattr(found, name) == stated[name]


def test_a_job_takes_requirements_from_its_profile(tmp_path: Path) -> None:
    """A value of the line has priority over that of the profile."""
    profile = JobProfile(gres_per_node={"gpu": 1}, features="ib", memory_per_job_mb=400)
    lines = {"job_id": 1, "profile": "p"}, {"job_id": 2, "profile": "p", "features": "", "cores": 8}
    found = jobs(tmp_path, *lines, profiles={"p": profile})
    assert [found[n].memory_mb for n in (1, 2)] == [100, 50]
    assert found[1].request == JobRequest(gres_per_node={"gpu": 1}, features="ib")
    assert found[2].request == JobRequest(gres_per_node={"gpu": 1})


def test_memory_of_the_line_replaces_memory_of_the_profile(tmp_path: Path) -> None:
    """Memory for each core, node or job are one requirement."""
    profile = JobProfile(memory_mb=100)
    lines = {"job_id": 1, "profile": "p", "all_memory": True}, {"job_id": 2, "profile": "p"}
    found = jobs(tmp_path, *lines, profiles={"p": profile})
    assert (found[1].memory_mb, found[1].request) == (0, JobRequest(all_memory=True))
    assert (found[2].memory_mb, found[2].request) == (100, None)


def test_nodes_can_be_named(tmp_path: Path) -> None:
    """A host list stands for the numbers of its nodes."""
    nodes_of = NodeNames(PLATFORM).ranges
    line = {"job_id": 1, "required_nodes": "n[2-3]", "excluded_nodes": "n1"}
    found = jobs(tmp_path, line, nodes_of=nodes_of)[1].request
    assert found == JobRequest(required_nodes=(1, 2), excluded_nodes=(0,))


def test_an_array_is_one_job_for_each_index(tmp_path: Path) -> None:
    """The first task has the number of the line, the others follow the greatest number."""
    found = jobs(tmp_path, {"job_id": 7, "array": "1,4-6:2%2"}, {"job_id": 20})
    tasks = {n: job.request for n, job in found.items() if job.request is not None}
    assert {n: (r.array_id, r.array_index, r.array_limit) for n, r in tasks.items()} == {
        7: (7, 1, 2),
        21: (7, 4, 2),
        22: (7, 6, 2),
    }


def test_an_array_can_have_one_index(tmp_path: Path) -> None:
    """A number is a text of one index, which YAML reads as a number."""
    assert request(tmp_path, array=0) == JobRequest(array_id=1, array_index=0)


def test_a_line_can_be_one_task(tmp_path: Path) -> None:
    """Tasks with different run times have a line each, and references find them."""
    tasks = [{"job_id": 30 + i, "array_id": 9, "array_index": i, "run_s": i + 1} for i in range(3)]
    found = jobs(tmp_path, *tasks, {"job_id": 1, "dependency": "afterany:9:9_1"})
    assert found[1].request == JobRequest(dependencies=(Dependency("afterany", (30, 31, 32)),))


def test_dependencies_name_jobs(tmp_path: Path) -> None:
    """The text is expanded to job numbers, also for jobs of later lines."""
    line = {"job_id": 1, "name": "a", "dependency": "afterok:2:3,after:2+5:3,singleton"}
    found = jobs(tmp_path, line, {"job_id": 2}, {"job_id": 3})[1].request
    assert found is not None
    assert found.dependencies == (
        Dependency("afterok", (2, 3)),
        Dependency("after", (2,), 300.0),
        Dependency("after", (3,)),
        Dependency("singleton"),
    )
    assert not found.any_dependency


def test_one_of_several_dependencies_can_be_sufficient(tmp_path: Path) -> None:
    """A question mark separates alternatives."""
    lines = {"job_id": 1, "dependency": "afterok:2?afternotok:3"}, {"job_id": 2}, {"job_id": 3}
    found = jobs(tmp_path, *lines)[1].request
    assert found is not None
    assert found.any_dependency


def test_aftercorr_pairs_the_tasks_of_two_arrays(tmp_path: Path) -> None:
    """Task i depends on task i of the other array."""
    lines = (
        {"job_id": 1, "array": "0-1"},
        {"job_id": 2, "array": "0-1", "dependency": "aftercorr:1"},
    )
    found = jobs(tmp_path, *lines)
    pairs = {n: job.request.dependencies for n, job in found.items() if job.request is not None}
    assert pairs == {
        1: (),
        3: (),
        2: (Dependency("afterok", (1,)),),
        4: (Dependency("afterok", (3,)),),
    }


INVALID = [
    ({"dependency": "afterok:9"}, "there is no job 9 in the workload"),
    ({"dependency": "afterok:9_1"}, "there is no array 9 in the workload"),
    ({"dependency": "afterok:2_1"}, "there is no array 2 in the workload"),
    ({"dependency": "afterany:1"}, "job 1 depends on itself"),
    ({"dependency": "afterany:2"}, "the dependencies form a cycle: 2 -> 1 -> 2"),
    ({"dependency": "singleton"}, "singleton needs the name of the job"),
    ({"dependency": "before:2"}, "expected one of after, afterok"),
    ({"dependency": "afterok:x"}, r"expected JOB, ARRAY_INDEX or JOB\+MINUTES"),
    ({"dependency": "afterok:2,after:2?after:2"}, "got both separators"),
    ({"dependency": "afterok"}, "expected afterok:JOB"),
    ({"array": "5-1"}, "expected FIRST-LAST:STEP"),
    ({"array": "0-9%0"}, "expected a number of tasks after '%'"),
    ({"array": "a"}, "expected indices such as 0-9"),
    ({"array": f"0-{'9' * 300}"}, "indices up to 2147483647, got"),
    ({"array": f"0-9%{'9' * 300}"}, "from 1 to 2147483647, such"),
    ({"dependency": f"afterok:2+{'9' * 300}"}, "MINUTES up to 1000000000000, got"),
    ({"dependency": "afterok:2+1000000000001"}, r"MINUTES up to 1000000000000 after '\+', got"),
    ({"array": "0-9999999"}, "expected at most 1000000 tasks"),
    ({"array": "0-2", "array_id": 1}, "expected array .* or array_id .*, got both"),
    ({"array_index": 2}, "array_index and array_limit need array_id"),
    ({"gres_per_job": {"gpu\n": 1}}, "Expected `str` matching regex"),
    ({"features": "a&"}, "expected a feature"),
    ({"gres_per_node": {"gpu": 1.5}}, "gpu: expected a whole number of devices"),
    ({"gres_per_node": {"g,pu": 1}}, "Expected `str` matching regex"),
    ({"cores_per_task": 3}, "expected a divisor of the 4 cores"),
    ({"nodes_min": 3, "nodes_max": 2}, "expected at most nodes_max, 2, got 3"),
    ({"nodes_min": 5}, "expected at most the number of tasks, 4"),
    ({"nodes_max": 1, "tasks_per_node": 2}, "1 nodes with 2 tasks each have fewer than the 4"),
    ({"required_nodes": [1], "excluded_nodes": [1]}, "node 1 is required and excluded"),
    ({"required_nodes": "n1"}, "node names need a scenario"),
    ({"memory_mb": 5, "all_memory": True}, "got memory_mb and all_memory"),
    ({"partition": "a,,b"}, "expected names separated by commas"),
    ({"user": "a\nb"}, "expected a name of printable characters"),
]


@pytest.mark.parametrize(("fields", "what"), INVALID)
def test_an_invalid_line_is_an_error(tmp_path: Path, fields: dict[str, Any], what: str) -> None:
    """The error has the file, the line and the fault."""
    lines = {"job_id": 2, "dependency": "after:1"}, {"job_id": 1, **fields}
    with pytest.raises(WorkloadError, match=rf"jobs\.jsonl:[12]: .*{what}"):
        read(tmp_path, *lines)


def test_a_long_cycle_is_found(tmp_path: Path) -> None:
    """A cycle through thousands of jobs is an error, not a recursion limit."""
    count = 3000
    lines = [{"job_id": n, "dependency": f"after:{n % count + 1}"} for n in range(1, count + 1)]
    with pytest.raises(WorkloadError, match=r"form a cycle: 1 -> 2 -> 3 -> \.\.\. -> 3000 -> 1"):
        read(tmp_path, *lines)


Edges = st.sets(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=10)


@given(Edges)
def test_every_cycle_is_found(edges: set[tuple[int, int]]) -> None:
    """Dependencies are an error if and only if some job can be reached from itself."""
    reached = set(edges)
    for _ in range(6):
        reached |= {(a, d) for a, b in reached for c, d in edges if b == c}
    lines = JobLines()
    for number in range(1, 7):
        after = ":".join(str(b) for a, b in sorted(edges) if a == number)
        dependency = f"afterany:{after}" if after else None
        line = JobLine(job_id=number, submit_s=0, cores=1, run_s=1, dependency=dependency)
        lines.add(line, number)
    if any(a == b for a, b in reached):
        with pytest.raises(LineError, match=r"cycle|itself"):
            lines.table()
    else:
        assert len(lines.table()) == 6


def test_a_second_task_of_an_index_is_an_error(tmp_path: Path) -> None:
    """An array has each index once."""
    tasks = [{"job_id": n, "array_id": 9} for n in (1, 2)]
    with pytest.raises(WorkloadError, match=r"jsonl:2: a second task of array 9 has the index 0"):
        read(tmp_path, *tasks)


def test_lenient_drops_and_counts_invalid_dependencies(tmp_path: Path) -> None:
    """The jobs stay, without the dependency; cycles are broken."""
    lines = [
        {"job_id": 1, "dependency": "after:2"},
        {"job_id": 2, "dependency": "after:1"},
        {"job_id": 3, "dependency": "after:99"},
        {"job_id": 4, "dependency": "after:1"},
    ]
    table = read(tmp_path, *lines, lenient=True)
    assert table.skipped == {"dependencies_dropped": 2}
    left = {job.job_id: job.request.dependencies for job in table.rows() if job.request}
    assert left == {1: (Dependency("after", (2,)),), 4: (Dependency("after", (1,)),)}


def test_the_references_of_a_workload_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays that depend on arrays do not fill the memory."""
    monkeypatch.setattr(job_links, "MOST_EDGES", 50)
    lines = {"job_id": 1, "array": "0-9"}, {"job_id": 2, "array": "0-9", "dependency": "after:1"}
    with pytest.raises(WorkloadError, match="expected at most 50 references"):
        read(tmp_path, *lines)


@given(st.text("0123456789,-:%_+?*afterokny", max_size=30))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    """Hostile texts of arrays and dependencies give a ValueError at most."""
    for parse in (parse_array, parse_dependency):
        try:
            parse(text)
        except ValueError as error:
            assert str(error)  # noqa: PT017


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 5))
def test_an_array_text_has_its_indices(indices: set[int], limit: int) -> None:
    """A list of single indices is read as it is."""
    text = ",".join(map(str, indices)) + (f"%{limit}" if limit else "")
    assert parse_array(text) == (tuple(sorted(indices)), limit)


def test_begin_times_move_with_the_submission(tmp_path: Path) -> None:
    """A window moves the begin as it moves the job."""
    table = read(
        tmp_path,
        {"job_id": 1},
        {"job_id": 2, "submit_s": 100, "begin_s": 150},
        {"job_id": 3, "submit_s": 130, "begin_s": 150},
    )
    requests = [job.request for job in window_by_number(table, 1, 3).rows()]
    assert requests == [JobRequest(begin_s=50), JobRequest(begin_s=50)]


def test_smaller_jobs_keep_whole_tasks(tmp_path: Path) -> None:
    """Dividing and limiting cores leaves a multiple of the cores of a task."""
    table = read(
        tmp_path, {"job_id": 1, "cores": 12, "cores_per_task": 4}, {"job_id": 2, "cores": 9}
    )
    assert divide_cores(table, 2).cores.tolist() == [8, 5]
    assert cap_cores(table, 5).cores.tolist() == [4, 5]
    assert cap_cores(table, 3).cores.tolist() == [4, 3]
