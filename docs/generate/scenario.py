"""The reference of the scenario file, from the types that read it."""

from __future__ import annotations

from docs.generate.docstrings import sentence
from docs.generate.structs import File, Rules, Section, file_of, section_text, sections_of

from hpcosim_protocol import (
    Contention,
    NodeGroup,
    NodeReservation,
    Partition,
    Platform,
    PowerStates,
    Processor,
    Switch,
)
from hpcosim_scenarios.model.platform import BOUNDS, STATED
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_schedulers.catalogue.summaries import POWER_MANAGERS
from hpcosim_schedulers.power.settings import MANAGERS
from hpcosim_schedulers.slurm.settings import SiteSettings

LISTING = (Partition, NodeReservation, Switch)
HOSTS = "host list such as `n[1-4],b1`, or `ALL`, or list of pairs `[first, last]` of node numbers"
RULES = Rules(
    (Platform, NodeGroup, Processor, Contention, PowerStates, *LISTING),
    BOUNDS,
    STATED,
    words={(kind, "nodes"): HOSTS for kind in LISTING},
)


def scenario_file() -> File:
    """Return the scenario file."""
    return file_of(*sections_of(Scenario), rules=RULES)


def power_settings() -> File:
    """Return the settings of each power manager, in the order of the managers."""
    return file_of(
        *(Section("scheduler.power", kind, f"name: {name}") for name, kind in MANAGERS.items())
    )


def site_settings() -> File:
    """Return the settings of a site, which some schedulers take."""
    sections = sections_of(SiteSettings)
    named = (one._replace(path=f"scheduler.settings.{one.path}".strip(".")) for one in sections)
    return file_of(*named)


def tree() -> str:
    """Return the mappings of a scenario as a nested list with links."""
    top, *below = scenario_file().sections
    lines = [f"- [scenario](#{top.anchor})"]
    for section in below:
        *parents, name = section.path.replace(".NAME", "/NAME").split(".")
        name = f"`{name.replace('/', '.')}`" + (f" with `{section.tag}`" if section.tag else "")
        lines.append(f"{'    ' * (len(parents) + 1)}- [{name}](#{section.anchor})")
    return "\n".join(lines)


def reference() -> str:
    """Return the reference of all mappings of a scenario, power managers excepted."""
    file = scenario_file()
    return "\n\n".join(section_text(file, section) for section in file.sections)


def managers() -> str:
    """Return the reference of the power managers' settings."""
    file = power_settings()
    return "\n\n".join(
        section_text(file, section, level=3, about=f"{sentence(POWER_MANAGERS[name])}.")
        for name, section in zip(MANAGERS, file.sections, strict=True)
    )


def site() -> str:
    """Return the reference of the settings of a site."""
    file = site_settings()
    return "\n\n".join(section_text(file, section, level=3) for section in file.sections)
