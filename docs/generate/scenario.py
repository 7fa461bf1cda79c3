"""The reference of the scenario file, from the types that read it."""

from __future__ import annotations

from docs.generate.docstrings import sentence
from docs.generate.structs import Rules, Section, section_text, sections_of
from docs.generate.types import anchor

from hpcosim_client.catalogue.summaries import POWER_MANAGERS
from hpcosim_client.power.settings import MANAGERS
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_protocol.platform import Contention
from hpcosim_scenarios.model.platform import BOUNDS, STATED
from hpcosim_scenarios.model.scenario import Scenario

RULES = Rules((Platform, NodeGroup, Processor, Contention, PowerStates), BOUNDS, STATED)


def sections() -> list[Section]:
    """Return every mapping of a scenario."""
    return sections_of(Scenario)


def manager_sections() -> list[Section]:
    """Return the settings of each power manager."""
    return [Section("scheduler.power", kind, f"name: {name}") for name, kind in MANAGERS.items()]


def tree() -> str:
    """Return the mappings of a scenario as a nested list with links."""
    lines = [f"- [scenario](#{anchor(Scenario)})"]
    for section in sections()[1:]:
        *parents, name = section.path.replace(".NAME", "/NAME").split(".")
        name = f"`{name.replace('/', '.')}`" + (f" with `{section.tag}`" if section.tag else "")
        lines.append(f"{'    ' * (len(parents) + 1)}- [{name}](#{anchor(section.kind)})")
    return "\n".join(lines)


def reference() -> str:
    """Return the reference of all mappings of a scenario, power managers excepted."""
    return "\n\n".join(section_text(section, rules=RULES) for section in sections())


def managers() -> str:
    """Return the reference of the power managers' settings."""
    return "\n\n".join(
        section_text(section, level=3, about=f"{sentence(POWER_MANAGERS[name])}.")
        for name, section in zip(MANAGERS, manager_sections(), strict=True)
    )
