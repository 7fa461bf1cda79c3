"""The modules of the viewer, in Node: runs every `*.test.mjs` of this folder.

The tests read the encoded frames that `_frames` writes into the folder `$HPCOSIM_FRAMES`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.periods import FIRST_FINAL, PERIOD_ENDS
from hpcosim_sim.record.recording import POWER_STATES, STATES
from hpcosim_view.run.frame import encode_frame, frame
from hpcosim_workloads.table import PLACEMENTS

FOLDER = Path(__file__).parent
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="no node here"),
]


@pytest.mark.parametrize("file", [path.name for path in sorted(FOLDER.glob("*.test.mjs"))])
def test_module_of_the_viewer(file: str, tmp_path: Path) -> None:
    """All tests of the file pass in Node."""
    for name, data in _frames().items():
        (tmp_path / f"{name}.hpcf").write_bytes(data)
    done = subprocess.run(
        [NODE or "node", "--test", str(FOLDER / file)],
        env=os.environ | {"HPCOSIM_FRAMES": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _frames() -> dict[str, bytes]:
    """Return encoded frames: `whole` is the run that `first` and `second` are the parts of."""
    start = {"scenario": "s", "scheduler": "easy", "seed": 1, "start_s": 10.0}
    names = {"users": ["<b>ann</b>", "böb"], "groups": ["g"], "partitions": ["p"]}
    platform = {"nodes": [[2, 4, "thin"], [1, 8, "fat"]]}
    first_jobs: dict[str, list[float]] = {
        "job.id": [3, 2**62],
        "job.submit_s": [10.0, 11.5],
        "job.requested_s": [100.0, np.nan],
        "job.cores": [6, 8],
        "job.placement": [0, 2],
        "job.user": [0, 1],
        "job.group": [0, -1],
        "job.partition": [-1, 0],
    }
    second_jobs: dict[str, list[float]] = {
        "job.id": [1],
        "job.submit_s": [20.0],
        "job.requested_s": [5.0],
        "job.cores": [1],
        "job.placement": [1],
        "job.user": [1],
        "job.group": [0],
        "job.partition": [0],
    }
    first = first_jobs | {
        "start.job": [0],
        "start.time_s": [10.0],
        "start.boxes": [2],
        "box.first": [0, 8],
        "box.last": [3, 9],
        "explain.job": [1],
        "explain.time_s": [11.5],
        "explain.reason": [1],
        "explain.expected_start_s": [110.0],
        "power.time_s": [12.0],
        "power.node": [1],
        "power.state": [1],
    }
    second = second_jobs | {
        "start.job": [1],
        "start.time_s": [30.0],
        "start.boxes": [1],
        "box.first": [8],
        "box.last": [15],
        "end.job": [0, 2],
        "end.time_s": [30.0, 31.0],
        "end.state": [2, 6],
        "end.energy_j": [1000.0, np.nan],
        "explain.job": [1, 2],
        "explain.time_s": [20.0, 20.0],
        "explain.reason": [0, 1],
        "explain.expected_start_s": [30.0, np.nan],
        "watts.time_s": [30.0],
        "watts.state": [0],
        "watts.power_w": [250.0],
    }
    whole = {
        name: [*first.get(name, []), *second.get(name, [])] for name in first.keys() | second.keys()
    }
    reasons = {"reasons": ["Resources", "Priority"]}
    ended = {"now_s": 40.0, "complete": False, "metrics": {"jobs": 3}}
    return {
        "first": encode_frame(frame({**start, **platform, **names, **reasons, "now_s": 25}, first)),
        "second": encode_frame(frame(ended, second)),
        "whole": encode_frame(frame({**start, **platform, **names, **reasons, **ended}, whole)),
        "empty": encode_frame(frame({"now_s": 0.0}, {})),
        "noise": encode_frame(frame({"now_s": 0.0}, _noise())),
    }


def _noise() -> dict[str, list[float]]:
    """Columns whose elements `frame.test.mjs` computes again."""
    rows = np.arange(1000)
    return {
        "watts.time_s": ((rows * 7919) % 1000 / 7).tolist(),
        "watts.state": (rows * 31 % 256).tolist(),
        "watts.power_w": (-(2.0 ** (rows % 60))).tolist(),
        "explain.job": (rows * 7919 * 271 - 2**30).tolist(),
        "explain.time_s": rows.tolist(),
        "explain.reason": (rows * 7919 % 65536).tolist(),
        "explain.expected_start_s": rows.tolist(),
        "box.first": (2**32 - 1 - rows * 7919).tolist(),
        "box.last": (2**32 - 1 - rows).tolist(),
    }


def test_states_of_the_viewer_are_those_of_the_simulator() -> None:
    """Indices in frames mean the same in Python and in the page."""
    model = FOLDER.parents[1] / "scenarios" / "hpcosim_view" / "web" / "model.js"
    names = ("JOB_STATES", "NODE_STATES", "POWER_STATES", "PLACEMENTS", "PERIOD_ENDS")
    script = f"import * as m from {json.dumps(model.as_uri())};" + "".join(
        f"console.log(JSON.stringify(m.{name}));" for name in names
    )
    command = [NODE or "node", "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert found == [STATES, NODE_STATES, POWER_STATES, PLACEMENTS, PERIOD_ENDS[:FIRST_FINAL]]
