"""Experiments on a Ray cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ray", reason="the Ray executor needs the extra ray")
pytest.importorskip("pyarrow", reason="needs pyarrow")

from hpcosim_executors import Ray
from support.experiments import carry_out, write
from support.ray_clusters import ray_nodes

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


def test_ray_gives_the_same_bytes(tmp_path: Path) -> None:
    """Tables with a job log and a policy file of several modules are those of this process."""
    line = "{n} {n}0 0 60 4 -1 -1 4 60 -1 1 {n} -1 -1 -1 -1 -1 -1\n"
    (tmp_path / "log.swf").write_text("".join(line.format(n=n) for n in range(1, 40)))
    (tmp_path / "mine.py").write_text(POLICY)
    (tmp_path / "order.py").write_text("def key(job):\n    return job.requested_s\n")
    path = write(tmp_path, TEXT)
    carry_out(path, tmp_path / "here")
    with ray_nodes(2) as nodes:
        done, _, _ = carry_out(path, tmp_path / "ray", executor=Ray(address=nodes.address))
    assert not done.failed
    for name in ("results.parquet", "jobs.parquet", "breakdowns.parquet"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
