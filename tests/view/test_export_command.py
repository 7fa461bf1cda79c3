"""The command `hpcosim export`, on the results of real runs."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import pytest

from hpcosim_view.export.outputs import FILES
from hpcosim_workloads.logs.swf import read_swf
from support.commands import command, invoke, written
from support.full_disk import files_up_to

SCENARIO = """name: tiny
seed: 5
platform:
  nodes:
    - count: 4
      processors: [{cores: 2, static_w: 10, dynamic_w: 3.5}]
      power_states:
        {sleep_w: 1, switch_on_s: 30, switch_on_w: 12, switch_off_s: 20, switch_off_w: 5}
    - count: 2
      processors: [{cores: 4, static_w: 20, dynamic_w: 1}]
workload:
  synthetic:
    {model: poisson, jobs: 60, mean_interarrival_s: 120, cores: [1, 8], run_s: [10, 900]}
scheduler: {name: easy, power: {name: timeout, timeout_s: 60}}
"""


@pytest.fixture(autouse=True)
def in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a new folder that holds the results `out`, with Batsim's files."""
    monkeypatch.chdir(tmp_path)
    Path("scenario.yaml").write_text(SCENARIO)
    words = ("run", "scenario.yaml", "--transport", "inproc", "--out", "out", "--format", "batsim")
    assert invoke(*words).status == 0


