"""The results folder: jobs.csv, nodes.csv, schedule.csv, metrics.json, run.json."""

from __future__ import annotations

import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from hpcosim_protocol import PROTOCOL_VERSION
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.errors import ResultsError
from hpcosim_server.record.metrics import measure, outcome_of
from hpcosim_server.record.recording import STATES, Recording
from hpcosim_server.record.timeline import node_spans


class Run(msgspec.Struct, kw_only=True):
    """What was run, for `run.json`, which has the platform beside it.

    Attributes:
        hpcosim: version of the simulator.
        protocol: version of the protocol.
        scenario: its name.
        scheduler: the name the client gave itself.
        seed: of all that was drawn.
        complete: whether every job of the workload is over.
        ended_because: why the run ended.
        skipped: jobs of the source left out or changed, by the reader's rules.
    """

    hpcosim: str
    protocol: int = PROTOCOL_VERSION
    scenario: str
    scheduler: str
    seed: int
    complete: bool = False
    ended_because: str = ""
    skipped: Mapping[str, int] = {}


LAST = "run.json"  # it says that the rest is complete

# Rules of the readers that change a job but keep it.
_KEPT = frozenset({"requested_time_unknown", "out_of_order", "cores_capped"})


def metrics_of(simulation: Simulation, run: Run) -> dict[str, int | float]:
    """Return the metrics of a simulation, finished or not."""
    left_out = sum(count for rule, count in run.skipped.items() if rule not in _KEPT)
    return measure(outcome_of(simulation, left_out))


Files = Mapping[str, Iterable[str]]
"""The text of files, piece by piece, by their names."""

Also = Callable[[Simulation], Files]
"""What files in another format a simulation comes to, to be written beside our own."""


def write_results(
    folder: Path, simulation: Simulation, run: Run, also: Sequence[Also] = ()
) -> None:
    """Write the files of a run, over those of an earlier one, as `write_together` does.

    Args:
        folder: the results folder.
        simulation: finished or not.
        run: what it is a run of.
        also: other formats.

    Raises:
        ResultsError: they can't be written; what was there before still is.
    """
    about = msgspec.to_builtins(run) | {"platform": simulation.cluster.platform}
    files: dict[str, Iterable[str]] = {
        "jobs.csv": _job_lines(simulation),
        "nodes.csv": _node_lines(simulation),
        "schedule.csv": _schedule_lines(simulation.recording),
        "metrics.json": [to_json(metrics_of(simulation, run))],
    }
    for files_of in also:
        files |= files_of(simulation)
    write_together(folder, files | {LAST: [to_json(about)]})


def write_together(folder: Path, files: Files) -> None:
    """Write files into a folder, all of them or none.

    They are written to a place of their own first. A new folder then appears with all of them
    at once; in one that was there each file is replaced whole, `run.json` last.

    Raises:
        ResultsError: they can't be written; what was there before still is.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Who may write into a folder that is there may not be allowed to beside it.
        beside = folder if folder.is_dir() else folder.parent
        draft = beside / f".{folder.name}-{secrets.token_hex(4)}"
        draft.mkdir()
        try:
            for name, lines in files.items():
                _write(draft / name, lines)
            _move(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise ResultsError(
            f"the results can't be written to {folder}: {error.strerror or error}"
        ) from error


def _move(draft: Path, folder: Path) -> None:
    if not folder.exists():
        draft.rename(folder)
        return
    names = sorted((file.name for file in draft.iterdir()), key=lambda name: (name == LAST, name))
    for name in names:
        if (folder / name).is_dir():
            raise IsADirectoryError(0, f"{name} is a folder there")
    for name in names:
        (draft / name).replace(folder / name)


def to_json(value: object) -> str:
    """Return JSON for people, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def intervals(numbers: Iterable[int]) -> str:
    """Return numbers as a set of intervals: `0-3 7`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())  # a full disk may only show here


def _job_lines(simulation: Simulation) -> Iterator[str]:
    recording = simulation.recording
    energies_j = simulation.job_energies_j()
    yield "job_id,submit_s,start_s,end_s,state,cores,nodes,energy_j,reason\n"
    for row in range(len(recording)):
        yield (
            f"{recording.job_id[row]},{recording.submit_s[row]},"
            f"{_time(recording.start_s[row])},{_time(recording.end_s[row])},"
            f"{STATES[recording.state[row]]},{recording.cores[row]},"
            f"{intervals(recording.nodes_of(row))},{energies_j[row]},"
            f"{recording.reasons.get(row, '')}\n"
        )


def _schedule_lines(recording: Recording) -> Iterator[str]:
    """Yield what is needed to run the same again, jobs in the order they started."""
    yield "job_id,start_s,nodes,tasks\n"
    started = [row for row in recording.changes if row >= 0]
    for row in started:
        nodes, tasks = recording.nodes_of(row), recording.tasks_of(row)
        places, counts = " ".join(map(str, nodes)), " ".join(map(str, tasks))
        yield f"{recording.job_id[row]},{recording.start_s[row]},{places},{counts}\n"
    for row in range(len(recording)):
        turned_away = STATES[recording.state[row]] == "rejected" and row not in recording.reasons
        if turned_away:
            yield f"{recording.job_id[row]},,,\n"


def _node_lines(simulation: Simulation) -> Iterator[str]:
    yield "start_s,end_s,nodes,state,power_w\n"
    spans = node_spans(
        simulation.cluster.platform, simulation.recording, simulation.start_s, simulation.now_s
    )
    for span in spans:
        nodes = intervals(span.nodes)
        yield f"{span.start_s},{span.end_s},{nodes},{span.state},{span.power_w}\n"


def _time(time_s: float) -> str:
    return "" if math.isnan(time_s) else str(time_s)
