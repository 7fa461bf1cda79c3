"""Experiments give the same bytes on all executors."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

from hpcosim_experiments.executors import ExecutorSettings, Ray, Slurm
from support.experiments import carry_out, write
from support.slurm import skip_without_slurm

pytestmark = pytest.mark.slow

TEXT = """name: study
scenario: small.yaml
axes:
  source:
    values:
      log: {workload: {swf: log.swf}}
      model: {seed: 4}
  scheduler: [easy, 'mine.py:ordered']
  load: [0.5, 1]
jobs: true
measure: {size_classes: [1, 3]}
report: {figures: []}
"""
POLICY = """from order import key


def ordered(view):
    for job in sorted(view.queue.values(), key=key):
        view.start(job)
"""


def executor_named(name: str, request: pytest.FixtureRequest, folder: Path) -> ExecutorSettings:
    """Return an executor: a Ray cluster of two nodes, Slurm, or processes of submitit."""
    if name == "ray":
        return Ray(address=request.getfixturevalue("ray_address"))
    pytest.importorskip("submitit", reason="the Slurm executor needs the extra slurm")
    if name == "slurm":
        skip_without_slurm()
    return Slurm(cluster="slurm" if name == "slurm" else "local", array_size=2, folder=folder)


@pytest.mark.parametrize("name", ["ray", "slurm", "submitit"])
def test_the_tables_are_the_same_bytes(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Tables with a job log and a policy file of several modules are those of this process."""
    line = "{n} {n}0 0 60 4 -1 -1 4 60 -1 1 {n} -1 -1 -1 -1 -1 -1\n"
    (tmp_path / "log.swf").write_text("".join(line.format(n=n) for n in range(1, 40)))
    (tmp_path / "mine.py").write_text(POLICY)
    (tmp_path / "order.py").write_text("def key(job):\n    return job.requested_s\n")
    path = write(tmp_path, TEXT)
    carry_out(path, tmp_path / "here")
    executor = executor_named(name, request, tmp_path / "slurm-jobs")
    done, _, _ = carry_out(path, tmp_path / "there", executor=executor)
    assert not done.failed
    for table in ("results.parquet", "jobs.parquet", "breakdowns.parquet"):
        assert (tmp_path / "there" / table).read_bytes() == (tmp_path / "here" / table).read_bytes()
