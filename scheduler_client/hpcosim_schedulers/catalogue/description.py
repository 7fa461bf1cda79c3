"""Descriptions of policies, which servers record with the results.

A file that cannot be read is a `PolicyError`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from hpcosim_client.errors import PolicyError
from hpcosim_client.library import is_library, path_in, with_path
from hpcosim_schedulers.catalogue.policy_files import is_policy_file, modules_beside, split_name
from hpcosim_schedulers.catalogue.power import title
from hpcosim_schedulers.catalogue.scheduler_settings import NO_SETTINGS, SITES, Settings
from hpcosim_schedulers.catalogue.schedulers import REPLAYED, canonical_name, short_name
from hpcosim_schedulers.catalogue.trained import is_trained
from hpcosim_schedulers.power.settings import PATHS, AlwaysOn, Awareness, Power

EVERY_NODE_ON = AlwaysOn()


def describe(
    name: str,
    power: Power = EVERY_NODE_ON,
    awareness: Awareness = "unaware",
    settings: Settings = NO_SETTINGS,
) -> dict[str, object]:
    """Return the description of a policy, the field `policy` of the protocol's `hello`.

    It is plain data and independent of the machine: files are named without their folders and
    identified by their checksums.

    Args:
        power: the power manager; its paths start at the current folder.

    Returns:
        `name`: the name in results, see `title`. `settings`: `scheduler`, `power` (the manager's
        `name` and all its settings, and `model_sha256` or `plan_sha256` of its file),
        `power_awareness`, and `site_sha256` of a scheduler that takes the settings of a site: the
        SHA-256 of their JSON. The SHA-256 of the scheduler's own file as `model_sha256` (a trained
        scheduler), `library_sha256` (a library), `source_sha256` (a policy file) or
        `schedule_sha256` (`scripted`). Of a policy
        file that imports modules of its folder also `modules_sha256`: the SHA-256 of each, by name.

    Example:
        >>> describe("easy")["name"]
        'easy'
    """
    described: dict[str, object] = {
        "scheduler": short_name(name),
        "power": _described(power),
        "power_awareness": awareness,
    }
    if canonical_name(name) in SITES:
        text = msgspec.json.encode(settings, order="deterministic")
        described["site_sha256"] = hashlib.sha256(text).hexdigest()
    return {"name": title(name, power, awareness), "settings": described, **_own_file(name)}


def policy_file(name: str) -> Path | None:
    """Return the file in the name of a scheduler; None: it has none."""
    name = canonical_name(name)
    if is_policy_file(name):
        return split_name(name)[0]
    if is_library(name):
        return Path(path_in(name))
    if ":" in name and (name.startswith(REPLAYED) or is_trained(name)):
        return Path(name.partition(":")[2])
    return None


def with_file(name: str, path: Path) -> str:
    """Return the name of a scheduler with another path of its file."""
    if is_policy_file(name):
        return f"{path}:{split_name(name)[1]}"
    if is_library(name):
        return with_path(name, str(path))
    return f"{name.partition(':')[0]}:{path}"


def _own_file(name: str) -> dict[str, object]:
    """Return the checksums of the file in a scheduler's name and of the modules it imports."""
    name = canonical_name(name)
    path = policy_file(name)
    if path is None:
        return {}
    if is_policy_file(name):
        source = {"source_sha256": _sha256(path)}
        modules = {module: _sha256(file) for module, file in modules_beside(path).items()}
        return {**source, "modules_sha256": modules} if modules else {**source}
    if is_library(name):
        return {"library_sha256": _sha256(path)}
    return {"model_sha256" if is_trained(name) else "schedule_sha256": _sha256(path)}


def _described(power: Power) -> dict[str, object]:
    settings: dict[str, object] = msgspec.to_builtins(power)
    for field in PATHS:
        if file := settings.get(field):
            settings[field] = Path(str(file)).name
            settings[f"{field}_sha256"] = _sha256(Path(str(file)))
    return settings


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from None
