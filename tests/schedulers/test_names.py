"""Spellings of policy names: hyphens and lower case, old spellings with a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hpcosim.cli.main import app
from hpcosim_schedulers import expand, make_policy, parse_power
from hpcosim_schedulers.catalogue.power import title
from hpcosim_schedulers.catalogue.schedulers import canonical_name, scheduler_names
from hpcosim_schedulers.power.settings import NAMES, AlwaysOn, KeepIdle

SCENARIO = """name: tiny
platform: {nodes: [{count: 4, processors: [{cores: 2, static_w: 10, dynamic_w: 0}]}]}
workload:
  synthetic: {model: poisson, jobs: 5, mean_interarrival_s: 60, cores: [1, 8], run_s: [10, 900]}
scheduler: {name: low_mem-high_cores, power: {name: always_on}}
"""


def test_names_have_no_underscores() -> None:
    """Schedulers and power managers are spelled with hyphens."""
    assert not [
        name for name in (*scheduler_names(), *NAMES) if "_" in name or name != name.lower()
    ]


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("EASY", "easy"),
        ("Low-Mem-Ops-High-Mem-BW-one", "low-mem-ops-high-mem-bw-one"),
        ("Minmin-Family", "minmin-family"),
        ("Scripted:Results/Schedule.csv", "scripted:Results/Schedule.csv"),
        ("PAIRING-sampled:Model.safetensors", "pairing-sampled:Model.safetensors"),
        ("EAZY", "EAZY"),
        ("no_such", "no_such"),
    ],
)
def test_names_ignore_case(written: str, canonical: str) -> None:
    """A known name becomes lower case; a file and an unknown name stay as they are."""
    assert canonical_name(written) == canonical


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("low_mem_ops-high_mem_bw-one", "low-mem-ops-high-mem-bw-one"),
        ("first-High_GFlops", "first-high-gflops"),
    ],
)
def test_an_old_spelling_is_accepted_with_a_warning(old: str, new: str) -> None:
    """The warning names both spellings; results carry the new one."""
    with pytest.warns(FutureWarning, match=f"'{old}' is now spelled '{new}'"):
        make_policy(old)
    with pytest.warns(FutureWarning):
        assert title(old, AlwaysOn()) == new
    with pytest.warns(FutureWarning):
        assert expand([old, new]) == [new]


def test_old_and_capitalised_names_of_power_managers_are_accepted() -> None:
    """The names of power managers follow the rules of those of schedulers."""
    with pytest.warns(FutureWarning, match="'keep_idle' is now spelled 'keep-idle'"):
        assert parse_power({"name": "keep_idle", "warm": 2}) == KeepIdle(2)
    assert parse_power({"name": "Always-On"}) == AlwaysOn()


def invoke(*arguments: str) -> Result:
    """Run `hpcosim` in this process."""
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def spellings(done: Result) -> list[str]:
    """Return the warnings about spellings."""
    return [line for line in done.stderr.splitlines() if "is now spelled" in line]


def test_a_scenario_with_old_names_is_run_with_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warnings are on standard error; the results have the new name."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SCENARIO)
    done = invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out", "--json")
    assert done.exit_code == 0
    assert [line.split(";")[0] for line in spellings(done)] == [
        "warning: the name 'always_on' is now spelled 'always-on'",
        "warning: the name 'low_mem-high_cores' is now spelled 'low-mem-high-cores'",
    ]
    assert json.loads(Path("out/run.json").read_text())["scheduler"] == "low-mem-high-cores"


def test_compare_reports_an_old_name_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the scenario and the name are read."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SCENARIO.partition("scheduler:")[0])
    done = invoke("compare", "tiny.yaml", "--schedulers", "first-low_power,EASY,easy", "--json")
    (warning,) = spellings(done)
    assert "first-low_power" in warning
    assert list(json.loads(done.stdout)) == ["first-low-power", "easy"]
