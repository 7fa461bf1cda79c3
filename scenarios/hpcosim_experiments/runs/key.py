"""The key of a run: everything that its result depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import msgspec

from hpcosim_experiments.statistics.measured import MeasureSettings
from hpcosim_scenarios.model.files import content_of
from hpcosim_scenarios.model.scenario import Scenario


def inputs_of(
    scenario: Scenario,
    files: Mapping[str, str],
    policy: Mapping[str, object],
    settings: MeasureSettings,
    version: str,
    measures: Callable[..., object] | None = None,
) -> bytes:
    """Return everything that the result of a run depends on, as JSON with sorted keys.

    Names that make no difference are left out: those of the scenario and of files.

    Args:
        scenario: the scenario after all settings.
        files: SHA-256 of the files that the scenario reads, by dotted path.
        policy: description of the policy with the checksums of its files.
        settings: what is measured.
        version: version of hpcosim.
        measures: returns further metrics; identified by its name.
    """
    inputs: dict[str, object] = {
        "scenario": content_of(scenario),
        "files": files,
        "policy": policy,
        "measure": settings,
        "hpcosim": version,
    }
    if measures is not None:
        inputs["measures"] = f"{measures.__module__}.{measures.__qualname__}"
    return msgspec.json.encode(inputs, order="sorted")


def key_of(inputs: bytes) -> str:
    """Return the key of a run: the SHA-256 of its inputs, 64 hexadecimal digits."""
    return hashlib.sha256(inputs).hexdigest()
