"""Traces of Perfetto, read back with the classes of the package `perfetto`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_view.errors import ExportError
from hpcosim_view.export.perfetto import write_perfetto
from support.frames_by_hand import ENERGY_J, HOSTILE, NOW_S, small_run

protos: Any = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs the package perfetto"
)
NS = 10**9


class Slice(NamedTuple):
    """A slice: its track, times in ns, and its begin event."""

    track: str
    begin_ns: int
    end_ns: int
    event: Any


def trace_of(**about: Any) -> Any:
    """Return the trace of the run by hand."""
    file = io.BytesIO()
    write_perfetto(small_run(**about), file)
    trace = protos.Trace()
    trace.ParseFromString(file.getvalue())
    return trace


def paths(trace: Any) -> dict[int, str]:
    """Return the path of each track by its number."""
    found: dict[int, str] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            parent = f"{found[track.parent_uuid]}/" if track.parent_uuid else ""
            found[track.uuid] = parent + track.name
    return found


def slices(trace: Any) -> Iterator[Slice]:
    """Yield the slices; each track has at most one at a time."""
    tracks, begun = paths(trace), {}
    for packet in trace.packet:
        event = packet.track_event
        if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in begun
            begun[event.track_uuid] = packet
        elif event.type == protos.TrackEvent.TYPE_SLICE_END:
            begin = begun.pop(event.track_uuid)
            track = tracks[event.track_uuid]
            yield Slice(track, begin.timestamp, packet.timestamp, begin.track_event)
    assert not begun


def samples(trace: Any, name: str) -> list[tuple[int, float]]:
    """Return time, ns, and value of a counter."""
    tracks = paths(trace)
    return [
        (packet.timestamp, packet.track_event.double_counter_value)
        for packet in trace.packet
        if packet.track_event.type == protos.TrackEvent.TYPE_COUNTER
        and tracks[packet.track_event.track_uuid] == name
    ]


def test_a_job_is_a_slice_on_each_of_its_nodes() -> None:
    """Jobs that share a node are on lanes; a job without duration has a slice without duration."""
    found = {
        (each.event.name, each.track): (each.begin_ns, each.end_ns)
        for each in slices(trace_of())
        if each.event.categories == ["job"]
    }
    assert found == {
        ("job 1", "big/node 0"): (5 * NS, 70 * NS),
        ("job 1", "big/node 1"): (5 * NS, 70 * NS),
        ("job 2", "big/node 0/lane 2"): (5 * NS, 65_500_000_000),
        ("job 2", "big/node 1/lane 2"): (5 * NS, 65_500_000_000),
        ("job 3", "small/node 2"): (12_250_000_000, 12_250_000_000),
        ("job 4", "small/node 2"): (70 * NS, 100 * NS),
    }


def test_a_slice_has_the_facts_of_its_job() -> None:
    """Annotations state user, cores, wait, energy and the last reason why the job waited."""
    notes = {
        (each.event.name, each.track.split("/")[1]): {
            note.name: getattr(note, note.WhichOneof("value"))
            for note in each.event.debug_annotations
        }
        for each in slices(trace_of())
    }
    assert notes["job 1", "node 1"] == {
        "cores": 5,
        "cores_here": 3,
        "wait_s": 0.0,
        "requested_s": 120.0,
        "energy_j": 3000.0,
        "user": "ann",
        "group": "7",
        "partition": "batch",
        "state": "completed",
    }
    assert notes["job 2", "node 0"]["user"] == HOSTILE
    assert notes["job 4", "node 2"] == {
        "cores": 2,
        "cores_here": 2,
        "wait_s": 50.0,
        "requested_s": 30.0,
        "energy_j": 100.0,
        "state": "killed",
        "waited_because": "Resources",
    }


def test_the_slices_of_a_job_are_connected() -> None:
    """One flow connects the nodes of a job and ends at the last; a job on one node has none."""
    flows = {
        (each.event.name, each.track): (
            list(each.event.flow_ids),
            list(each.event.terminating_flow_ids),
        )
        for each in slices(trace_of())
    }
    assert flows["job 1", "big/node 0"] == ([1], [])
    assert flows["job 1", "big/node 1"] == ([], [1])
    assert flows["job 2", "big/node 1/lane 2"] == ([], [2])
    assert flows["job 4", "small/node 2"] == ([], [])


def test_a_node_that_is_not_on_has_slices_of_power_states() -> None:
    """A switched node has the track `power state`; the others have none."""
    found = [each for each in slices(trace_of()) if each.event.categories == ["power"]]
    assert {each.track for each in found} == {"small/node 2/power state"}
    assert [(each.event.name, each.begin_ns // NS, each.end_ns // NS) for each in found] == [
        ("switching_off", 30, 40),
        ("sleeping", 40, 60),
        ("switching_on", 60, 70),
    ]
    tracks = list(paths(trace_of()).values())
    assert sum(track.endswith("power state") for track in tracks) == 1


def test_the_integral_of_power_is_the_energy() -> None:
    """The integral of each power counter is the energy of its state."""
    trace = trace_of()
    for state in NODE_STATES[:-1]:  # no node is down
        points = samples(trace, f"power, {state}")
        assert points[-1][0] == NOW_S * NS
        energy_j = sum(value * (after - at) / NS for (at, value), (after, _) in pairwise(points))
        assert energy_j == pytest.approx(ENERGY_J[state])


def test_counters_have_queue_and_utilization() -> None:
    """Rejected jobs leave the queue; utilization counts the cores that jobs hold."""
    trace = trace_of()
    assert [(at / NS, value) for at, value in samples(trace, "jobs waiting")] == [
        *[(0, 0), (5, 0), (10.5, 1), (12.25, 0), (20, 1), (21, 1), (22, 2), (70, 1), (110, 1)]
    ]
    assert samples(trace, "utilization") == [
        (round(at_s * NS), 100 * cores / 10)
        for at_s, cores in [(0, 0), (5, 7), (12.25, 7), (65.5, 5), (70, 2), (100, 0), (110, 0)]
    ]


def test_a_trace_is_reproducible() -> None:
    """The same run gives the same bytes."""
    assert trace_of().SerializeToString() == trace_of().SerializeToString()


def test_times_that_do_not_fit_are_an_error() -> None:
    """A trace in nanoseconds ends after 292 years."""
    with pytest.raises(ExportError, match=r"times from 0 to 9.22e\+09 s"):
        trace_of(now_s=1e12)


def test_a_missing_package_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(ExportError, match=r"needs the package perfetto: pip install 'hpcosim\["):
        trace_of()
