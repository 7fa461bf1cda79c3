"""Spellings of policy names: hyphens and lower case."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpcosim.cli.main import app
from hpcosim_client.errors import PolicyError
from hpcosim_schedulers import make_policy, parse_power
from hpcosim_schedulers.catalogue.schedulers import canonical_name, scheduler_names
from hpcosim_schedulers.power.settings import NAMES, AlwaysOn, PowerSettingsError

SCENARIO = """name: tiny
platform: {nodes: [{count: 4, processors: [{cores: 2, static_w: 10, dynamic_w: 0}]}]}
workload:
  synthetic: {model: poisson, jobs: 5, mean_interarrival_s: 60, cores: [1, 8], run_s: [10, 900]}
scheduler: {name: low_mem-high_cores}
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
    ("written", "name"),
    [
        ("low_mem_ops-high_mem_bw-one", "low-mem-ops-high-mem-bw-one"),
        ("first-High_GFlops", "first-high-gflops"),
    ],
)
def test_underscores_are_unknown_names_with_a_suggestion(written: str, name: str) -> None:
    """The error names the spelling with hyphens first."""
    with pytest.raises(PolicyError, match=f"no scheduler '{written}'; did you mean {name}"):
        make_policy(written)


def test_names_of_power_managers_follow_the_same_rules() -> None:
    """Case does not matter; an underscore is an unknown name with a suggestion."""
    assert parse_power({"name": "Always-On"}) == AlwaysOn()
    with pytest.raises(PowerSettingsError, match="did you mean keep-idle"):
        parse_power({"name": "keep_idle", "warm": 2})
    with pytest.raises(PolicyError, match=r"scheduler\.power=keep-idle"):
        make_policy("keep_idle")


def test_a_scheduler_of_a_scenario_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hpcosim run` rejects a name with underscores and names the correct one."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(SCENARIO)
    done = CliRunner().invoke(app, ["run", "tiny.yaml", "--transport", "inproc"])
    assert done.exit_code != 0
    assert "did you mean low-mem-high-cores" in done.stderr
