"""A run as a trace of Perfetto, for the viewer at ui.perfetto.dev and its trace processor.

Tracks: a group for each node group, in it a track for each node. The track of a node has a slice
for each job there; jobs that share the node are on child tracks, `lane 2` and so on. The child
track `power state` has a slice for each period in which the node is not on. Counters: power by
state of the nodes, jobs waiting, utilization. Timestamps are simulated times in ns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from importlib import import_module
from typing import IO, Any

from hpcosim_sim.record.periods import PERIOD_ENDS
from hpcosim_sim.record.recording import POWER_STATES
from hpcosim_view.errors import ExportError
from hpcosim_view.run.extracts import (
    Counter,
    Node,
    Placements,
    by_job,
    clean,
    counters_of,
    job_changes,
    named,
    nodes_of,
    states_of,
)
from hpcosim_view.run.frame import Frame, periods_of

NS_PER_S = 10**9
MAX_S = 2**63 / NS_PER_S
SEQUENCE = 1
ON = POWER_STATES.index("on")


def write_perfetto(frame: Frame, file: IO[bytes]) -> None:
    """Write the trace of a run. The same run gives the same bytes.

    The trace is written packet by packet: the memory does not grow with the number of slices.

    Raises:
        ExportError: the package `perfetto` is missing, or a time does not fit into a trace.
    """
    about = frame.about
    if not 0 <= about["start_s"] <= about["now_s"] < MAX_S:
        raise ExportError(
            f"--perfetto: expected simulated times from 0 to {MAX_S:.3g} s, which a trace in "
            f"nanoseconds can state; got {about['start_s']:g} to {about['now_s']:g} s"
        )
    trace = _Trace(file)
    for counter in counters_of(frame):
        _write_counter(trace, counter)
    nodes = nodes_of(frame)
    tracks = _write_nodes(trace, nodes)
    _write_power_states(trace, frame, tracks)
    _write_jobs(trace, frame, tracks)


def nanoseconds(time_s: float) -> int:
    """Return a simulated time in ns."""
    return round(time_s * NS_PER_S)


class _Trace:
    """Writes tracks and events."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            protos: Any = import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
            builders: Any = import_module("perfetto.trace_builder.proto_builder")
        except ImportError:
            raise ExportError(
                "--perfetto needs the package perfetto: pip install 'hpcosim[perfetto]'"
            ) from None
        self.protos = protos
        self._builder = builders.StreamingTraceProtoBuilder(file)
        self._tracks = 0
        self._cleared = False

    def track(self, name: str, parent: int = 0, rank: int = 0, **fields: Any) -> int:
        """Write the description of a track and return its number."""
        self._tracks += 1
        kind = self.protos.TrackDescriptor
        packet = self._packet()
        packet.track_descriptor.CopyFrom(
            kind(
                uuid=self._tracks,
                parent_uuid=parent or None,
                name=name,
                sibling_order_rank=rank,
                child_ordering=kind.EXPLICIT,
                # Nodes of the same name, as those of groups of the same name, are no one track.
                sibling_merge_behavior=kind.SIBLING_MERGE_BEHAVIOR_NONE,
                **fields,
            )
        )
        self._builder.write_packet(packet)
        return self._tracks

    def begin(self, time_s: float, track: int, event: Any) -> None:
        """Write the begin of a slice."""
        event.type, event.track_uuid = self.protos.TrackEvent.TYPE_SLICE_BEGIN, track
        self._write(time_s, event)

    def end(self, time_s: float, track: int) -> None:
        """Write the end of the innermost slice of a track."""
        kind = self.protos.TrackEvent
        self._write(time_s, kind(type=kind.TYPE_SLICE_END, track_uuid=track))

    def count(self, time_s: float, track: int, value: float) -> None:
        """Write the value of a counter from a time on."""
        kind = self.protos.TrackEvent
        event = kind(type=kind.TYPE_COUNTER, track_uuid=track, double_counter_value=value)
        self._write(time_s, event)

    def _write(self, time_s: float, event: Any) -> None:
        packet = self._packet()
        packet.timestamp = nanoseconds(time_s)
        packet.track_event.CopyFrom(event)
        self._builder.write_packet(packet)

    def _packet(self) -> Any:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        if not self._cleared:
            packet.sequence_flags = self.protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            self._cleared = True
        return packet


def _write_counter(trace: _Trace, counter: Counter) -> None:
    unit = trace.protos.CounterDescriptor(unit_name=counter.unit)
    track = trace.track(counter.name, counter=unit)
    for time_s, value in counter.samples:
        trace.count(time_s, track, value)


def _write_nodes(trace: _Trace, nodes: list[Node]) -> list[int]:
    """Return the track of each node."""
    groups: dict[str, int] = {}
    tracks = []
    for node in nodes:
        if node.group not in groups:
            groups[node.group] = trace.track(node.group or "nodes", rank=1 + len(groups))
        name = f"node {node.number}"
        tracks.append(trace.track(name, groups[node.group], node.number))
    return tracks


