"""Schedulers with the settings of a site, by name: the mapping `scheduler.settings`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from hpcosim_client.errors import PolicyError

if TYPE_CHECKING:  # names are checked without the modules of `slurm`
    from hpcosim_client.view import Policy
    from hpcosim_protocol import JobSubmitted, Platform

Settings = Mapping[str, object]

NO_SETTINGS: Settings = {}

SITES: Mapping[str, str] = {"multifactor": "policies", "fairshare": "policies", "slurm": "policy"}
"""The module of `slurm` of each scheduler that takes the settings of a site."""


def make_site_policy(name: str, settings: Settings) -> Policy:
    """Return a new scheduler of `SITES`.

    Raises:
        PolicyError: a setting is invalid.
    """
    from hpcosim_schedulers.slurm.settings import SiteSettingsError, parse_site

    try:
        site = parse_site(settings)
    except SiteSettingsError as error:
        raise PolicyError(f"settings of the scheduler {name}: {error}") from None
    policy: Policy = getattr(import_module(f"hpcosim_schedulers.slurm.{SITES[name]}"), name)(site)
    return policy


def unstartable_jobs(
    name: str, settings: Settings, platform: Platform, submissions: Iterable[JobSubmitted]
) -> dict[int, str]:
    """Return the jobs that the limits of a site never let start, and Slurm's reasons.

    Args:
        name: a scheduler; only those of `SITES` have limits.
        settings: its settings, which are valid.
        platform: the cluster.
        submissions: the jobs, each as if it were the only one.
    """
    if name not in SITES:
        return {}
    from hpcosim_client.view import View
    from hpcosim_schedulers.slurm.limits import Limits, counted_tres
    from hpcosim_schedulers.slurm.multifactor import Priorities
    from hpcosim_schedulers.slurm.settings import parse_site

    site, view = parse_site(settings), View(platform)
    limits = Limits(site, platform, Priorities(site, platform, counted_tres(site)).charges)
    view.apply(0.0, submissions)
    reasons = {
        job.job_id: limits.refusal(job, view) or limits.permanent(job, 0.0)
        for job in [*view.queue.values(), *view.pending.values()]
    }
    return {job_id: reason for job_id, reason in sorted(reasons.items()) if reason}


def check_settings(name: str, settings: Settings) -> None:
    """Check the settings of a scheduler without making it.

    Raises:
        SiteSettingsError: a setting is invalid, or the scheduler takes none.
    """
    if not settings:
        return
    from hpcosim_schedulers.slurm.settings import SiteSettingsError, parse_site

    if name in SITES:
        parse_site(settings)
    else:
        raise SiteSettingsError(
            f"the scheduler {name} takes no settings; expected one of {', '.join(SITES)}"
        )
