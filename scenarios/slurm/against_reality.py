#!/usr/bin/env python3
"""Compares the simulated jobs of jobs.yaml with the same jobs on a real Slurm.

`run_jobs.py --mode place` writes the journal of the real run. This script writes both runs as
results folders, report.html with both, and table.md, which it prints, too.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from hpcosim import __version__
from hpcosim_protocol import AllocateJob
from hpcosim_protocol.hosts import compress
from hpcosim_scenarios import load_scenario, run_scenario
from hpcosim_sim.record.results import Run, write_results
from hpcosim_slurm.journal import AnyRecord, Asked, Seen, read
from hpcosim_slurm.report.figures import JobRow, OneRun, SessionRows, run_of
from hpcosim_view.report import write_report
from hpcosim_workloads.table import JobSpec

SCENARIO = Path(__file__).with_name("jobs.yaml")


class JobTimes(NamedTuple):
    """When a job did what, s since the first submission."""

    submit_s: float
    decided_s: float
    start_s: float
    end_s: float
    nodes: tuple[int, ...]


class Compared(NamedTuple):
    """A job in both runs.

    Attributes:
        added_s: sum of the start delays of this job and of those before it, s: the jobs for whose
            end it waited in the simulation, and so on; the largest sum.
        in_a_row: number of these jobs.
    """

    number: int
    simulated: JobTimes
    real: JobTimes
    added_s: float
    in_a_row: int

    @property
    def delay_s(self) -> float:
        """Start delay of Slurm: time from the decision to the start, s."""
        return self.real.start_s - self.real.decided_s

    @property
    def difference_s(self) -> float:
        """Real start minus the simulated one, s."""
        return self.real.start_s - self.simulated.start_s

    @property
    def longer_s(self) -> float:
        """Real time from start to end minus the simulated one, s: the work of the host."""
        simulated, real = self.simulated, self.real
        return (real.end_s - real.start_s) - (simulated.end_s - simulated.start_s)


def main() -> int:
    """Write both runs and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journal", type=Path, help="journal of `run_jobs.py --mode place`")
    parser.add_argument("--out", type=Path, required=True, help="folder")
    options = parser.parse_args()
    _, folder = run_scenario(SCENARIO, out=options.out / "simulated", force=True)
    real = real_times(read(options.journal, _warn))
    write_real(real, options.out / "real")
    page = write_report([folder, options.out / "real"], options.out / "report.html", force=True)
    text = table(compared(simulated_times(folder), real))
    (options.out / "table.md").write_text(text)
    sys.stdout.write(f"{text}\n{page}\n")
    return 0


