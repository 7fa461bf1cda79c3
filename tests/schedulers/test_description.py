"""Descriptions of policies, as `run.json` records them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hpcosim_client import PolicyError
from hpcosim_protocol import Hello, decode_client_message, encode
from hpcosim_schedulers import describe
from hpcosim_schedulers.power.settings import Adaptive, Oracle, Timeout
from support.paths import SCENARIOS

ALWAYS_ON = {"name": "always-on"}
MODEL = SCENARIOS / "papers" / "ineps" / "pairing-exp1" / "energy.safetensors"


def sha256(data: bytes) -> str:
    """Return a checksum in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def test_names_and_all_settings_are_described() -> None:
    """Settings that were left out have their defaults, and names are canonical."""
    assert describe("EASY", Timeout(900.0), "aware") == {
        "name": "aware easy, timeout(timeout_s=900.0)",
        "settings": {
            "scheduler": "easy",
            "power": {"name": "timeout", "timeout_s": 900.0, "wait_price_w": None},
            "power_awareness": "aware",
        },
    }


def test_a_trained_scheduler_is_identified_by_its_model() -> None:
    """The folder of the model is left out."""
    assert describe(f"pairing-sampled:{MODEL}") == {
        "name": "pairing-sampled:energy.safetensors",
        "settings": {
            "scheduler": "pairing-sampled:energy.safetensors",
            "power": ALWAYS_ON,
            "power_awareness": "unaware",
        },
        "model_sha256": sha256(MODEL.read_bytes()),
    }


def test_files_of_a_power_manager_are_identified(tmp_path: Path) -> None:
    """By their checksums, beside their names."""
    (tmp_path / "file.json").write_text("{}")
    path, checksum = str(tmp_path / "file.json"), sha256(b"{}")
    power = {"name": "adaptive", "model": "file.json", "origin_s": None, "model_sha256": checksum}
    assert describe("easy", Adaptive(path), "aware")["settings"] == {
        "scheduler": "easy",
        "power": power,
        "power_awareness": "aware",
    }
    assert describe("easy", Oracle(path))["settings"] == {
        "scheduler": "easy",
        "power": {"name": "oracle", "plan": "file.json", "plan_sha256": checksum},
        "power_awareness": "unaware",
    }


def test_a_replayed_schedule_is_identified(tmp_path: Path) -> None:
    """By its checksum."""
    (tmp_path / "schedule.csv").write_text("job_id,start_s,nodes\n")
    described = describe(f"scripted:{tmp_path}/schedule.csv")
    assert described["schedule_sha256"] == sha256(b"job_id,start_s,nodes\n")
    assert str(tmp_path) not in str(described)


def test_imported_modules_of_a_policy_file_are_identified(tmp_path: Path) -> None:
    """Those of its folder, also imports of imports, packages and namespace packages."""
    files = {
        "mine.py": "import json, parts.sorting\nfrom rules import LIMIT\ndef f(view): import late",
        "rules.py": "from space import inner\nLIMIT = 1",
        "late.py": "",
        "parts/__init__.py": "from . import names",
        "parts/names.py": "from ..absent import x",
        "parts/sorting.py": "broken(",
        "space/inner.py": "import mine",
        "unused.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    described = describe(f"{tmp_path}/mine.py:f")
    modules = {
        name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): sha256(text.encode())
        for name, text in files.items()
        if name != "unused.py"
    }
    assert described["modules_sha256"] == modules
    assert list(modules) != sorted(modules) == list(described["modules_sha256"])
    (tmp_path / "alone.py").write_text("import json")
    assert "modules_sha256" not in describe(f"{tmp_path}/alone.py:f")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(PolicyError, match=r"gone\.safetensors: cannot be read: No such file"):
        describe(f"pairing:{tmp_path}/gone.safetensors")


def test_the_protocol_accepts_a_description() -> None:
    """Its depth and size are within the limits of the field."""
    policy = describe(f"pairing:{MODEL}", Timeout(900.0, 5.0), "aware")
    message = decode_client_message(encode(Hello(versions=[1], policy=policy)))
    assert isinstance(message, Hello)
    assert message.policy == policy
