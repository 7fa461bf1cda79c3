"""Units, times, tables and names in the files of workload managers."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.record_jobs import dependency_of
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct_records import job_id_of, options_of
from hpcosim_slurm.files.slurm.statements import tres_limits, tres_weights
from hpcosim_slurm.files.tables import read_table
from hpcosim_slurm.texts import consistent, moments_of, zone_of
from hpcosim_workloads.accounting.record import JobId
from hpcosim_workloads.logs.quantities import (
    FieldError,
    Memory,
    device_counts,
    duration_s,
    memory_of,
    tres_of,
)
from support.examples import examples

BERLIN = zone_of("Europe/Berlin")
UTC_ZONE = zone_of("UTC")


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("33600M", Memory(33600.0)),
        ("262.50G", Memory(268800.0)),
        ("2800Mc", Memory(2800.0, "core")),
        ("4Gn", Memory(4096.0, "node")),
        ("1T", Memory(2.0**20)),
        ("1024K", Memory(1.0)),
        ("500", Memory(500.0)),
    ],
)
def test_memory_has_units_of_1024(text: str, memory: Memory) -> None:
    """A number without a unit is in MB; old versions append what it is for."""
    assert memory_of(text) == memory


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        *[("30", 1800), ("30:15", 1815), ("02:30:15", 9015), ("1-12", 129600), ("1-12:30", 131400)],
        *[("2-00:00:01", 172801), ("00:00:07.350", 7), ("UNLIMITED", None), ("INFINITE", None)],
    ],
)
def test_durations_have_the_forms_of_sbatch(text: str, expected_s: float | None) -> None:
    """A bare number is in minutes."""
    assert duration_s(text) == expected_s


@pytest.mark.parametrize("text", ["", "1:2:3:4", "-5", "1-", "soon", "9" * 20, "1-2-3"])
def test_other_durations_are_errors(text: str) -> None:
    """The message quotes the text."""
    with pytest.raises(FieldError, match="expected a duration"):
        duration_s(text)


def test_the_sum_over_types_of_devices_is_left_out() -> None:
    """Slurm counts typed GPUs twice: with and without the type."""
    found = tres_of("billing=12,cpu=12,mem=1.5G,node=1,gres/gpu=4,gres/gpu:a100=4,license/x=1")
    assert found == {
        "billing": 12,
        "cpu": 12,
        "mem": 1536,
        "node": 1,
        "gres/gpu:a100": 4,
        "license/x": 1,
    }


@examples(200)
@given(st.text(max_size=30) | st.text("0123456789:-.,=KMGcn/TZ+_[]% agpu", max_size=30))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    """No reader of a field fails in another way."""
    for read in (memory_of, duration_s, tres_of, job_id_of, tres_weights, tres_limits):
        with suppress(FieldError):
            read(text)
    with suppress(FieldError):
        moments_of(text, BERLIN)
    options_of(f"sbatch {text}")


def test_a_time_with_an_offset_has_one_meaning() -> None:
    """Unix times do, too; both are independent of the zone."""
    expected = (1792893600.0,)
    for text in ("2026-10-25T02:00:00+00:00", "2026-10-25T04:00:00+02:00", "1792893600"):
        assert moments_of(text, BERLIN) == expected
    assert moments_of("Unknown", BERLIN) == ()


def test_a_repeated_local_time_has_two_meanings() -> None:
    """Clocks in Berlin are set back from 3:00 to 2:00 on 25 October 2026."""
    first, second = moments_of("2026-10-25T02:30:00", BERLIN)
    assert second - first == 3600.0
    assert len(moments_of("2026-10-25T03:30:00", BERLIN)) == 1


def test_a_skipped_local_time_counts_with_the_offset_before() -> None:
    """Clocks in Berlin are set forward from 2:00 to 3:00 on 29 March 2026."""
    (skipped,) = moments_of("2026-03-29T02:30:00", BERLIN)
    assert skipped == moments_of("2026-03-29T01:30:00", UTC_ZONE)[0]


def test_the_run_time_decides_between_two_meanings() -> None:
    """A job of 1,800 s from 2:45 to 2:15 ran over the change of clocks."""
    start, end = (moments_of(f"2026-10-25T02:{m}:00", BERLIN) for m in (45, 15))
    (_, _, started, ended), ambiguous = consistent([start, start, start, end], 1800.0)
    assert ambiguous
    assert ended is not None
    assert started is not None
    assert ended - started == 1800.0
    (_, _, started, ended), _ = consistent([start, start, start, end], 1800.0 + 3600.0)
    assert (started, ended) == (start[0], end[1])


def test_job_ids_name_arrays_components_and_steps() -> None:
    """The forms are those of the column JobID."""
    assert job_id_of("1001_3") == JobId(1001, 3)
    assert job_id_of("1001_[3-7%2]") == JobId(1001, None, "3-7%2")
    assert job_id_of("1002+1.extern") == JobId(1002, None, "", 1, "extern")


def test_options_end_at_the_script() -> None:
    """Options of the script are not those of sbatch; short ones may stick to their value."""
    line = "/usr/bin/sbatch -N2 --gres gpu:2 -J 'my job' --exclusive -d afterok:7 run.sh -N 9"
    assert options_of(line) == {
        "nodes": "2",
        "gres": "gpu:2",
        "exclusive": "",
        "dependency": "afterok:7",
    }
    assert options_of("python -N 2") == {}
    assert options_of("sbatch 'unclosed") == {}


def test_dependencies_get_the_numbers_of_the_workload() -> None:
    """Arrays become their tasks, and jobs that are not in the workload are left out."""
    tasks = {7: {0: 70}, 9: {1: 91, 2: 92}}
    assert dependency_of("afterok:7:9,afterany:8", None, tasks) == "afterok:70:91:92"
    assert dependency_of("aftercorr:9", 2, tasks) == "afterok:92"
    assert dependency_of("after:9_1+5?singleton", None, tasks) == "after:91+5?singleton"
    with pytest.raises(FieldError, match="expected a dependency"):
        dependency_of("whenever:7", None, tasks)


def test_devices_of_a_node_have_types_and_counts() -> None:
    """Sockets and flags are left out; a count is 1 by default."""
    found = device_counts("gpu:a100:4(S:0-1),gpu:2,shard:1K,fpga,tape:no_consume:3")
    assert found == {"gpu:a100": 4, "gpu": 2, "shard": 1024, "fpga": 1, "tape": 3}


def test_weights_of_memory_are_for_each_mb() -> None:
    """Slurm's weight of `0.25G` is for each GB."""
    assert tres_weights("CPU=1.0,Mem=0.25G,GRES/gpu=2") == {
        "cpu": 1.0,
        "mem": 0.25 / 1024,
        "gres/gpu": 2.0,
    }


def test_a_table_joins_a_text_that_contains_the_delimiter(tmp_path: Path) -> None:
    """The other fields decide which text it is."""
    path = tmp_path / "t.psv"
    path.write_text("id|name|size|features\n1|a|2|x|y\n2|b|c|3|z\n3|d|4\n\nid|name|size|features\n")
    report = ImportReport()
    rows = read_table(
        path,
        report,
        free_text=("name", "features"),
        fits=lambda values: values["size"].isdecimal(),
    )
    assert [tuple(row.values.values()) for row in rows] == [
        ("1", "a", "2", "x|y"),
        ("2", "b|c", "3", "z"),
    ]
    assert report.count("dropped", "truncated records") == 1
    assert report.count("guessed") == 2


def test_an_unknown_time_zone_is_an_error() -> None:
    """The message names an example."""
    with pytest.raises(
        InputError, match="no time zone 'Mars/Olympus'; expected a name of the IANA"
    ):
        zone_of("Mars/Olympus")