def jobs_csv() -> list[dict[str, str]]:
    """Return the rows of `jobs.csv`."""
    with Path("out/jobs.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_trace_agrees_with_the_results() -> None:
    """The integral of power is the energy; slices are the jobs, on their nodes."""
    protos: Any = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    assert invoke("export", "out", "--perfetto", "run.pftrace").out == "run.pftrace\n"
    trace = protos.Trace()
    trace.ParseFromString(Path("run.pftrace").read_bytes())
    tracks: dict[int, Any] = {}
    counters: dict[str, list[tuple[int, float]]] = {}
    begun: dict[int, Any] = {}
    slices: dict[str, set[tuple[str, int, int]]] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            continue
        event, at_ns = packet.track_event, packet.timestamp
        track = tracks[event.track_uuid]
        if event.type == protos.TrackEvent.TYPE_COUNTER:
            counters.setdefault(track.name, []).append((at_ns, event.double_counter_value))
        elif event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            assert begun.setdefault(event.track_uuid, packet) is packet
        else:
            begin = begun.pop(event.track_uuid)
            if begin.track_event.categories == ["job"]:
                node = track if track.name.startswith("node") else tracks[track.parent_uuid]
                place = (node.name.removeprefix("node "), begin.timestamp, at_ns)
                slices.setdefault(begin.track_event.name, set()).add(place)
    energy_j = sum(
        value * (after - at) / 1e9
        for name, samples in counters.items()
        if name.startswith("power, ")
        for (at, value), (after, _) in pairwise(samples)
    )
    assert energy_j == pytest.approx(json.loads(Path("out/metrics.json").read_text())["energy_j"])
    assert counters["power, sleeping"]
    expected = {
        f"job {row['job_id']}": {
            (str(node), round(float(row["start_s"]) * 1e9), round(float(row["end_s"]) * 1e9))
            for node in numbers(row["nodes"])
        }
        for row in jobs_csv()
    }
    assert slices == expected


def numbers(intervals: str) -> list[int]:
    """Return the numbers in `0-3 7`."""
    parts = [part.partition("-") for part in intervals.split()]
    return [each for a, _, b in parts for each in range(int(a), int(b or a) + 1)]


@pytest.mark.slow
def test_tables_agree_with_the_results() -> None:
    """The tables have the jobs, the node states and the energy of the results."""
    pq: Any = pytest.importorskip("pyarrow.parquet")
    invoke("export", "out", "--parquet", "a/b")
    jobs = pq.read_table("a/b/jobs.parquet").to_pylist()
    assert [(row["start_s"], row["state"], row["energy_j"], row["nodes"]) for row in jobs] == [
        (float(row["start_s"]), row["state"], float(row["energy_j"]), numbers(row["nodes"]))
        for row in jobs_csv()
    ]
    node_s: dict[str, float] = {}
    with Path("out/nodes.csv").open() as file:
        for row in csv.DictReader(file):
            span_s = float(row["end_s"]) - float(row["start_s"])
            count = len(numbers(row["nodes"]))
            node_s[row["state"]] = node_s.get(row["state"], 0.0) + count * span_s
    found: dict[str, float] = {}
    for row in pq.read_table("a/b/nodes.parquet").to_pylist():
        found[row["state"]] = found.get(row["state"], 0.0) + row["end_s"] - row["start_s"]
    assert found == pytest.approx(node_s)


@pytest.mark.slow
def test_the_log_of_a_run_can_be_simulated() -> None:
    """The jobs of the log have the rounded run times and the cores of the results."""
    invoke("export", "out", "--swf", "run.swf")
    table = read_swf(Path("run.swf"))
    rows = jobs_csv()
    assert table.job_id.tolist() == [int(row["job_id"]) for row in rows]
    assert table.cores.tolist() == [int(row["cores"]) for row in rows]
    run_s = [float(row["end_s"]) - float(row["start_s"]) for row in rows]
    assert all(abs(a - b) <= 1 for a, b in zip(table.run_s.tolist(), run_s, strict=True))


@pytest.mark.slow
def test_files_of_batsim_are_those_of_the_run() -> None:
    """They are the same bytes; without them the error names the command that writes them."""
    invoke("export", "out", "--batsim", "b")
    assert written("b") == sorted(FILES)
    for name in FILES:
        assert Path("b", name).read_bytes() == Path("out", name).read_bytes()
    Path("out/out_jobs.csv").unlink()
    done = invoke("export", "out", "--batsim", "c", "--swf", "c.swf")
    assert done.status == 2
    assert "out/out_jobs.csv is missing" in done.error
    assert "`hpcosim run SCENARIO --format batsim`" in done.error
    assert written() == ["b", "out", "scenario.yaml"]


@pytest.mark.slow
def test_an_export_replaces_files_only_by_force() -> None:
    """An existing file is an error, and no other file is written."""
    Path("run.swf").write_text("mine")
    done = invoke("export", "out", "--parquet", "tables", "--swf", "run.swf")
    assert (done.status, "run.swf exists; replace it with --force" in done.error) == (2, True)
    assert written() == ["out", "run.swf", "scenario.yaml"]
    assert Path("run.swf").read_text() == "mine"
    assert invoke("export", "out", "--swf", "run.swf", "--force").status == 0
    assert Path("run.swf").read_text().startswith("; Version: 2.2\n")


@pytest.mark.slow
def test_bad_input_is_an_error_in_one_line() -> None:
    """Nothing to write, and results that are damaged."""
    assert "nothing to write; expected --perfetto" in invoke("export", "out").error
    Path("out/schedule.csv").write_text("job_id\n")
    done = invoke("export", "out", "--swf", "run.swf", "--perfetto", "x/run.pftrace")
    assert done.status == 2
    assert "schedule.csv" in done.error
    assert written() == ["out", "scenario.yaml"]


@pytest.mark.slow
def test_a_full_disk_leaves_nothing() -> None:
    """The error names the file, and the files are as before."""
    for option, name in (("--perfetto", "x/run.pftrace"), ("--swf", "run.swf")):
        done = command("export", "out", option, name, preexec_fn=files_up_to(1000))
        assert (done.status, done.err) == (1, f"error: {name}: cannot be written: File too large\n")
    words = ("--swf", "a.swf", "--parquet", "tables")
    done = command("export", "out", *words, preexec_fn=files_up_to(1000))
    assert done.status == 1
    assert done.error.startswith("tables/jobs.parquet: cannot be written: ")
    assert written() == ["out", "scenario.yaml"]


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that is interrupted while it writes removes its drafts and folders."""

    def interrupted(_: object, file: IO[bytes]) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("hpcosim_view.export.outputs.write_perfetto", interrupted)
    done = invoke("export", "out", "--swf", "x/run.swf", "--perfetto", "x/run.pftrace")
    assert (done.status, done.error) == (130, "stopped by SIGINT")
    assert written() == ["out", "scenario.yaml"]
