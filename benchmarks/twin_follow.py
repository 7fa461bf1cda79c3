"""Follows a synthetic day of a cluster as fast as possible, and compares the picture at each check.

    python -m benchmarks.twin_follow [JOBS]

The accounting of a day is written as sacct prints it, read, and played to a follower with polls of
10 s and full readings of 120 s. Twice the controller does not answer for 20 minutes. At each full
reading the jobs of the picture are compared with those of the source, and every two hours with the
queue that `recorded.state_at` rebuilds from all records. It prints differences, time and memory.
"""

from __future__ import annotations

import heapq
import math
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from hpcosim_protocol import NodeGroup, Partition, Platform, Processor
from hpcosim_slurm.errors import UnreachableError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds.difference import Change
from hpcosim_twin.cluster.follow import Follower, FollowSettings
from hpcosim_twin.cluster.observation import Site
from hpcosim_twin.cluster.recorded import read_accounting, state_at
from hpcosim_twin.cluster.sources import RecordedSource

DAY_S, NODES, MEAN_RUN_S = 86_400, 1000, 1700.0
FIRST_S = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
GAPS_S = ((6 * 3600.0, 6 * 3600.0 + 1200.0), (15 * 3600.0, 15 * 3600.0 + 1200.0))
COLUMNS = (
    "JobID|JobIDRaw|JobName|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|State|"
    "TimelimitRaw|ReqTRES|NNodes|NodeList"
)


class GappedSource(RecordedSource):
    """Recorded accounting whose controller does not answer in `GAPS_S`."""

    def change(self, before: ClusterState) -> Change:
        """See `Source`."""
        if any(start <= self.now_s - FIRST_S < end for start, end in GAPS_S):
            raise UnreachableError(("squeue",), "Unable to contact slurm controller")
        return super().change(before)


def accounting(jobs: int, generator: np.random.Generator) -> str:
    """Return the accounting of a day: jobs of one node, first come, first served."""
    free = [(0.0, node) for node in range(1, NODES + 1)]
    lines = [COLUMNS]
    submits = np.sort(generator.uniform(0.0, DAY_S, jobs)).round()
    runs = generator.exponential(MEAN_RUN_S, jobs).round() + 1.0
    for number, (submit_s, run_s) in enumerate(
        zip(submits.tolist(), runs.tolist(), strict=True), 1
    ):
        free_s, node = heapq.heappop(free)
        start_s = max(submit_s, free_s) + 1.0
        heapq.heappush(free, (start_s + run_s, node))
        submit, start, end = map(clock, (submit_s, start_s, start_s + run_s))
        user = f"user{number % 97}"
        lines.append(
            f"{number}|{number}|job|{user}|a{number % 7}|batch|normal|{submit}|{submit}|{start}|"
            f"{end}|{run_s:.0f}|COMPLETED|{math.ceil(run_s / 60) * 2}|cpu=16,node=1|1|n{node}"
        )
    return "\n".join(lines) + "\n"


def clock(at_s: float) -> str:
    """Return a time of the day as sacct prints it."""
    return datetime.fromtimestamp(FIRST_S + at_s, UTC).replace(tzinfo=None).isoformat()


def present(state: ClusterState) -> dict[int, LiveJob]:
    """Return the jobs that wait or run."""
    return {number: job for number, job in state.jobs.items() if job.state != "over"}


def memory_mb() -> float:
    """Return the resident memory of this process, MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main(jobs: int) -> None:
    """Follow the day."""
    platform = Platform(
        (NodeGroup(NODES, (Processor(16, 1.0, 1.0, 0.0, 1.0),), names=f"n[1-{NODES}]"),),
        partitions=(Partition(name="batch", nodes=((0, NODES - 1),), default=True),),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.psv"
        path.write_text(accounting(jobs, np.random.default_rng(1)))
        found = read_accounting(path, Site(platform, {}), ImportReport())
        source = GappedSource(found, FIRST_S, math.inf)
        state_file = Path(folder) / "state.json"
        follower = Follower(source, FollowSettings(learn_s=1e9), state_file)
        started_s, checks, wrong, rebuilt = time.perf_counter(), 0, 0, 0
        most_s = [0.0, 0.0]  # of a poll, of a check
        steps = 0
        while source.now_s < FIRST_S + DAY_S:
            step_s = time.perf_counter()
            follower.step()
            step_s = time.perf_counter() - step_s
            steps += 1
            is_check = follower.counts.checks > checks
            most_s[is_check] = max(most_s[is_check], step_s)
            assert follower.snapshot is not None
            state = follower.snapshot.observation.state
            if is_check:
                checks = follower.counts.checks
                wrong += present(state) != present(source.read())
                if checks % 60 == 1:
                    rebuilt += 1
                    wrong += present(state) != present(state_at(found, source.now_s).state)
                    hour, shown = (source.now_s - FIRST_S) / 3600, len(present(state))
                    print(f"{hour:5.1f} h: {shown} jobs present, {memory_mb():.0f} MiB")
            source.now_s += 10.0
        took_s = time.perf_counter() - started_s
        size = state_file.stat().st_size / 2**20
    print(
        f"{jobs} jobs: {follower.counts.polls} polls, {checks} checks, {rebuilt} beside state_at; "
        f"{wrong} pictures wrong, {dict(follower.counts.differences)} differences, "
        f"{follower.counts.failures} readings failed; longest poll {1000 * most_s[0]:.0f} ms, "
        f"longest check {1000 * most_s[1]:.0f} ms; {took_s:.0f} s in all; "
        f"state file {size:.1f} MiB, memory at most "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
