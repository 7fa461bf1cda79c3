"""How Deep-EAS is trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforce:
    """Settings of REINFORCE with a baseline (paper, sections II-C and III-C).

    Attributes:
        iterations: how often it learns, one step each; the paper has 1000.
        pool: how many sequences there are to learn from; the paper has 150.
        sequences: how many of these are run for a step; the paper runs all.
        trajectories: runs of each; the paper has 20.
        rate: of Adam.
        entropy: weight of the entropy of a choice; the paper has none.
        imitation: before all that, how often it goes through what ESJF does; 0: never, as in the
            paper.
        imitation_rate: of Adam, there.
    """

    iterations: int = 1000
    pool: int = 150
    sequences: int = 10
    trajectories: int = 20
    rate: float = 1e-3
    entropy: float = 0.0
    imitation: int = 0
    imitation_rate: float = 1e-3
