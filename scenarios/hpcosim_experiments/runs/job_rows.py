"""The table of the jobs of a run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hpcosim_experiments.statistics.measured import MeasureSettings, measured_period
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_sim.record.tables import intervals
from hpcosim_workloads.table import PLACEMENTS

COMPRESSION = "zstd"

SCHEMA = pa.schema(
    {
        "job_id": pa.int64(),
        "submit_s": pa.float64(),
        "start_s": pa.float64(),
        "end_s": pa.float64(),
        "state": pa.string(),
        "cores": pa.int64(),
        "nodes": pa.string(),
        "energy_j": pa.float64(),
        "reason": pa.string(),
        "requested_s": pa.float64(),
        "placement": pa.string(),
        "user": pa.string(),
        "group": pa.string(),
        "partition": pa.string(),
        "measured": pa.bool_(),
    }
)
"""The columns of `jobs.csv`, and whether the job is in the measured period.

A cell that is empty in `jobs.csv` is null.
"""


def job_file(record: RunRecord, settings: MeasureSettings) -> bytes:
    """Return the table of the jobs of a run as a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(job_rows(record, settings), sink, compression=COMPRESSION)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def job_rows(record: RunRecord, settings: MeasureSettings) -> pa.Table:
    """Return the table of the jobs of a run, with the columns of `SCHEMA`.

    Arguments are those of `job_file`.
    """
    recording = record.recording
    rows = range(len(recording))
    start_s, end_s = np.array(recording.start_s), np.array(recording.end_s)
    submit_s = np.array(recording.submit_s)
    columns = {
        "job_id": np.array(recording.job_id),
        "submit_s": submit_s,
        "start_s": pa.array(start_s, mask=np.isnan(start_s)),
        "end_s": pa.array(end_s, mask=np.isnan(end_s)),
        "state": [STATES[code] for code in recording.state],
        "cores": np.array(recording.cores),
        "nodes": [intervals(recording.nodes_of(row)) or None for row in rows],
        "energy_j": np.array(record.job_energies_j),
        "reason": [recording.reasons.get(row) for row in rows],
        "requested_s": np.array(recording.requested_s),
        "placement": [PLACEMENTS[code] for code in recording.placement],
        "user": _known(recording.owners.names("user")),
        "group": _known(recording.owners.names("group")),
        "partition": _known(recording.owners.names("partition")),
        "measured": measured_period(submit_s, settings)[1],
    }
    return pa.table(columns, schema=SCHEMA)


def _known(names: list[str]) -> list[str | None]:
    return [name or None for name in names]
