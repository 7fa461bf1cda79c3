"""Kubernetes-style tables of GPU jobs, such as the openb pod lists, as jobs.

A line is a pod. The fields and their columns, each with the names that published traces use:

| field | columns | meaning |
|---|---|---|
| `name` | `name`, `pod`, `job_name` | name |
| `cores_milli` | `cpu_milli`, `cpu`, `plan_cpu` | thousandths of a core; `cpu` below 1000: cores |
| `memory_mb` | `memory_mib`, `memory_mb`, `memory`, `plan_mem` | memory, MiB |
| `gpus` | `num_gpu`, `gpu`, `plan_gpu`, `gpus` | number of GPUs |
| `gpu_milli` | `gpu_milli` | thousandths of a GPU, if `gpus` is 1 |
| `gpu_type` | `gpu_spec`, `gpu_type` | types separated by a vertical bar; empty: any |
| `qos` | `qos`, `priority_class` | quality of service |
| `user` | `user`, `namespace` | user |
| `submit` | `creation_time`, `submit_time`, `created` | submission: seconds or a time |
| `start` | `scheduled_time`, `start_time` | start |
| `end` | `deletion_time`, `end_time`, `finished` | end |
| `node` | `node`, `node_name`, `machine` | node on which the pod ran |
| `state` | `pod_phase`, `phase`, `status` | `Failed` marks jobs that failed |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from hpcosim_schedulers.heuristics.recorded import recorded_path
from hpcosim_slurm.files import output
from hpcosim_slurm.files.report import ImportReport, readable
from hpcosim_slurm.files.tables import Row, read_table
from hpcosim_slurm.texts import as_text, moments_of, origin_of, zone_of
from hpcosim_workloads.logs.quantities import FieldError, is_unknown, shown

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "pod", "job_name"),
    "cores_milli": ("cpu_milli", "cpu", "plan_cpu"),
    "memory_mb": ("memory_mib", "memory_mb", "memory", "plan_mem"),
    "gpus": ("num_gpu", "gpu", "plan_gpu", "gpus"),
    "gpu_milli": ("gpu_milli",),
    "gpu_type": ("gpu_spec", "gpu_type"),
    "qos": ("qos", "priority_class"),
    "user": ("user", "namespace"),
    "submit": ("creation_time", "submit_time", "created"),
    "start": ("scheduled_time", "start_time"),
    "end": ("deletion_time", "end_time", "finished"),
    "node": ("node", "node_name", "machine"),
    "state": ("pod_phase", "phase", "status"),
}
"""Names of the column of each field; the first that the table has counts."""

NEEDED = ("submit", "end")
ADVICE = "name the column with --column FIELD=COLUMN"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """How a table is imported.

    Attributes:
        columns: texts `FIELD=COLUMN` for fields with another column than those of `COLUMNS`.
        time_zone, start, anonymize, names, force: see `record_jobs.RecordOptions`.
    """

    columns: tuple[str, ...] = ()
    time_zone: str = "UTC"
    start: str = ""
    anonymize: bool = False
    names: Path | None = None
    force: bool = False


DEFAULTS = KubernetesOptions()


@dataclass(slots=True)
class _Pod:
    """A pod: its line of the table and its job, with times as the table has them."""

    line: int
    job: dict[str, Any]
    submit_s: float
    start_s: float | None
    end_s: float
    node: str
    failed: bool


def import_kubernetes(
    path: Path, jobs: Path, options: KubernetesOptions = DEFAULTS
) -> ImportReport:
    """Write the pods of a table as jobs, and their recorded runs if the table has nodes.

    Raises:
        InputError: the table cannot be read or lacks columns; or a file exists or cannot be
            written. Nothing is written then.
    """
    output.check_outputs([jobs, recorded_path(jobs)], [path], options.names)
    report, zone = ImportReport(), zone_of(options.time_zone)
    own = _own_columns(options.columns)
    pods = sorted(_pods(path, own, zone, report), key=lambda pod: pod.submit_s)
    origin_s = origin_of(options.start, zone, pods[0].submit_s if pods else 0.0)
    kept = [pod for pod in pods if pod.submit_s >= origin_s]
    if len(kept) < len(pods):
        report.add("dropped", "pods submitted before --start", count=len(pods) - len(kept))
    if not kept:
        what = "no pod with a submission and an end was found"
        raise output.InputError(
            f"{what}; {report.summary('dropped') or 'the table has no lines'}", path
        )
    for number, pod in enumerate(kept, start=1):
        pod.job |= {"job_id": number, "submit_s": pod.submit_s - origin_s}
    lines = readable((pod.job for pod in kept), [pod.line for pod in kept], report)
    written = {line["job_id"] for line in lines}
    runs = [
        output.RecordedRun(
            pod.job["job_id"],
            pod.submit_s - origin_s,
            pod.start_s - origin_s,
            pod.end_s - origin_s,
            pod.node,
            "FAILED" if pod.failed else "COMPLETED",
        )
        for pod in kept
        if pod.node and pod.start_s is not None and pod.job["job_id"] in written
    ]
    private: Mapping[Path, bytes] = {}
    if options.anonymize:
        names = output.Pseudonyms(options.names)
        lines = [names.line(line) for line in lines]
        private = names.content()
    report.written = output.write_jobs(jobs, lines, runs, private, force=options.force)
    report.facts["second 0 of the simulation"] = (
        f"{origin_s:g} s" if origin_s < 1e8 else as_text(origin_s)
    )
    return report


def _pods(
    path: Path, own: Mapping[str, str], zone: ZoneInfo, report: ImportReport
) -> Iterator[_Pod]:
    columns: dict[str, str] = {}
    for row in read_table(path, report, delimiter=",", advice="expected a table in CSV format"):
        if not columns:
            columns = _columns(list(row.values), own, path)
        values = {field: row.values[column] for field, column in columns.items()}
        try:
            pod = _pod(row, values, zone, report)
        except FieldError as error:
            field = str(error).partition(":")[0]
            report.add("dropped", f"pods with an invalid {field}", row.line)
            continue
        if pod is not None:
            yield pod


def _columns(present: list[str], own: Mapping[str, str], path: Path) -> dict[str, str]:
    found = {
        field: next((name for name in names if name in present), "")
        for field, names in COLUMNS.items()
    } | dict(own)
    for field, column in own.items():
        if column not in present:
            what = f"--column {field}={column}: there is no such column; the columns are"
            raise output.InputError(f"{what} {', '.join(present)}", path, 1)
    missing = [field for field in NEEDED if not found[field]]
    if missing:
        what = f"there is no column for {' and '.join(missing)}"
        raise output.InputError(f"{what}; {ADVICE}", path, 1)
    return {field: column for field, column in found.items() if column}


def _pod(row: Row, values: Mapping[str, str], zone: ZoneInfo, report: ImportReport) -> _Pod | None:
    """Return a pod; None: it never ended."""
    submit_s, end_s = _time(values, "submit", zone), _time(values, "end", zone)
    start_s = _time(values, "start", zone)
    if submit_s is None or end_s is None:
        report.add("dropped", "pods without a submission or an end", row.line)
        return None
    begun_s = submit_s if start_s is None else start_s
    if start_s is None:
        report.add("guessed", "starts of pods that state none: the submission", row.line)
    if end_s <= begun_s:
        report.add("dropped", "pods that end before they start", row.line)
        return None
    milli = _number(values, "cores_milli") or 0.0
    cores = milli if 0 < milli < 1000 and "cpu_milli" not in row.values else milli / 1000
    if cores != int(cores) or not cores:
        report.add("guessed", "shares of cores: rounded up to whole cores", row.line)
    whole = max(math.ceil(cores), 1)
    memory_mb = _number(values, "memory_mb") or 0.0
    failed = values.get("state", "").lower() in ("failed", "error")
    job: dict[str, Any] = {
        "cores": whole,
        "run_s": end_s - begun_s,
        "requested_s": end_s - begun_s,
        "placement": "one_node",
        **{key: text for key in ("name", "qos", "user") if (text := values.get(key, ""))},
        **({"memory_per_node_mb": memory_mb} if memory_mb else {}),
        **_gpus(values, row, report),
        **({"fails": True} if failed else {}),
    }
    return _Pod(row.line, job, submit_s, start_s, end_s, values.get("node", ""), failed)


def _gpus(values: Mapping[str, str], row: Row, report: ImportReport) -> dict[str, Any]:
    count, milli = _number(values, "gpus") or 0.0, _number(values, "gpu_milli")
    if not count:
        return {}
    amount = float(math.ceil(count))
    if count < 1:
        amount = round(count, 3)
    elif count == 1 and milli is not None and 0 < milli < 1000:
        amount = round(milli / 1000, 3)
    kinds = [kind for kind in values.get("gpu_type", "").split("|") if kind]
    if len(kinds) > 1:
        report.add("guessed", "pods for one of several types of GPUs: any type", row.line)
    kind = f"gpu:{kinds[0]}" if len(kinds) == 1 else "gpu"
    return {"gres_per_node": {kind: amount}}


def _time(values: Mapping[str, str], field: str, zone: ZoneInfo) -> float | None:
    try:
        return next(iter(moments_of(values.get(field, ""), zone)), None)
    except FieldError as error:
        raise FieldError(f"{field}: {error}") from None


def _number(values: Mapping[str, str], field: str) -> float | None:
    text = values.get(field, "")
    if is_unknown(text):
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1e12:
        raise FieldError(f"{field}: expected a number, got {shown(text)}")
    return number


def _own_columns(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        field, equals, column = text.partition("=")
        if not equals or field not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise output.InputError(
                f"--column: expected FIELD=COLUMN with a field of {known}, got {text!r:.80}"
            )
        found[field] = column
    return found
