"""Schedulers with the settings of a site, by name: the mapping `scheduler.settings`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from hpcosim_client.errors import PolicyError

if TYPE_CHECKING:  # names are checked without the modules of `slurm`
    from hpcosim_client.view import Policy

Settings = Mapping[str, object]

NO_SETTINGS: Settings = {}

SITES: Mapping[str, str] = {"multifactor": "policies", "fairshare": "policies", "slurm": "policy"}
"""The module of `slurm` of each scheduler that takes the settings of a site."""


def make_site_policy(name: str, settings: Settings) -> Policy:
    """Return a new scheduler of `SITES`.

    Raises:
        PolicyError: a setting is invalid.
    """
    from hpcosim_client.slurm.settings import SiteSettingsError, parse_site

    try:
        site = parse_site(settings)
    except SiteSettingsError as error:
        raise PolicyError(f"settings of the scheduler {name}: {error}") from None
    policy: Policy = getattr(import_module(f"hpcosim_client.slurm.{SITES[name]}"), name)(site)
    return policy


def check_settings(name: str, settings: Settings) -> None:
    """Check the settings of a scheduler without making it.

    Raises:
        SiteSettingsError: a setting is invalid, or the scheduler takes none.
    """
    if not settings:
        return
    from hpcosim_client.slurm.settings import SiteSettingsError, parse_site

    if name in SITES:
        parse_site(settings)
    else:
        raise SiteSettingsError(
            f"the scheduler {name} takes no settings; expected one of {', '.join(SITES)}"
        )
