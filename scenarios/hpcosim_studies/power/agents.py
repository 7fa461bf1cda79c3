"""The trained networks that lie beside the study's scenarios, one file each."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_studies.power.readings import BEST, MODELS, NO_CL, TEST_ORIGIN_S

ENDING = ".safetensors"
TRAINED_BESIDE: Mapping[str, Awareness] = {"a2c": "aware", "ppo": "aware", "adaptive": "planned"}
"""The awareness of the job scheduler that agents were trained beside, and are run beside."""

NEEDS: Mapping[str, tuple[str, ...]] = {
    "a2c": ("torch", "safetensors"),
    "ppo": ("torch", "safetensors"),
    "adaptive": ("safetensors",),
}
"""The packages that run them."""


class Agent(NamedTuple):
    """What was learned, in a file.

    Attributes:
        kind: `a2c` and `ppo` are the paper's network; `adaptive` is ours, beyond the paper.
        variant: its curriculum; of `adaptive` what a second of waiting counted for, J.
        seed: of its training.
        path: its file.
    """

    kind: str
    variant: str
    seed: int
    path: Path

    @property
    def label(self) -> str:
        """What it is called, together with those of other seeds."""
        if self.kind == "adaptive":
            return f"adaptive {self.variant} W"
        variant = "no curriculum" if self.variant == NO_CL else self.variant
        return f"{self.kind.upper()} {variant}"

    @property
    def awareness(self) -> Awareness:
        """The job scheduler's beside it."""
        return TRAINED_BESIDE[self.kind]

    @property
    def power(self) -> dict[str, str | float]:
        """The manager, as a scenario has it."""
        model = str(self.path.resolve())
        if self.kind == "adaptive":
            return {"name": "adaptive", "model": model, "origin_s": TEST_ORIGIN_S}
        return {"name": "rl", "model": model}


def find_agents(folder: Path = MODELS) -> tuple[list[Agent], list[str]]:
    """Return the agents of a folder by name, and why some can't be run, a sentence each."""
    paths = sorted(folder.glob(f"*{ENDING}"))
    if not paths:
        return [], ["No agent: there is no trained network in `scenarios/papers/power/models`."]
    agents, why = [], []
    for path in paths:
        agent = agent_of(path)
        if agent is None:
            why.append(f"`{path.name}` is left out: it is not named KIND-VARIANT-SEED.")
        elif missing := [name for name in NEEDS[agent.kind] if not importlib.util.find_spec(name)]:
            needs = f"{' and '.join(missing)} (`pip install 'hpcosim[rl]'`)"
            why.append(f"`{path.name}` is left out: it needs {needs}.")
        else:
            agents.append(agent)
    return agents, why


def agent_of(path: Path) -> Agent | None:
    """Return the agent a file's name says it is; None: it says none.

    Names are `KIND-VARIANT-SEED.safetensors`: `a2c-sampled-real-synthetic-1.safetensors`.
    """
    found = re.fullmatch(rf"({'|'.join(NEEDS)})-(.+)-(\d+){re.escape(ENDING)}", path.name)
    return Agent(found[1], found[2], int(found[3]), path) if found else None


def of_variant(agents: Sequence[Agent], variant: str) -> list[Agent]:
    """Return the paper's agents of a curriculum, all seeds."""
    return [agent for agent in agents if agent.kind != "adaptive" and agent.variant == variant]


def contenders(agents: Sequence[Agent]) -> list[Agent]:
    """Return those of figures 12 to 17: the Best Agent, that without curriculum, and ours."""
    papers = (BEST, NO_CL)
    return [agent for agent in agents if agent.kind == "adaptive" or agent.variant in papers]
