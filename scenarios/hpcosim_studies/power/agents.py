"""The trained networks that lie beside the study's scenarios, one file each."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_studies.power.paper import BEST, NO_CL
from hpcosim_studies.rows import Row, Rows

ENDING = ".safetensors"
TEST_ORIGIN_S = 389_481.0
"""The second of the week at which the test part's time is 0, by the log's StartTime."""

TRAINED_BESIDE: Mapping[str, Awareness] = {"a2c": "aware", "adaptive": "planned"}
"""The awareness of the job scheduler that agents are trained and run beside, by kind."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "a2c": ("torch", "safetensors"),
    "adaptive": ("safetensors",),
}
"""The packages that run them."""


class Agent(NamedTuple):
    """A trained network or rule in a file.

    Attributes:
        kind: `a2c` is the paper's network; `adaptive` is our rule, beyond the paper.
        variant: its curriculum; of `adaptive` the price of a second of waiting, J.
        seed: of its training.
        path: its file.
    """

    kind: str
    variant: str
    seed: int
    path: Path

    @property
    def label(self) -> str:
        """Its name in tables, the same for all seeds."""
        if self.kind == "adaptive":
            return f"adaptive {self.variant} W"
        variant = "no curriculum" if self.variant == NO_CL else self.variant
        return f"{self.kind.upper()} {variant}"

    @property
    def power(self) -> dict[str, str | float]:
        """The power manager, as a scenario has it."""
        model = str(self.path.resolve())
        if self.kind == "adaptive":
            return {"name": "adaptive", "model": model, "origin_s": TEST_ORIGIN_S}
        return {"name": "rl", "model": model}


def find_agents(folder: Path) -> tuple[list[Agent], list[str]]:
    """Return the agents of a folder by name, and a sentence for each that cannot be run."""
    paths = sorted(folder.glob(f"*{ENDING}"))
    if not paths:
        return [], ["No agent: there is no trained network in `scenarios/papers/power/models`."]
    agents, left_out = [], []
    for path in paths:
        agent = agent_of(path)
        if agent is None:
            left_out.append(f"`{path.name}` is left out: it is not named KIND-VARIANT-SEED.")
        elif missing := [name for name in NEEDS[agent.kind] if not importlib.util.find_spec(name)]:
            needs = f"{' and '.join(missing)} (`pip install 'hpcosim[rl]'`)"
            left_out.append(f"`{path.name}` is left out: it needs {needs}.")
        else:
            agents.append(agent)
    return agents, left_out


def agent_of(path: Path) -> Agent | None:
    """Return the agent of a file `KIND-VARIANT-SEED.safetensors`; None: it is named otherwise."""
    found = re.fullmatch(rf"({'|'.join(NEEDS)})-(.+)-(\d+){re.escape(ENDING)}", path.name)
    return Agent(found[1], found[2], int(found[3]), path) if found else None


def of_curriculum(agents: Sequence[Agent], curriculum: str) -> list[Agent]:
    """Return the paper's agents of a curriculum, all seeds."""
    return [agent for agent in agents if agent.kind != "adaptive" and agent.variant == curriculum]


def contenders(agents: Sequence[Agent]) -> list[Agent]:
    """Return those of figures 12 to 17: the Best Agent, that without curriculum, and ours."""
    return [agent for agent in agents if agent.kind == "adaptive" or agent.variant in (BEST, NO_CL)]


def rows_of(rows: Rows, agents: Sequence[Agent]) -> list[Row]:
    """Return the rows of some agents."""
    wanted = {(agent.label, agent.seed) for agent in agents}
    return [row for row in rows if (row["manager"], row["seed"]) in wanted]