def _write_power_states(trace: _Trace, frame: Frame, nodes: list[int]) -> None:
    columns = [frame.columns[f"power.{name}"].tolist() for name in ("time_s", "node", "state")]
    tracks: dict[int, int] = {}
    off: set[int] = set()
    for time_s, node, state in zip(*columns, strict=True):
        if node not in tracks:
            tracks[node] = trace.track("power state", nodes[node])
        if node in off:
            trace.end(time_s, tracks[node])
            off.remove(node)
        if state != ON:
            event = trace.protos.TrackEvent(name=POWER_STATES[state], categories=["power"])
            trace.begin(time_s, tracks[node], event)
            off.add(node)
    for node in sorted(off):
        trace.end(frame.about["now_s"], tracks[node])


def _write_jobs(trace: _Trace, frame: Frame, nodes: list[int]) -> None:
    placements, lanes = Placements(frame), _Lanes(trace, nodes)
    events = _job_events(trace, frame)
    taken: dict[int, list[tuple[int, int]]] = {}  # node and lane, by row of the job
    for change in job_changes(frame):
        if not change.starts:
            for node, lane in taken.pop(change.job):
                trace.end(change.time_s, lanes.release(node, lane))
            continue
        event = next(events)
        places = placements.of(change.start)
        flow = change.job + 1
        taken[change.job] = []
        for index, place in enumerate(places):
            lane = lanes.take(place.node)
            taken[change.job].append((place.node, lane))
            each = trace.protos.TrackEvent()
            each.CopyFrom(event)
            each.debug_annotations.add(name="cores_here", int_value=place.cores)
            if len(places) > 1:
                last = index + 1 == len(places)
                (each.terminating_flow_ids if last else each.flow_ids).append(flow)
            trace.begin(change.time_s, lanes.track(place.node, lane), each)


def _job_events(trace: _Trace, frame: Frame) -> Iterator[Any]:
    """Yield the event of each start, without its node, in the order of the starts."""
    columns: dict[str, list[Any]] = {
        name: frame.columns[name].tolist() for name in frame.columns if name[:4] in ("job.", "star")
    }
    texts: dict[str, Sequence[str | None]] = {
        "user": named(frame, "users", "job.user"),
        "group": named(frame, "groups", "job.group"),
        "partition": named(frame, "partitions", "job.partition"),
        "state": states_of(frame),
        "waited_because": _last_reasons(frame),
    }
    energy_j = by_job(frame, "end.job", "end.energy_j").tolist()
    periods = periods_of(frame)
    run_start_s, why = periods.run_start_s.tolist(), periods.why.tolist()
    for start, job in enumerate(columns["start.job"]):
        event = trace.protos.TrackEvent(
            name=f"job {columns['job.id'][job]}", categories=["job"], correlation_id=job + 1
        )
        add = event.debug_annotations.add
        add(name="cores", int_value=columns["job.cores"][job])
        numbers = {
            "wait_s": run_start_s[start] - columns["job.submit_s"][job],
            "requested_s": columns["job.requested_s"][job],
            "energy_j": energy_j[job],
        }
        for name, number in numbers.items():
            if math.isfinite(number):
                add(name=name, double_value=number)
        for name, text in texts.items():
            value = text[job]
            if value is not None:
                add(name=name, string_value=value)
        if why[start]:
            add(name="period_end", string_value=PERIOD_ENDS[why[start]])
        yield event


def _last_reasons(frame: Frame) -> list[str | None]:
    """Return the last reason why each job waited; None: unknown."""
    reasons: list[str | None] = [None] * len(frame.columns["job.id"])
    jobs, names = frame.columns["explain.job"].tolist(), frame.columns["explain.reason"].tolist()
    for job, reason in zip(jobs, names, strict=True):
        reasons[job] = clean(frame.about["reasons"][reason])
    return reasons


class _Lanes:
    """The lanes of nodes; a job on a node takes the lowest free one."""

    def __init__(self, trace: _Trace, nodes: list[int]) -> None:
        self._trace = trace
        self._tracks = [[track] for track in nodes]
        self._free: list[list[int]] = [[0] for _ in nodes]

    def take(self, node: int) -> int:
        """Return the lowest free lane of a node, which is in use from now on."""
        tracks, free = self._tracks[node], self._free[node]
        if free:
            return heappop(free)
        tracks.append(self._trace.track(f"lane {len(tracks) + 1}", tracks[0], len(tracks)))
        return len(tracks) - 1

    def release(self, node: int, lane: int) -> int:
        """Free a lane of a node and return its track."""
        heappush(self._free[node], lane)
        return self.track(node, lane)

    def track(self, node: int, lane: int) -> int:
        """Return the track of a lane of a node."""
        return self._tracks[node][lane]
