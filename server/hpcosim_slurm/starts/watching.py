"""The observation of a live Slurm."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_protocol import Platform
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.files.errors import InputError
from hpcosim_slurm.files.slurm.convert import SlurmOptions, import_slurm
from hpcosim_slurm.reading.config import CONFIG, check_version, parse_config
from hpcosim_slurm.reading.state import read_state
from hpcosim_slurm.starts.commands import (
    SSHARE,
    accounted_history,
    expected_starts,
    remembered_history,
    usage_of,
)
from hpcosim_slurm.starts.errors import ForecastError
from hpcosim_slurm.starts.observation import Observation
from hpcosim_slurm.starts.run_times import EndedJob
from hpcosim_slurm.tools import Tools

ADVICE = (
    "copy it with the accounts from the cluster, import it with `hpcosim import slurm` and name "
    "the scenario with --scenario"
)


class Site(NamedTuple):
    """A site.

    Attributes:
        platform: its nodes and partitions.
        settings: the settings of the scheduler `slurm`, as in a scenario.
    """

    platform: Platform
    settings: dict[str, Any]


def observe(
    tools: Tools,
    scenario: Path | None = None,
    history: list[EndedJob] | None = None,
    warn: Callable[[str], object] = lambda _: None,
) -> Observation:
    """Return an observation of the cluster of this machine.

    Args:
        tools: the commands of the cluster.
        scenario: the site; None: as slurm.conf and the accounting describe it.
        history: ended jobs; None: those of the accounting, or those that Slurm remembers.
        warn: called with a text about what is missing.

    Raises:
        SlurmError: the cluster cannot be read.
        ForecastError: its slurm.conf cannot be read.
        InputError: its slurm.conf is invalid.
        ScenarioError: the scenario is invalid.
    """
    text = tools.output(*CONFIG)
    config = parse_config(text)
    check_version(config.version)
    state = read_state(tools)
    slurm_s = expected_starts(tools)
    usage_s: Mapping[str, Mapping[str, float]] = {}
    if config.has_accounts:
        try:
            usage_s = usage_of(tools.output(*SSHARE))
            history = accounted_history(tools) if history is None else history
        except SlurmError as error:
            warn(f"usage or history of the accounting is unknown: {error}")
    if history is None:
        history = remembered_history(state)
    if scenario is not None:
        site = site_of(scenario)
    else:
        site = _imported(tools, text, config.name if config.has_accounts else "", warn)
    return Observation(
        state=state,
        platform=site.platform,
        settings=site.settings,
        booted_s=_booted_s(text),
        history=tuple(history),
        usage_s=usage_s,
        slurm_s=slurm_s,
    )


def _booted_s(config: str) -> float | None:
    """Return the Unix time of the controller's start, s; None: unknown.

    Slurm prints Unix times, as `SLURM_TIME_FORMAT` of `Tools` says.
    """
    found = re.search(r"(?m)^BOOT_TIME\s*= (\d{1,12})\s*$", config)
    return None if found is None else float(found[1])


def site_of(path: Path) -> Site:
    """Return the site that a scenario describes.

    Raises:
        ScenarioError: the file cannot be read, or is no scenario.
        ForecastError: its scheduler is not `slurm`.
    """
    scenario = load_scenario(path)
    name = scenario.scheduler.name
    if name != "slurm":
        raise ForecastError(
            f"{path}: scheduler.name: expected slurm, whose settings the site has, got {name:.80}"
        )
    return Site(scenario.platform, scenario.scheduler.settings)


def _imported(tools: Tools, config: str, accounts_of: str, warn: Callable[[str], object]) -> Site:
    """Return the site as slurm.conf and the accounting describe it."""
    found = re.search(r"(?m)^SLURM_CONF\s*= (.+?)\s*$", config)
    conf = Path(found[1] if found else "/etc/slurm/slurm.conf")
    try:
        conf.open("rb").close()
    except OSError as error:
        raise ForecastError(f"{conf}: {error.strerror}; {ADVICE}") from None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dump, qos = folder / "accounts.txt", folder / "qos.psv"
        options = SlurmOptions()
        if accounts_of:
            try:
                tools.output("sacctmgr", "--immediate", "dump", accounts_of, f"file={dump}")
                qos.write_text(tools.output("sacctmgr", "--parsable2", "show", "qos"))
                options = SlurmOptions(sacctmgr=dump, qos=qos)
            except SlurmError as error:
                warn(f"limits and shares of accounts are unknown: {error}")
        out = folder / "site.yaml"
        try:
            import_slurm(conf, out, options)
        except InputError as error:
            raise ForecastError(f"{error}; {ADVICE}") from None
        return site_of(out)
