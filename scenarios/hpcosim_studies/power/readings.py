"""Where the study's scenarios stand, what is compared, and what the paper says of it.

The paper is "Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management
System for HPC Clusters Using Curriculum Learning". Sections and figures named here are its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_studies import FOLDER

TEST = FOLDER / "power" / "test.yaml"
TRAIN = FOLDER / "power" / "train.yaml"
TRAIN_LATE = FOLDER / "power" / "train_late.yaml"
TEST_ORIGIN_S = 389_481.0
"""The second of the week at which the test part's time is 0, by the log's StartTime."""

MODELS = FOLDER / "power" / "models"
TRAININGS = FOLDER / "power" / "curricula.csv"
WORKERS = 2

AWARENESSES: tuple[Awareness, ...] = ("unaware", "aware", "planned")
"""What a job scheduler makes of nodes that are not on. The paper does not say which is its own."""

TIMEOUTS_MIN = tuple(range(5, 65, 5))
"""The paper has twelve and lists eleven (section 4.2): 45 is the one that is missing there."""

PAPERS_TIMEOUT_MIN = 15
"""The one that wastes the least energy in the paper (figure 12)."""


class Part(NamedTuple):
    """A part of the log.

    Attributes:
        name: for tables.
        path: a scenario.
        whole: of its log all jobs are taken, whatever the scenario says.
    """

    name: str
    path: Path
    whole: bool = False


PARTS = (
    Part("test part", TEST),
    Part("training part", TRAIN),
    Part("whole log", TEST, whole=True),
)
"""Whose job-filling rate is measured with all nodes on: the paper's is not that of its test."""


class Paper(NamedTuple):
    """What the paper's text gives, in % or percentage points.

    Attributes:
        wasted_to_timeout: wasted energy of the Best Agent, change against the 15-min timeout.
        wasted_to_no_cl: the same against the agent without curriculum.
        wait_to_timeout: mean wait of the Best Agent, change against the 15-min timeout.
        wait_to_no_cl: mean wait of the easy-to-hard curricula, change against no curriculum.
        filling_all_on: job-filling rate with all nodes on.
        filling_gain: by how many points that of the Best Agent lies above it.
        filling_to_timeout: and above that of the 15-min timeout.
        saved_j: wasted energy of the agent without curriculum less the Best Agent's, J.
    """

    wasted_to_timeout: float = -4.66
    wasted_to_no_cl: float = -3.73
    wait_to_timeout: float = -13.02
    wait_to_no_cl: tuple[float, float] = (-44.75, -43.84)
    filling_all_on: float = 48.17
    filling_gain: float = 32.70
    filling_to_timeout: float = 2.0
    saved_j: float = 8e8


PAPER = Paper()


class PeerPoint(NamedTuple):
    """What another simulator gives for the test part, with its own planned EASY.

    Attributes:
        timeout_s: of its nodes.
        mean_wait_s: of its jobs.
        wasted_j: energy not spent computing.
    """

    timeout_s: float
    mean_wait_s: float
    wasted_j: float


PEER = (
    PeerPoint(300, 1260, 6.29e9),
    PeerPoint(900, 968, 6.87e9),
    PeerPoint(3600, 443, 9.21e9),
)
"""SPARS, with the scheduler of its paper, run on the same jobs and nodes."""

CALLED: Mapping[str, str] = {
    "sampled-real-synthetic": "easy to hard",
    "sampled-synthetic-real": "easy to hard",
    "real-sampled-synthetic": "hard, easy, hard",
    "synthetic-sampled-real": "hard, easy, hard",
    "real-synthetic-sampled": "hard to easy",
    "synthetic-real-sampled": "hard to easy",
    "real": "no curriculum",
}
"""The curricula in the order of tables and figures, with what the paper calls them (figure 7)."""

BEST = "sampled-real-synthetic"
NO_CL = "real"
UNTRAINED = "untrained"
