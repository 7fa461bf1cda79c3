"""The optimum of small scenarios, compared with brute force and with the papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hpcosim_client import View
from hpcosim_scenarios.errors import OptimumError
from hpcosim_scenarios.planning.lower_bound import Objective
from hpcosim_scenarios.planning.optimum import Optimum, Placements, find_optimum
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers.heuristics.scripted import scripted
from support.paths import SCENARIOS

INEPS = SCENARIOS / "papers" / "ineps"
OBJECTIVES: tuple[Objective, ...] = ("energy", "edp")
METRIC = {"energy": "energy_j", "edp": "edp_js"}

FIGHTING = {"c_mbps": 900, "b_per_mbps": -3e-4, "da": 1, "db_mbps": 60}
FIGHTING |= {"dc_mbps": 2000, "dd_mbps": 30}
"""Memory that a few tasks of some hundred MB/s are enough to fill."""


def library_of(
    folder: Path, nodes: Sequence[dict[str, Any]], jobs: Sequence[dict[str, Any]], **more: Any
) -> Library:
    """Return a scenario of node groups of one processor each, and of jobs numbered from 1.

    Args:
        folder: where it is written.
        nodes: the processor of each group, with its `count`, 1 unless said.
        jobs: the jobs.
        more: further keys of the scenario.
    """
    groups = [
        {"count": node.pop("count", 1), "processors": [{"static_w": 0, "dynamic_w": 0, **node}]}
        for node in map(dict, nodes)
    ]
    inline = [{"job_id": number, "submit_s": 0, **job} for number, job in enumerate(jobs, 1)]
    workload = {"placement": "one_node", "inline": inline, **more.pop("workload", {})}
    scenario = {"name": "tiny", "platform": {"nodes": groups}, "workload": workload, **more}
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(scenario))
    return Library([path])


def drawn(folder: Path, seed: int) -> Library:
    """Return a scenario of two nodes and three or four jobs, some of the same kind."""
    rng = np.random.default_rng(seed)

    def node(count: int) -> dict[str, Any]:
        return {
            "count": count,
            "cores": int(rng.integers(2, 5)),
            "clock_ghz": float(rng.integers(2, 7) / 2),
            "static_w": float(rng.integers(5, 40)),
            "dynamic_w": float(rng.integers(1, 9)),
            "idle_fraction": float(rng.integers(0, 10) / 10),
            **({"contention": FIGHTING} if rng.random() < 0.7 else {}),
        }

    def kind() -> dict[str, Any]:
        return {
            "cores": int(rng.integers(1, 3)),
            "req_ops": int(rng.integers(1, 9) * 1e9),
            "requested_s": 10,
            "memory_volume_mb": int(rng.choice([0, 500, 3000])),
        }

    nodes = [node(2)] if rng.random() < 0.3 else [node(1), node(1)]
    kinds = [kind() for _ in range(int(rng.integers(1, 4)))]
    submits_s = np.sort(rng.integers(0, 4, int(rng.integers(3, 5)))).tolist()
    jobs = [{**kinds[rng.integers(len(kinds))], "submit_s": submit_s} for submit_s in submits_s]
    return library_of(folder, nodes, jobs)


class Follower:
    """A policy that follows a list of choices, and takes the first option where it ends.

    Attributes:
        options: how many options there were at each choice.
    """

    def __init__(self, choices: Sequence[int], placements: Placements) -> None:
        self._choices = choices
        self._placements = placements
        self.options: list[int] = []

    def __call__(self, view: View) -> None:
        """Start jobs one after the other."""
        while options := self._options(view):
            at = len(self.options)
            self.options.append(len(options))
            job_id, node = options[self._choices[at] if at < len(self._choices) else 0]
            if not job_id:
                return
            view.start(view.queue[job_id], [node])
            if self._placements == "one":
                return

    def _options(self, view: View) -> list[tuple[int, int]]:
        """Return the pairs of job and node that fit; (0, 0) ends the starts."""
        free = enumerate(view.nodes.free.tolist())
        queue = list(view.queue.values())
        options = [
            (job.job_id, node) for node, cores in free for job in queue if job.cores <= cores
        ]
        may_stop = bool(view.running) or not view.no_more_jobs
        if options and self._placements == "any" and may_stop:
            options.append((0, 0))
        return options


def every_outcome(library: Library, placements: Placements) -> Iterator[tuple[float, float]]:
    """Yield energy and EDP of every schedule of a class, each from a run of the simulator."""
    choices: list[int] = []
    while True:
        follower = Follower(choices, placements)
        opened = open_scenario(library.first, library.first_jobs, "follower")
        metrics = run_in_process(opened, follower)
        yield metrics["energy_j"], metrics["edp_js"]
        choices += [0] * (len(follower.options) - len(choices))
        while choices and choices[-1] + 1 == follower.options[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1


def replayed(library: Library, optimum: Optimum) -> dict[str, int | float]:
    """Return the metrics of the optimal schedule in the simulator."""
    opened = open_scenario(library.first, library.first_jobs, "optimum")
    return run_in_process(opened, scripted(optimum.schedule))


# Seeds of no more than two thousand schedules.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("placements", "seed"),
    [
        *((placements, seed) for placements in ("one", "all") for seed in range(10)),
        *(("any", seed) for seed in (0, 2, 4, 5, 6)),
    ],
)
def test_optimum_is_that_of_brute_force(placements: Placements, seed: int, tmp_path: Path) -> None:
    """The optimum is the minimum over all schedules of the class, for both objectives."""
    library = drawn(tmp_path, seed)
    outcomes = list(every_outcome(library, placements))
    for objective, values in zip(OBJECTIVES, zip(*outcomes, strict=True), strict=True):
        optimum = find_optimum(library.first, library.first_jobs, objective, placements)
        assert optimum.value == optimum.bound == pytest.approx(min(values), rel=1e-9)
        metric = replayed(library, optimum)[METRIC[objective]]
        assert metric == pytest.approx(optimum.value, rel=1e-12)


GOOD_AND_BAD = (
    {"cores": 1, "clock_ghz": 2, "dynamic_w": 10},  # a job takes 1 s and 10 J
    {"cores": 1, "clock_ghz": 1, "dynamic_w": 30},  # 2 s and 60 J
)
JOB = {"cores": 1, "req_ops": 2e9, "requested_s": 2}


@pytest.mark.parametrize(
    ("placements", "second_s", "energy_j", "starts"),
    [
        ("one", 0.0, 20.0, [(0.0, 0), (1.0, 0)]),  # the next event is the end of the first
        ("all", 0.0, 70.0, [(0.0, 0), (0.0, 1)]),
        ("any", 0.0, 20.0, [(0.0, 0), (1.0, 0)]),
        ("one", 0.5, 70.0, [(0.0, 0), (0.5, 1)]),  # the bad node is free when it comes
        ("all", 0.5, 70.0, [(0.0, 0), (0.5, 1)]),
        ("any", 0.5, 20.0, [(0.0, 0), (1.0, 0)]),  # it waits although the bad node is free
    ],
)
def test_classes_of_schedules(
    placements: Placements,
    second_s: float,
    energy_j: float,
    starts: list[tuple[float, int]],
    tmp_path: Path,
) -> None:
    """If the class does not let a job wait for the better node, it runs on the worse one."""
    library = library_of(tmp_path, GOOD_AND_BAD, [JOB, {**JOB, "submit_s": second_s}])
    optimum = find_optimum(library.first, library.first_jobs, "energy", placements)
    assert optimum.value == energy_j
    found = [(start.at_s, *start.nodes) for _, start in sorted(optimum.schedule.items())]
    if placements == "any" or energy_j == 20.0:  # else it is 70 J whichever goes where
        assert found == starts
    assert sorted(node for _, node in found) == sorted(node for _, node in starts)


def test_edp_may_have_another_optimum_than_energy(tmp_path: Path) -> None:
    """Waiting for the better node saves energy; starting on the worse node saves more time."""
    dear = {"cores": 1, "clock_ghz": 2, "dynamic_w": 15}  # 1 s and 15 J rather than 10 J
    library = library_of(tmp_path, (GOOD_AND_BAD[0], dear), [JOB, JOB])
    energy = find_optimum(library.first, library.first_jobs, "energy", "any")
    edp = find_optimum(library.first, library.first_jobs, "edp", "any")
    assert (energy.value, {start.at_s for start in energy.schedule.values()}) == (20.0, {0.0, 1.0})
    assert (edp.value, {start.at_s for start in edp.schedule.values()}) == (25.0, {0.0})


def test_equal_nodes_stand_for_each_other(tmp_path: Path) -> None:
    """Three nodes of one group take fewer states than three groups of a node."""
    node = {"cores": 2, "static_w": 5, "dynamic_w": 3, "contention": FIGHTING}
    jobs = [
        {**JOB, "submit_s": number / 4, "memory_volume_mb": volume_mb}
        for number, volume_mb in enumerate((2000, 1500, 2000, 900, 2000))
    ]
    (tmp_path / "one").mkdir()
    one = library_of(tmp_path / "one", [{**node, "count": 3}], jobs)
    three = library_of(tmp_path, [node] * 3, jobs)
    together = find_optimum(one.first, one.first_jobs, "edp", "any")
    apart = find_optimum(three.first, three.first_jobs, "edp", "any")
    assert together.value == pytest.approx(apart.value, rel=1e-9)
    assert together.explored < apart.explored


@pytest.mark.parametrize(
    ("experiment", "placements", "objective", "value"),
    [
        ("exp1", "one", "energy", 2852.833173),  # what the papers' agent gets at best: 2852.83 J
        ("exp1", "one", "edp", 200050.117909),
        ("exp1", "all", "energy", 2852.833173),
        ("exp1", "all", "edp", 200050.117909),
        ("exp1", "any", "energy", 2736.395594),
        ("exp1", "any", "edp", 135912.449037),
        ("exp2", "any", "energy", 21321.394776),
        ("exp2", "any", "edp", 1996482.404302),
    ],
)
def test_optimum_of_the_papers_experiments(
    experiment: str, placements: Placements, objective: Objective, value: float
) -> None:
    """The search is complete, and the simulator gives the same value for its schedule."""
    library = Library([INEPS / f"{experiment}.yaml"])
    optimum = find_optimum(library.first, library.first_jobs, objective, placements)
    assert optimum.value == optimum.bound == pytest.approx(value, rel=1e-9)
    metric = replayed(library, optimum)[METRIC[objective]]
    assert metric == pytest.approx(optimum.value, rel=1e-9)


@pytest.mark.slow
def test_search_that_gives_up_says_how_far_it_may_be_off() -> None:
    """The bound is below the optimum, the value is not, and the schedule has every job."""
    library = Library([INEPS / "exp2.yaml"])
    optimum = find_optimum(library.first, library.first_jobs, "energy", "one", max_states=2000)
    assert 2000 <= optimum.explored < 2100
    assert 21_000 < optimum.bound < 22_668.608 < optimum.value < 22_958.8
    assert replayed(library, optimum)["energy_j"] == pytest.approx(optimum.value, rel=1e-9)


TWO_PROCESSORS = [{"cores": 2, "static_w": 1, "dynamic_w": 1}] * 2


@pytest.mark.parametrize(
    ("job", "more", "what"),
    [
        ({"cores": 3}, {}, "job 1 is none"),
        ({"placement": "cores"}, {}, "job 1 is none"),
        ({"max_energy_j": 1e9}, {}, "job 1 is none"),
        ({"nice": 5}, {}, "job 1 has a request"),
        ({}, {"failures": {"events": [{"at_s": 0, "nodes": "0"}]}}, "failures and actions"),
        ({}, {"kill_at_walltime": True}, "kill_at_walltime"),
        ({}, {"platform": {"nodes": [{"count": 1, "processors": TWO_PROCESSORS}]}}, "one proc"),
    ],
)
def test_other_scenarios_are_refused(
    job: dict[str, Any], more: dict[str, Any], what: str, tmp_path: Path
) -> None:
    """Scenarios that the models of the search do not cover are an error."""
    library = library_of(tmp_path, [{"cores": 2}], [{**JOB, **job}], **more)
    with pytest.raises(OptimumError, match=what):
        find_optimum(library.first, library.first_jobs, "energy", "any")


def test_too_many_kinds_are_refused(tmp_path: Path) -> None:
    """Too many combinations of jobs on a node are an error."""
    jobs = [{**JOB, "req_ops": number * 1e9} for number in range(1, 21)]
    library = library_of(tmp_path, [{"cores": 20}], jobs)
    with pytest.raises(OptimumError, match="use fewer kinds"):
        find_optimum(library.first, library.first_jobs, "energy", "any")
