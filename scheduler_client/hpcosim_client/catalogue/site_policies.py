"""Schedulers with the settings of a site, by name: the mapping `scheduler.settings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hpcosim_client.errors import PolicyError
from hpcosim_client.slurm.policies import fairshare, multifactor
from hpcosim_client.slurm.policy import slurm
from hpcosim_client.slurm.settings import SiteSettings, SiteSettingsError, parse_site
from hpcosim_client.view import Policy

Settings = Mapping[str, object]

NO_SETTINGS: Settings = {}

SITES: Mapping[str, Callable[[SiteSettings], Policy]] = {
    "multifactor": multifactor,
    "fairshare": fairshare,
    "slurm": slurm,
}
"""Factories of schedulers that take the settings of a site."""


def make_site_policy(name: str, settings: Settings) -> Policy:
    """Return a new scheduler of `SITES`.

    Raises:
        PolicyError: a setting is invalid.
    """
    try:
        site = parse_site(settings)
    except SiteSettingsError as error:
        raise PolicyError(f"settings of the scheduler {name}: {error}") from None
    return SITES[name](site)


def check_settings(name: str, settings: Settings) -> None:
    """Check the settings of a scheduler without making it.

    Raises:
        SiteSettingsError: a setting is invalid, or the scheduler takes none.
    """
    if name in SITES:
        parse_site(settings)
    elif settings:
        raise SiteSettingsError(
            f"the scheduler {name} takes no settings; expected one of {', '.join(SITES)}"
        )
