"""Running twins for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from hpcosim_twin.cluster.follow import FollowSettings
from hpcosim_twin.cluster.sources import Source
from hpcosim_twin.service.access import TOKENS, Visible
from hpcosim_twin.service.desk import DeskSettings
from hpcosim_twin.service.running import TwinSettings, run_twin
from hpcosim_view.live.address import HttpAddress
from support.fake_cluster import FakeCluster
from support.processes import eventually
from support.twin_sources import FakeSource

OPERATOR_TOKEN, ANN_TOKEN, BOB_TOKEN = ("operator-token-0", "token-of-ann-000", "token-of-bob-000")
FAST = DeskSettings(futures=3, rate_per_s=1000.0, burst=10_000)


class StillSource(FakeSource):
    """A cluster in which time stands still."""

    def wait(self, timeout_s: float, over: threading.Event) -> None:
        """Wait a moment."""
        over.wait(0.02)


def two_users() -> FakeCluster:
    """Return a cluster of four nodes where ann's and bob's jobs run and wait: 1 to 10."""
    cluster = FakeCluster()
    for at in range(10):
        number = cluster.submit(run_s=3000.0, limit_s=3600.0)
        user = "ann" if at % 2 else "bob"
        cluster.jobs[number] = replace(cluster.jobs[number], user=user, account=f"of-{user}")
    cluster.now_s += 60.0
    return cluster


class RunningTwin(NamedTuple):
    """A twin that runs in a thread."""

    url: str
    folder: Path

    def client(self, token: str = OPERATOR_TOKEN, **options: Any) -> httpx.Client:
        """Return a client with a token; empty: without."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        limits = httpx.Limits(max_connections=None)
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=60.0, verify=False, limits=limits, **options
        )

    def ask(self, question: Mapping[str, Any], token: str = OPERATOR_TOKEN) -> httpx.Response:
        """Return the reply to a question."""
        with self.client(token) as client:
            return client.post("/ask", json=dict(question))


@contextmanager
def running_twin(
    folder: Path, source: Source, visible: Visible = "own", desk: DeskSettings = FAST
) -> Iterator[RunningTwin]:
    """Run a twin of a source during the `with` block."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = folder / TOKENS
    tokens.touch(0o600)
    lines = (f"{OPERATOR_TOKEN} *", f"{ANN_TOKEN} ann", f"{BOB_TOKEN} bob")
    tokens.write_text("\n".join(lines))
    settings = TwinSettings(
        address=HttpAddress("127.0.0.1", 0),
        folder=folder,
        visible=visible,
        forecast_s=1e9,
        follow=FollowSettings(poll_s=0.02, check_s=1.0, fresh_s=1e9),
        desk=desk,
    )
    told: list[str] = []
    over = threading.Event()
    thread = threading.Thread(
        target=run_twin,
        args=(source, settings, over.is_set, lambda url, _: told.append(url)),
    )
    thread.start()
    try:
        eventually(lambda: told)
        twin = RunningTwin(told[0], folder)
        with twin.client() as client:
            eventually(lambda: client.get("/health").status_code == 200)
        yield twin
    finally:
        over.set()
        thread.join(30.0)
        assert not thread.is_alive()


def error_of(reply: httpx.Response) -> str:
    """Return the one line of an error."""
    text: str = json.loads(reply.text)["error"]
    assert "\n" not in text
    assert "Traceback" not in text
    return text
