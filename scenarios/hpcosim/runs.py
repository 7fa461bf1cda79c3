"""Simulations, comparisons and experiments as Python functions, and runs as tables and pictures."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcosim_client.errors import PolicyError
from hpcosim_client.view import Policy
from hpcosim_scenarios.model import Engine
from hpcosim_scenarios.running import Transport
from hpcosim_scenarios.running.many import run_many as _run_many
from hpcosim_scenarios.running.run import run_scenario, simulate
from hpcosim_scenarios.shipped import find_scenario, shipped_experiments
from hpcosim_schedulers.catalogue.schedulers import expand
from hpcosim_view.errors import FigureError
from hpcosim_view.export.parquet import TABLES, Columns, arrow_table
from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import Frame

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from hpcosim_experiments.carry_out import CarriedOut

ScenarioLike = str | Path | Mapping[str, Any]
"""A scenario: the name of a shipped one, a file, or the contents of a scenario file."""

SchedulerLike = str | Policy
"""A scheduler: a name of the catalogue, or a function of a view."""

SHOWN = ("jobs", "mean_wait_s", "mean_bounded_slowdown", "utilization", "energy_kwh")


class Table(Mapping[str, Any]):
    """A table of a run: a mapping of the names of its columns to their values.

    The units are in the names of the columns (`wait_s`). Data frames and SQL engines that know the
    Arrow PyCapsule interface read it directly: `polars.DataFrame(table)`.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> Any:
        return self._columns[name].values

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<Table of {', '.join(self)}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Return the table for pyarrow; the metadata of a column has its unit and its meaning."""
        return arrow_table(self._columns)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table for pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return the table for polars."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())


class Run:
    """A run: its metrics and its tables. A notebook shows it as a picture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def metrics(self) -> dict[str, int | float]:
        """The metrics by name, such as `mean_wait_s`."""
        metrics: dict[str, int | float] = json.loads((self.folder / "metrics.json").read_text())
        return metrics

    @cached_property
    def _frame(self) -> Frame:
        return read_folder(self.folder)

    @property
    def scheduler(self) -> str:
        """Name of the scheduler."""
        return str(self._frame.about["scheduler"])

    @cached_property
    def jobs(self) -> Table:
        """A row for each job: times, state, nodes, user, energy."""
        return self._table("jobs")

    @cached_property
    def nodes(self) -> Table:
        """A row for each period in which a node has one state."""
        return self._table("nodes")

    @cached_property
    def power(self) -> Table:
        """The power of all nodes at each change, W."""
        return self._table("power")

    @cached_property
    def explanations(self) -> Table:
        """Why jobs waited, if the run was asked to `explain`."""
        return self._table("explanations")

    def _table(self, name: str) -> Table:
        return Table(TABLES[f"{name}.parquet"](self._frame))

    def __repr__(self) -> str:
        return f"<Run of {self._frame.about['scenario']} with {self.scheduler}>"

    def _repr_html_(self) -> str:
        """Return the picture and the main metrics, for notebooks."""
        return _picture(self.folder) + _metrics_table([self])


class Comparison(dict[str, Run]):
    """Runs by the name of their scheduler. A notebook shows their metrics as a table."""

    def to_pandas(self) -> pd.DataFrame:
        """Return a row of metrics for each run, for pandas."""
        import pandas as pd

        return pd.DataFrame({name: run.metrics for name, run in self.items()}).T

    def _repr_html_(self) -> str:
        return _metrics_table(self.values())


def run(
    scenario: ScenarioLike,
    scheduler: SchedulerLike | None = None,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the option of the command
    out: str | Path | None = None,
    explain: bool = False,
    transport: Transport = "inproc",
    engine: Engine = "auto",
) -> Run:
    """Simulate a scenario.

    Args:
        scenario: the name of a shipped scenario, a file, or the contents of a scenario file, whose
            relative paths start at the current folder.
        scheduler: a name of `hpcosim schedulers`, or a function of a view; None: the scenario's.
        set: values to change in the scenario, by dotted path.
        out: the results folder, whose earlier results are replaced; None: a temporary one, which
            lasts as long as the run.
        explain: record why jobs wait.
        transport: `inproc`, or `ipc` and `tcp` for a scheduler in a process of its own. The results
            are the same. A function always runs in this process.
        engine: `reference`, or `compiled`, which is faster, supports a part, and has the same
            results; `auto` takes it where that saves time.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario, its workload or the scheduler is
            invalid.
        RunError: the run failed, for example because the scheduler makes no progress.

    Example:
        >>> import hpcosim
        >>> run = hpcosim.run("demo", "easy", set={"workload.synthetic.jobs": 50})
        >>> run.metrics["jobs_completed"]
        50
        >>> len(run.jobs["wait_s"])
        50
    """
    folder = Path(tempfile.mkdtemp(prefix="hpcosim-") if out is None else out)
    result = Run(folder)
    if out is None:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    overrides = {**(set or {}), **({"scheduler.explain": True} if explain else {})}
    if engine != "auto":
        overrides["engine"] = engine
    with _scenario_file(scenario) as path:
        if callable(scheduler):
            name = getattr(scheduler, "__name__", "policy")
            simulate(
                path, scheduler, name=name, out=folder, force=True, overrides=set, explain=explain
            )
        else:
            run_scenario(
                path,
                scheduler=scheduler,
                transport=transport,
                out=folder,
                force=True,
                overrides=overrides,
                warn=lambda text: warnings.warn(text, stacklevel=3),
            )
    return result


