"""The trained networks beside the study's scenarios, one file each."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_experiments.statistics.rows import Row, Rows
from hpcosim_studies.power.paper import BEST, NO_CL

ENDING = ".safetensors"
TEST_ORIGIN_S = 389_481.0
"""Second of the week, from Monday 00:00, at time 0 of the test workload, from the log's header."""

TRAINED_WITH: Mapping[str, Awareness] = {"a2c": "aware", "adaptive": "planned"}
"""Power awareness of the job scheduler in training and test, by kind of agent."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "a2c": ("torch", "safetensors"),
    "adaptive": ("safetensors",),
}
"""Required packages by kind of agent."""


class PowerAgent(NamedTuple):
    """A trained network or rule in a file.

    Attributes:
        kind: `a2c`, the paper's network; `adaptive`, learned timeouts, not in the paper.
        variant: its curriculum; of `adaptive` the price of waiting, W.
        seed: seed of its training.
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
        """The power manager as in a scenario file."""
        model = str(self.path.resolve())
        if self.kind == "adaptive":
            return {"name": "adaptive", "model": model, "origin_s": TEST_ORIGIN_S}
        return {"name": "rl", "model": model}


def find_agents(folder: Path) -> tuple[list[PowerAgent], list[str]]:
    """Return the agents of a folder by name, and a sentence for each file that cannot be run."""
    paths = sorted(folder.glob(f"*{ENDING}"))
    if not paths:
        return [], ["No agent: `scenarios/papers/power/models` has no trained network."]
    agents, left_out = [], []
    for path in paths:
        agent = agent_of(path)
        if agent is None:
            left_out.append(f"`{path.name}` is left out: expected a name KIND-VARIANT-SEED.")
        elif missing := [name for name in NEEDS[agent.kind] if not importlib.util.find_spec(name)]:
            needs = f"{' and '.join(missing)} (`pip install 'hpcosim[rl]'`)"
            left_out.append(f"`{path.name}` is left out: it needs {needs}.")
        else:
            agents.append(agent)
    return agents, left_out


def agent_of(path: Path) -> PowerAgent | None:
    """Return the agent of a file `KIND-VARIANT-SEED.safetensors`; None for other names."""
    found = re.fullmatch(rf"({'|'.join(NEEDS)})-(.+)-(\d+){re.escape(ENDING)}", path.name)
    return PowerAgent(found[1], found[2], int(found[3]), path) if found else None


def of_curriculum(agents: Sequence[PowerAgent], curriculum: str) -> list[PowerAgent]:
    """Return the paper's agents of a curriculum, all seeds."""
    return [agent for agent in agents if agent.kind != "adaptive" and agent.variant == curriculum]


def contenders(agents: Sequence[PowerAgent]) -> list[PowerAgent]:
    """Return the agents of figures 12 to 17: the Best Agent, no curriculum, and `adaptive`."""
    return [agent for agent in agents if agent.kind == "adaptive" or agent.variant in (BEST, NO_CL)]


def rows_of(rows: Rows, agents: Sequence[PowerAgent]) -> list[Row]:
    """Return the rows of some agents."""
    wanted = {(agent.label, agent.seed) for agent in agents}
    return [row for row in rows if (row["manager"], row["seed"]) in wanted]
