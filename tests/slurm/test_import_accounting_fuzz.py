"""Damaged accounting gives jobs that can be read, or an error of the import."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpcosim_scenarios.model.file import load_scenario
from hpcosim_slurm.files.accounting import READERS, AccountingOptions, import_accounting
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.record_jobs import RecordOptions
from hpcosim_workloads.accounting.oar import TABLES
from hpcosim_workloads.logs.job_lines import read_jsonl
from support.accounting_files import lines_by_manager, site_jobs
from support.examples import examples

FORMS = {
    name: "".join(f"{line}\n" for line in lines)
    for name, lines in lines_by_manager(site_jobs(4)).items()
}
ODD = (
    *("", "0", "-1", "1e9", "nan", "99999999999999999999", "9" * 5000, "\x00", "\u00e9", "\ufffd"),
    *('"', '""', "'", "\\", "\\N", "NULL", ":", ";", "=", "+", "(", ")", ",", "*", "/", "\t", "\n"),
    *("n[1-3]", "n1", "999999*n1", "0-999999999", "select=", "%3]", "[", "]", "\\.", "COPY ", "--"),
)
EDIT = st.tuples(
    st.floats(0, 1),  # where
    st.integers(0, 40),  # how much is replaced
    st.one_of(st.sampled_from(ODD), st.text(max_size=20)),
)


@pytest.mark.parametrize("form", FORMS)
@examples(100)
@example(edits=[(0.515625, 0, "9" * 5000)], swap=False)
@given(edits=st.lists(EDIT, min_size=1, max_size=8), swap=st.booleans())
def test_damaged_files_are_jobs_or_an_error(
    form: str, edits: list[tuple[float, int, str]], swap: bool
) -> None:
    """What is written can be read: the jobs, and the scenario with its host lists."""
    text = FORMS[form]
    for where, length, odd in edits:
        at = int(where * len(text))
        text = text[:at] + odd + text[at + length :]
    if swap:
        text = "\n".join(reversed(text.split("\n")))
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "accounting", Path(folder) / "site"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        options = AccountingOptions(records=RecordOptions(force=True))
        message = ""
        try:
            import_accounting(form.split()[0], [path], out, options)
        except InputError as error:
            message = str(error)
        if message:
            assert message.startswith(str(path))
            assert not out.exists()
            return
        assert len(read_jsonl(out / "jobs.jsonl")) > 0
        if (out / "cluster.yaml").exists():
            load_scenario(out / "cluster.yaml")


@pytest.mark.parametrize("manager", READERS)
@given(content=st.binary(max_size=300))
def test_any_bytes_are_an_error(manager: str, content: bytes) -> None:
    """No file of a few bytes has a job."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "accounting"
        path.write_bytes(content)
        with pytest.raises(InputError):
            import_accounting(manager, [path], Path(folder) / "site")


LONG = 2**20 - 100
HEAD = "INSERT INTO `jobs` VALUES "
COLUMNS = "".join(f"  `{name}` int,\n" for name in TABLES["jobs"])
TABLE = f"CREATE TABLE `jobs` (\n{COLUMNS}) ENGINE=InnoDB;\n"


@pytest.mark.parametrize(
    ("manager", "text"),
    [
        ("oar", f"{TABLE}{HEAD}({' ' * LONG}"),
        ("oar", f"{TABLE}{HEAD}{'(1 , ' * (LONG // 5)}"),
        ("oar", f"{TABLE}{HEAD}('{chr(39) * LONG}"),
        ("oar", f"INSERT INTO `jobs`{' ' * LONG}"),
        ("pbs", f'03/02/2026 08:00:00;E;1.head;x="{"a" * LONG}'),
        ("pbs", f"03/02/2026 08:00:00;E;1.head;{'(' * LONG}"),
        ("lsf", f'"JOB_FINISH" {chr(34) * LONG}'),
        ("sge", ":" * LONG),
    ],
)
def test_long_damaged_lines_are_read_in_linear_time(
    tmp_path: Path, manager: str, text: str
) -> None:
    """Patterns that go back would take hours with a mebibyte."""
    path = tmp_path / "accounting"
    path.write_text(f"{text}\n")
    began_s = time.process_time()
    with pytest.raises(InputError):
        import_accounting(manager, [path], tmp_path / "site")
    assert time.process_time() - began_s < 60