def run_many(
    scenario: ScenarioLike,
    settings: Iterable[Mapping[str, Any]],
    scheduler: str | None = None,
    *,
    threads: int | None = None,
) -> Iterator[dict[str, int | float]]:
    """Simulate a scenario with different settings in this process, and yield the metrics of runs.

    Thousands of short runs take a few milliseconds each where the compiled engine supports them. No
    results are written, and warnings are left out. An experiment (`experiment`) works with several
    processes and stores the results of its runs.

    Args:
        scenario: as for `run`.
        settings: for each run values to change in the scenario, by dotted path; also
            `scheduler.name`, `seed` and `engine`.
        scheduler: a name of `hpcosim schedulers`; None: the scenario's.
        threads: number of threads; None: one for each core.

    Raises:
        As `run`, in place of the run that is invalid or fails; the runs before it are there.

    Example:
        >>> import hpcosim
        >>> loads = [{"workload.load": load, "workload.synthetic.jobs": 50} for load in (0.5, 0.9)]
        >>> waits_s = [metrics["mean_wait_s"] for metrics in hpcosim.run_many("demo", loads)]
        >>> waits_s[0] <= waits_s[1]
        True
    """
    with _scenario_file(scenario) as path:
        for ran in _run_many(path, settings, scheduler=scheduler, threads=threads):
            yield ran.metrics


def compare(
    scenario: ScenarioLike,
    schedulers: Iterable[SchedulerLike],
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the option of the command
) -> Comparison:
    """Simulate a scenario with several schedulers.

    Args:
        scenario: as for `run`.
        schedulers: names of schedulers or of groups of them, and functions of a view.
        set: as for `run`.

    Raises:
        PolicyError: two schedulers have one name.
        As `run`.

    Example:
        >>> import hpcosim
        >>> few = {"workload.synthetic.jobs": 50}
        >>> runs = hpcosim.compare("demo", ["fcfs", "easy"], set=few)
        >>> list(runs)
        ['fcfs', 'easy']
    """
    found = Comparison()
    for scheduler in schedulers:
        for each in expand([scheduler]) if isinstance(scheduler, str) else [scheduler]:
            name = each if isinstance(each, str) else getattr(each, "__name__", "policy")
            if name in found:
                raise PolicyError(f"two schedulers are called {name}; give each its own name")
            found[name] = run(scenario, each, set=set)
    return found


def experiment(
    file: str | Path,
    *,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the option of the command
    say: Callable[[str], None] = lambda _: None,
) -> CarriedOut:
    """Carry out an experiment: many runs along axes, their statistics and a report.

    Args:
        file: an experiment file, or the name of a shipped experiment.
        out: the output folder, whose stored results are used again; None: `results/NAME`.
        set: values to change in the scenario of all runs, by dotted path.
        say: called with sentences about the progress.

    Raises:
        As `hpcosim_experiments.run_experiment`.
    """
    from hpcosim_experiments import run_experiment

    path = Path(file)
    if not path.is_file():
        path = shipped_experiments().get(str(file), path)
    folder = None if out is None else Path(out)
    return run_experiment(path, out=folder, overrides=set, say=say)


def report(runs: Run | Sequence[Run], out: str | Path) -> Path:
    """Write a web page that shows one to four runs, in one file without a network.

    Args:
        runs: the runs, on equal platforms.
        out: the file, which is replaced.

    Raises:
        ReportError: the runs cannot be compared.
    """
    from hpcosim_view.report import write_report

    folders = [each.folder for each in ([runs] if isinstance(runs, Run) else runs)]
    return write_report(folders, Path(out), force=True)


def read(folder: str | Path) -> Run:
    """Return the run of a results folder, for example one of `hpcosim run`.

    Raises:
        ReadResultsError: the folder has no results, or they are damaged.
    """
    found = Run(Path(folder))
    read_folder(found.folder)
    return found


@contextmanager
def _scenario_file(scenario: ScenarioLike) -> Iterator[Path]:
    """Yield the file of a scenario; contents are in a hidden file of the current folder for now."""
    if not isinstance(scenario, Mapping):
        yield find_scenario(str(scenario))
        return
    with tempfile.NamedTemporaryFile(
        "w", dir=".", prefix=".scenario-", suffix=".yaml", delete=False
    ) as file:
        json.dump(scenario, file)
    try:
        yield Path(file.name)
    finally:
        Path(file.name).unlink()


def _picture(folder: Path) -> str:
    from hpcosim_view.figure import draw_schedule

    with tempfile.TemporaryDirectory(prefix="hpcosim-") as drawn:
        try:
            png, _ = draw_schedule(folder, Path(drawn, "run"))
        except FigureError as error:
            return f"<p>{escape(str(error))}</p>"
        data = base64.b64encode(png.read_bytes()).decode()
    return f'<img alt="schedule, power and queue" src="data:image/png;base64,{data}">'


def _metrics_table(runs: Iterable[Run]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("scheduler", *SHOWN))
    rows = []
    for each in runs:
        cells = "".join(f"<td>{each.metrics[name]:,.6g}</td>" for name in SHOWN)
        rows.append(f"<tr><td>{escape(each.scheduler)}</td>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"
