"""Compares the scheduler `slurm` with recorded runs of a real Slurm.

`PYTHONPATH=tests python -m benchmarks.slurm_runs` prints the tables of
docs/explanation/slurm-policy.md. The recorded runs are in ../shared/golden/slurm.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping

from hpcosim_workloads.table import JobSpec
from support.golden_scenes import SCENES, read_scene
from support.golden_slurm import GOLDEN_SLURM, RecordedJob, run_of_events, simulated
from support.scene_runs import differences, play_scene

TOLERANCE = 0.03
"""How far a class mean may lie beyond the range of the real runs."""


def class_of(job: JobSpec) -> str:
    """Return the class of a job of the 500-job workload."""
    request = job.request
    assert request is not None
    if request.gres_per_node:
        return f"gpu:{request.gres_per_node['gpu']:.0f}"
    if request.memory_per_node_mb:
        return "mem500000"
    return f"n={job.cores:02d} {request.features}".strip()


def mean_wait_s(jobs: Mapping[int, RecordedJob]) -> float:
    """Return the mean wait, s."""
    return statistics.fmean(job.start_s - job.submit_s for job in jobs.values())


def compare_runs() -> None:
    """Print a row for each recorded run with 500 jobs or 20 jobs."""
    print("| run | mean wait, s | makespan, s | by main | timeouts | start differs by, median s |")
    print("|---|---|---|---|---|---|")
    classes: dict[str, list[float]] = {}
    for folder in sorted(GOLDEN_SLURM.glob("run*")) + sorted(GOLDEN_SLURM.glob("small/*")):
        name = str(folder.relative_to(GOLDEN_SLURM))
        small = name.startswith("small")
        run, jobs = run_of_events(name, "small" if small else "jobs500_shrinked")
        found, _ = simulated(run, jobs)
        pairs = [(found, run.jobs)]
        for ours, theirs in pairs:
            shown = (
                [f"{mean_wait_s(each):.1f}" for each in (ours, theirs)],
                [f"{max(job.end_s for job in each.values()):.0f}" for each in (ours, theirs)],
            )
            by = [sum(job.by == "main" for job in each.values()) for each in (ours, theirs)]
            over = [sum(job.end_by == "timelimit" for job in e.values()) for e in (ours, theirs)]
            apart = [abs(ours[number].start_s - theirs[number].start_s) for number in theirs]
            print(
                f"| {name} | {' / '.join(shown[0])} | {' / '.join(shown[1])} | {by[0]} / {by[1]} | "
                f"{over[0]} / {over[1]} | {statistics.median(apart):.1f} |"
            )
        if not small:
            add_classes(classes, jobs, found, run.jobs)
    print_classes(classes, len(list(GOLDEN_SLURM.glob("run*"))))
    print_outside(classes)


def add_classes(
    classes: dict[str, list[float]],
    jobs: list[JobSpec],
    found: Mapping[int, RecordedJob],
    real: Mapping[int, RecordedJob],
) -> None:
    """Append the mean waits of each class, ours and the real ones."""
    of_class: dict[str, list[int]] = {}
    for job in jobs:
        of_class.setdefault(class_of(job), []).append(job.job_id)
    for name, numbers in of_class.items():
        for runs in (found, real):
            wait = mean_wait_s({number: runs[number] for number in numbers})
            classes.setdefault(name, []).append(wait)


def print_classes(classes: Mapping[str, list[float]], runs: int) -> None:
    """Print the mean waits of each class: simulated / real for each run."""
    print("\n| class | " + " | ".join(f"run{n + 1}" for n in range(runs)) + " |")
    print("|---|" + "---|" * runs)
    for name, waits in sorted(classes.items()):
        cells = [f"{waits[at]:.0f} / {waits[at + 1]:.0f}" for at in range(0, len(waits), 2)]
        print(f"| {name} | {' | '.join(cells)} |")


def ranges_of_classes() -> dict[str, tuple[float, float]]:
    """Return the least and the greatest mean wait of each class in the real runs, s.

    The table of the recorded runs' README has also runs whose jobs are not recorded.
    """
    ranges = {}
    for line in (GOLDEN_SLURM / "README.md").read_text(encoding="utf-8").splitlines():
        found = re.match(r"\| ((?:gpu:|mem|n=)[^|]*?) \| \d+ \|((?: *[\d.]+ \|)+)$", line)
        if found is not None:
            waits = [float(wait) for wait in found[2].split("|")[:-1]]
            ranges[found[1]] = (min(waits), max(waits))
    return ranges


def print_outside(classes: Mapping[str, list[float]]) -> None:
    """Print the simulated classes beyond the range of the real runs + 3 %."""
    ranges = ranges_of_classes()
    cells = [
        (name, run, waits[2 * run])
        for name, waits in sorted(classes.items())
        for run in range(len(waits) // 2)
    ]
    print("\n| class | run | simulated, s | real runs, s |\n|---|---|---|---|")
    for name, run, wait in cells:
        least, most = ranges[name]
        if not least * (1 - TOLERANCE) <= wait <= most * (1 + TOLERANCE):
            print(f"| {name} | run{run + 1} | {wait:.0f} | {least:.0f} to {most:.0f} |")


def compare_scenes() -> None:
    """Print a row for each recorded scene, and what differs."""
    print("\n| scene | runs of jobs | as in the real Slurm |\n|---|---|---|")
    lines = []
    for name in SCENES:
        scene = read_scene(name)
        found, _ = play_scene(scene)
        wrong = differences(name, scene, found)
        known = set(scene.names.values())
        total = sum(len(runs) for number, runs in scene.runs.items() if number in known)
        print(f"| {name} | {total} | {total - len(wrong)} |")
        lines += [f"{name}: {each}" for each in wrong]
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    compare_runs()
    compare_scenes()
