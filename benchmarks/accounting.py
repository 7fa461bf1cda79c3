"""CPU time of importing 200,000 lines of each manager's accounting.

`PYTHONPATH=tests python -m benchmarks.accounting` prints a row for each form of a file. The time is
that of the whole import: reading, jobs, recorded runs, scenario and writing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from hpcosim_slurm.files.accounting import import_accounting
from support.accounting_files import (
    SiteJob,
    lsf_line,
    oar_mysql,
    oar_postgres,
    pbs_lines,
    sge_lines,
    site_jobs,
)

LINES = 200_000
Form = Callable[[Sequence[SiteJob], int], list[str]]
"""Returns the lines of jobs; of many lines, a given number of the first ones."""


def _each(lines: Callable[[SiteJob], Sequence[str]]) -> Form:
    return lambda jobs, most: list(islice((line for job in jobs for line in lines(job)), most))


def _one_core(jobs: Sequence[SiteJob], most: int) -> list[SiteJob]:
    """Return jobs with one assigned resource, so that each has three rows."""
    return [replace(job, nodes=job.nodes[:1], cores=1) for job in jobs[: most // 3]]


FORMS: dict[str, Form] = {
    "pbs: Q, S and E": _each(pbs_lines),
    "pbs: E": _each(lambda job: pbs_lines(job)[-1:]),
    "lsf": _each(lambda job: [lsf_line(job)]),
    "sge: serial jobs": _each(lambda job: sge_lines(replace(job, nodes=job.nodes[:1]))),
    "sge: parallel jobs": _each(sge_lines),
    "oar: COPY": lambda jobs, most: oar_postgres(_one_core(jobs, most)),
    "oar: INSERT": lambda jobs, most: oar_mysql(_one_core(jobs, most), rows_a_line=1),
}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    most = parser.parse_args().lines
    jobs = site_jobs(most)
    print(f"{'accounting':20} {'lines':>9} {'jobs':>9} {'CPU, s':>8}")
    for name, form in FORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "accounting"
            lines = form(jobs, most)
            path.write_text("".join(f"{line}\n" for line in lines))
            began_s = time.process_time()
            report = import_accounting(name.partition(":")[0], [path], Path(folder) / "out")
            took_s = time.process_time() - began_s
        count = report.written[0].rpartition(": ")[2].partition(" ")[0]
        print(f"{name:20} {len(lines):>9,} {count:>9} {took_s:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
