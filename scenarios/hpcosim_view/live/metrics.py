"""The figures under `/metrics`, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from hpcosim_protocol import ServerStatus
from hpcosim_server.service.status import Cause
from hpcosim_server.service.vitals import MB
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_view.live.hub import Hub
from hpcosim_view.runs import printable

TOTALS = {
    "requests": "Requests of schedulers",
    "decisions": "Decisions of schedulers",
    "rejected": "Rejected decisions",
    "jobs_over": "Jobs that have ended or were rejected",
}
"""Fields of `Stats` that are summed over all sessions."""


class HubCollector(Collector):
    """Reads the figures of a hub when they are asked for."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._build = InfoMetricFamily("hpcosim_build", "Version of hpcosim")
        self._build.add_metric([], {"version": hpcosim_version()})

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        hub, feeds = self._hub, list(self._hub.feeds.values())
        yield self._build
        yield CounterMetricFamily("hpcosim_sessions", "Sessions opened", hub.sessions)
        open_now = sum(not feed.over for feed in feeds)
        yield GaugeMetricFamily("hpcosim_sessions_open", "Open sessions", open_now)
        for field, meaning in TOTALS.items():
            total = sum(getattr(stats, field) for stats in (hub.retired, *(f.stats for f in feeds)))
            yield CounterMetricFamily(f"hpcosim_{field}", meaning, total)
        yield GaugeMetricFamily("hpcosim_viewers", "Viewers of sessions", hub.viewers)
        skipped = hub.retired.skipped + sum(feed.stats.skipped for feed in feeds)
        what = "Frames put off because the queue was full; the next frame has their content"
        yield CounterMetricFamily("hpcosim_frames_skipped", what, skipped)
        size = sum(feed.history.size_bytes for feed in feeds)
        yield GaugeMetricFamily("hpcosim_history_bytes", "Memory of frames for viewers", size)
        if hub.status is not None:
            yield from _of_server(hub.status, healthy=not hub.problems())
        yield from self._of_sessions()

    def _of_sessions(self) -> Iterator[Metric]:
        """Yield the figures of the open sessions; those of closed ones are only in the totals."""
        about = InfoMetricFamily("hpcosim_session", "Names of an open session", labels=["session"])
        now = GaugeMetricFamily(
            "hpcosim_session_simulated_seconds", "Simulated time", labels=["session"]
        )
        counters = {
            field: CounterMetricFamily(f"hpcosim_session_{field}", meaning, labels=["session"])
            for field, meaning in TOTALS.items()
        }
        for feed in list(self._hub.feeds.values()):
            if feed.over:
                continue
            names = {"scenario": feed.scenario, "scheduler": feed.scheduler}
            about.add_metric([feed.label], {key: printable(text) for key, text in names.items()})
            now.add_metric([feed.label], feed.stats.now_s)
            for field, counter in counters.items():
                counter.add_metric([feed.label], getattr(feed.stats, field))
        yield from (about, now, *counters.values())


def _of_server(status: ServerStatus, *, healthy: bool) -> Iterator[Metric]:
    """Yield the figures of the status of the server."""
    yield GaugeMetricFamily("hpcosim_healthy", "1: as /healthz says; 0: it is not", healthy)
    what = "Processes for sessions"
    yield GaugeMetricFamily("hpcosim_workers", what, status.workers)
    what = "Memory of these processes"
    yield GaugeMetricFamily("hpcosim_memory_bytes", what, MB * status.memory_mb)
    for name, what, value in (
        ("sessions_refused", "Sessions that were not opened", status.sessions_refused),
        ("journals_failed", "Journals that could not be written", status.journals_failed),
        ("process_restarts", "Processes started again after a failure", status.restarts),
        ("messages_lost", "Messages to peers that did not read", status.messages_lost),
    ):
        yield CounterMetricFamily(f"hpcosim_{name}", what, value)
    failures = CounterMetricFamily("hpcosim_failures", "Failures by cause", labels=["cause"])
    for cause in get_args(Cause):
        failures.add_metric([cause], status.failures.get(cause, 0))
    yield failures


def registry_of(hub: Hub) -> CollectorRegistry:
    """Return a registry with the figures of a hub."""
    registry = CollectorRegistry()
    registry.register(HubCollector(hub))
    return registry