def _warn(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def real_times(records: Iterable[AnyRecord]) -> dict[int, JobTimes]:
    """Return the times of a real run, as the bridge saw them: Slurm's own have whole seconds."""
    seen: dict[int, dict[str, float]] = {}
    nodes: dict[int, tuple[int, ...]] = {}
    number: dict[str, int] = {}
    for record in records:
        if isinstance(record, Asked):
            for decision in record.request.decisions:
                if isinstance(decision, AllocateJob):
                    seen[decision.job_id]["decided"] = record.at_s
        elif isinstance(record, Seen):
            for node in record.change.nodes:
                number.setdefault(node.name, len(number))
            for job in record.change.jobs:
                times = seen.setdefault(job.id, {"submit": record.at_s})
                if job.nodes:
                    times.setdefault("start", record.at_s)
                    nodes[job.id] = tuple(number[name] for name in job.nodes)
                if job.state in ("completing", "over"):
                    times.setdefault("end", record.at_s)
    first_s = min(times["submit"] for times in seen.values())

    def since_first(job: int, what: str) -> float:
        return seen[job][what] - first_s

    return {
        job: JobTimes(
            since_first(job, "submit"),
            since_first(job, "decided"),
            since_first(job, "start"),
            since_first(job, "end"),
            nodes[job],
        )
        for job in seen
    }


def simulated_times(folder: Path) -> dict[int, JobTimes]:
    """Return the times of a results folder."""
    rows = csv.DictReader((folder / "jobs.csv").read_text().splitlines())
    return {
        int(row["job_id"]): JobTimes(
            float(row["submit_s"]),
            float(row["start_s"]),
            float(row["start_s"]),
            float(row["end_s"]),
            tuple(_numbers(row["nodes"])),
        )
        for row in rows
    }


def _numbers(ranges: str) -> Iterable[int]:
    for each in ranges.split():
        first, _, last = each.partition("-")
        yield from range(int(first), int(last or first) + 1)


def compared(simulated: dict[int, JobTimes], real: dict[int, JobTimes]) -> list[Compared]:
    """Return the jobs in both runs, in the order of their simulated starts."""
    rows: dict[int, Compared] = {}
    for number, it in sorted(simulated.items(), key=lambda item: (item[1].start_s, item[0])):
        waited = [
            row
            for row in rows.values()
            if it.start_s > it.submit_s and row.simulated.end_s == it.start_s
        ]
        before_s = max((row.added_s for row in waited), default=0.0)
        in_a_row = 1 + max((row.in_a_row for row in waited), default=0)
        delay_s = real[number].start_s - real[number].decided_s
        rows[number] = Compared(number, it, real[number], before_s + delay_s, in_a_row)
    return list(rows.values())


def is_order_equal(rows: Sequence[Compared]) -> bool:
    """Return whether jobs start in the same order; jobs of one simulated instant may swap."""
    latest_s, before_s, time_s = -math.inf, -math.inf, -math.inf
    for row in rows:
        if row.simulated.start_s > time_s:
            before_s, time_s = latest_s, row.simulated.start_s
        if row.real.start_s <= before_s:
            return False
        latest_s = max(latest_s, row.real.start_s)
    return True


def write_real(real: dict[int, JobTimes], folder: Path) -> None:
    """Write the real run as a results folder, on the platform of the scenario."""
    scenario = load_scenario(SCENARIO)
    rows = []
    for line in (SCENARIO.parent / "jobs.jsonl").read_text().splitlines():
        job = json.loads(line)
        it = real[job["job_id"]]
        spec = JobSpec(
            job["job_id"], job["submit_s"], math.inf, job["requested_s"], job["cores"], "cores"
        )
        run = OneRun(it.start_s, it.end_s, it.nodes, (), "completed")
        rows.append(JobRow(spec, False, OneRun(), run))
    end_s = max(it.end_s for it in real.values())
    session = SessionRows("easy", "Slurm", scenario.platform, 0.0, end_s, rows, [], [], 0, 0, 0, [])
    about = Run(
        scenario=scenario.name,
        scheduler="easy on Slurm",
        seed=0,
        complete=True,
        ended_because="all jobs are over",
        hpcosim=__version__,
        realtime=1.0,
    )
    write_results(folder, run_of(session, lambda row: row.real, is_real=True).record, about)


def table(rows: Sequence[Compared]) -> str:
    """Return the table of the jobs, and what it shows, in Markdown."""
    lines = [
        "| job | nodes, simulated | nodes, real | start, simulated | start, real | difference | "
        "start delay | starts in a row | sum of their delays |",
        "|---:|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        one, other = row.simulated, row.real
        lines.append(
            f"| {row.number} | {_text(one.nodes)} | {_text(other.nodes)} | {one.start_s:.1f} | "
            f"{other.start_s:.1f} | {row.difference_s:.1f} | {row.delay_s:.2f} | {row.in_a_row} | "
            f"{row.added_s:.1f} |"
        )
    delays_s = [row.delay_s for row in rows]
    rest_s = max(abs(row.difference_s - row.added_s) for row in rows)
    order = "equal" if is_order_equal(rows) else "different"
    lines += [
        "",
        f"Times in s. Order of starts: {order}. Start delay: mean {fmean(delays_s):.2f} s, largest "
        f"{max(delays_s):.2f} s. Largest distance of a difference to the sum of the delays: "
        f"{rest_s:.2f} s. Runs are up to {max(row.longer_s for row in rows):.2f} s longer than in "
        "the simulation.",
    ]
    return "\n".join(lines) + "\n"


def _text(nodes: Sequence[int]) -> str:
    return compress(map(str, nodes)).strip("[]")


if __name__ == "__main__":
    sys.exit(main())
