"""The figures under `/metrics`, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hpcosim_live.hub import Hub

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

    def collect(self) -> Iterator[Metric]:
        """Yield the figures."""
        hub, feeds = self._hub, list(self._hub.feeds.values())
        yield CounterMetricFamily("hpcosim_sessions", "Sessions opened", hub.sessions)
        open_now = sum(not feed.over for feed in feeds)
        yield GaugeMetricFamily("hpcosim_sessions_open", "Open sessions", open_now)
        for field, meaning in TOTALS.items():
            total = sum(getattr(stats, field) for stats in (hub.retired, *(f.stats for f in feeds)))
            yield CounterMetricFamily(f"hpcosim_{field}", meaning, total)
        yield GaugeMetricFamily("hpcosim_viewers", "Viewers of sessions", hub.viewers)
        skipped = sum(feed.skipped for feed in feeds)
        what = "Frames put off because the queue was full; the next frame has their content"
        yield CounterMetricFamily("hpcosim_frames_skipped", what, skipped)
        size = sum(feed.history.size_bytes for feed in feeds)
        yield GaugeMetricFamily("hpcosim_history_bytes", "Memory of frames for viewers", size)
        yield from self._of_sessions()

    def _of_sessions(self) -> Iterator[Metric]:
        labels = ["session", "scenario", "scheduler"]
        now = GaugeMetricFamily(
            "hpcosim_simulated_seconds", "Simulated time of a session", labels=labels
        )
        rate = GaugeMetricFamily(
            "hpcosim_messages_per_second", "Requests of a session in the last second", labels=labels
        )
        for feed in self._hub.feeds.values():
            values = [feed.label, feed.scenario, feed.scheduler]
            now.add_metric(values, feed.stats.now_s)
            rate.add_metric(values, feed.stats.messages_per_s)
        yield from (now, rate)


def registry_of(hub: Hub) -> CollectorRegistry:
    """Return a registry with the figures of a hub."""
    registry = CollectorRegistry()
    registry.register(HubCollector(hub))
    return registry
