"""What a process of a server keeps of sessions that are over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpcosim_server.service.memory import COLLECT_AFTER
from support.processes import SOON_S

KEPT_BYTES = 8192
"""Largest memory that is kept of a session that is over, bytes: its last reply among it."""
TESTS = Path(__file__).parents[1]
SERVE = f"""
import gc, json, sys, tracemalloc
from collections import Counter
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
from hpcosim_protocol import Bye
from support.journaled import JournaledScheduler, JournaledServer

def serve(sessions):
    for _ in range(sessions):
        scheduler = JournaledScheduler(server)
        scheduler.step()
        server.send(Bye(session=scheduler.session))
        server.service.tidy()
        server.disk.files.clear()

def objects():
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects())

gc.set_threshold(100_000)  # as the command line does
server = JournaledServer(Path(sys.argv[1]), jobs=200)
serve(20)
before = objects()
tracemalloc.start()
serve(100)
simulations = sum(type(each).__name__ == "Simulation" for each in gc.get_objects())
more = objects() - before
print(json.dumps([simulations, more, tracemalloc.get_traced_memory()[0]]))
"""


@pytest.mark.slow
def test_sessions_that_are_over_leave_only_their_last_reply(tmp_path: Path) -> None:
    """Neither simulations nor jobs of them stay: other memory is that of the allocator.

    Simulations are freed although Python seldom looks for cycles.
    In a process of its own, because tests keep the simulations of theirs to check them.
    """
    words = [sys.executable, "-c", SERVE, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=SOON_S)
    simulations, more, size = json.loads(done.stdout)
    assert simulations <= COLLECT_AFTER
    assert more.pop("ClosedSession") == 100
    assert not {name: count for name, count in more.items() if count >= 50}
    assert size / 100 < KEPT_BYTES
