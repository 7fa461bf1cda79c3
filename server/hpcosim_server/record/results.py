"""The results folder: the CSV files of `tables`, metrics.json, run.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from hpcosim_protocol import PROTOCOL_VERSION
from hpcosim_server.errors import ResultsError
from hpcosim_server.record.folder import LAST, OWN_FILES, Files, write_together
from hpcosim_server.record.metrics import Metrics, measure
from hpcosim_server.record.run_record import RunRecord
from hpcosim_server.record.tables import TABLES


class Run(msgspec.Struct, kw_only=True):
    """What was run: the content of `run.json`, apart from the platform.

    Attributes:
        hpcosim: version of the simulator.
        protocol: version of the protocol.
        scenario: name of the scenario.
        scheduler: the name the client gave itself.
        seed: of all random numbers.
        complete: whether every job of the workload is over.
        ended_because: why the run ended.
        skipped: number of jobs of the source left out or changed, by rule of the reader.
        policy: description of the policy, as the client gave it in its hello.
    """

    hpcosim: str
    protocol: int = PROTOCOL_VERSION
    scenario: str
    scheduler: str
    seed: int
    complete: bool = False
    ended_because: str = ""
    skipped: Mapping[str, int] = {}
    policy: Mapping[str, object] = {}


Also = Callable[[RunRecord], Files]
"""An additional result writer: returns the files of a run in another format."""

# Rules of the readers that change a job but keep it.
_KEPT = frozenset({"requested_time_unknown", "out_of_order", "cores_capped"})


def metrics_of(record: RunRecord, run: Run) -> Metrics:
    """Return the metrics of a run, finished or not."""
    left_out = sum(count for rule, count in run.skipped.items() if rule not in _KEPT)
    return measure(record, left_out)


def write_results(folder: Path, record: RunRecord, run: Run, also: Sequence[Also] = ()) -> None:
    """Write the files of a run.

    They replace all files of an earlier run, pictures included; other files stay.

    Args:
        folder: the results folder.
        record: a run, finished or not.
        run: what was run.
        also: additional result writers, for files in other formats.

    Raises:
        ResultsError: they cannot be written; the folder is as it was before. The error has the
            metrics.
    """
    about = msgspec.to_builtins(run) | {"platform": record.platform}
    files: dict[str, Iterable[str]] = {table.file: table.lines(record) for table in TABLES}
    metrics = metrics_of(record, run)
    files["metrics.json"] = [to_json(metrics)]
    for files_of in also:
        files |= files_of(record)
    try:
        write_together(folder, files | {LAST: [to_json(about)]}, OWN_FILES)
    except ResultsError as error:
        error.metrics = metrics
        raise


def to_json(value: object) -> str:
    """Return indented JSON, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
