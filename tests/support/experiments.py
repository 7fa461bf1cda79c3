"""Small experiments for tests."""

from __future__ import annotations

from pathlib import Path

from hpcosim_experiments.carry_out import CarriedOut, run_experiment
from hpcosim_experiments.executors import ExecutorSettings, Local
from hpcosim_experiments.runs.plan import PlannedRun, plan_of

IN_PROCESS = Local(workers=0)

SCENARIO = """name: small
seed: 3
platform:
  nodes:
    - count: 4
      processors: [{cores: 4, static_w: 100, dynamic_w: 5, idle_fraction: 0.5}]
      power_states:
        {sleep_w: 5, switch_on_s: 60, switch_on_w: 90, switch_off_s: 10, switch_off_w: 80}
workload:
  synthetic:
    {model: poisson, jobs: 30, mean_interarrival_s: 200, cores: [1, 16], run_s: [10, 900]}
scheduler: {name: easy}
"""

EXPERIMENT = """name: study
scenario: small.yaml
axes:
  scheduler: [fcfs, easy]
  load: [0.5, 1]
  seed: [1, 2]
report: {figures: []}
"""


def write(folder: Path, text: str = EXPERIMENT, name: str = "study.yaml") -> Path:
    """Write a scenario `small.yaml` and an experiment file, and return the path of the latter."""
    (folder / "small.yaml").write_text(SCENARIO)
    path = folder / name
    path.write_text(text)
    return path


def only_run(folder: Path, text: str) -> PlannedRun:
    """Return the run of an experiment that has one.

    Args:
        folder: a folder for its files.
        text: the file without name and scenario.
    """
    (run,) = plan_of(write(folder, f"name: study\nscenario: small.yaml\n{text}")).runs
    return run


def carry_out(
    path: Path, out: Path, *, executor: ExecutorSettings = IN_PROCESS, **options: object
) -> tuple[CarriedOut, list[str], list[str]]:
    """Carry out an experiment; return the outcome, the sentences and the warnings."""
    said: list[str] = []
    warned: list[str] = []
    done = run_experiment(
        path,
        out=out,
        executor=executor,
        say=said.append,
        warn=warned.append,
        **options,  # type: ignore[arg-type]
    )
    return done, said, warned
