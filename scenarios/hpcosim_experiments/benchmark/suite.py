"""A suite: a versioned set of instances with a score, bounds and a reference scheduler.

A suite is a folder with `suite.yaml`, the scenarios of its instances or paths to them, and
`instances.csv`, which `hpcosim benchmark seal` writes: the SHA-256 of each instance, its number of
jobs, its bound and the score of the reference scheduler. A suite never changes: other instances,
another score or another bound make a suite with the next number.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from hpcosim_experiments.benchmark.errors import BenchmarkError, SuiteError
from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.statistics.rows import read_rows, write_rows
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.messages import nearest, scenario_error
from hpcosim_scenarios.model.yaml_file import read_text, read_tree
from hpcosim_scenarios.model.yaml_lines import line_of
from hpcosim_scenarios.shipped import shipped_folder

KIND = "suite"
FILE, SEALS = "suite.yaml", "instances.csv"
SUBMISSIONS = "submissions"
"""The folder of a shipped suite's submissions in a checkout; the wheel has none."""
SUITES = "suites"
BOUNDS = "hpcosim.bounds"
"""Group of the entry points of bounds that other packages register."""
OWN_BOUNDS = ("mean-response", "switching-oracle", "pairing-search")

DecisionName = Literal["allocate_job", "set_node_power", "set_alarm", "cancel_alarm", "explain"]
SuiteName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,50}-[1-9][0-9]{0,3}$")]
InstanceName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_.-]{0,60}$")]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class Reference(Struct, frozen=True, forbid_unknown_fields=True):
    """The policy that others are compared with.

    Attributes:
        scheduler: name of a job scheduler.
        power: its power manager, as in a scenario.
        power_awareness: treatment of nodes that are not on, as in a scenario.
    """

    scheduler: str
    power: dict[str, Any] = field(default_factory=lambda: {"name": "always-on"})
    power_awareness: str = "unaware"


class InstanceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """An instance of a suite.

    Attributes:
        name: its name in the suite.
        scenario: path of a scenario file, relative to the suite's folder. Its `scheduler` section
            is ignored but for `agents`.
        set: values that replace those of the scenario, by dotted path.
    """

    name: InstanceName
    scenario: str
    set: dict[str, Any] = {}


class SuiteFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of `suite.yaml`.

    Attributes:
        name: name of the suite, which ends with its version, a hyphen and a number.
        title: what the suite measures, a sentence.
        score: the coefficients of the score, by metric. The score of an instance is the sum of
            coefficient x metric; less is better.
        shown: further metrics of the leaderboard.
        bound: the bound or the oracle of the score.
        decisions: the kinds of decisions that a scheduler may send.
        reference: the policy that others are compared with.
        instances: the instances.
    """

    name: SuiteName
    title: str
    score: Annotated[dict[str, float], Meta(min_length=1)]
    shown: tuple[str, ...] = ()
    bound: str
    decisions: Annotated[tuple[DecisionName, ...], Meta(min_length=1)]
    reference: Reference
    instances: Annotated[tuple[InstanceFile, ...], Meta(min_length=1, max_length=1000)]

    def __post_init__(self) -> None:
        names = [each.name for each in self.instances]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"instances: expected each name once, got {twice!r} twice")

    def score_of(self, metrics: Mapping[str, int | float]) -> float:
        """Return the score of an instance from its metrics.

        Raises:
            BenchmarkError: the suite names a metric that the instance does not have.
        """
        if missing := next(
            (name for name in (*self.score, *self.shown) if name not in metrics), ""
        ):
            near = nearest(missing, metrics)
            advice = f"; did you mean {near!r}?" if near else ""
            raise BenchmarkError(f"{self.name}: there is no metric {missing!r}{advice}")
        return sum(factor * metrics[name] for name, factor in self.score.items())


class Seal(Struct, frozen=True):
    """What a suite states about an instance.

    Attributes:
        instance: its name.
        sha256: SHA-256 of its content, see `instances.digest_of`.
        jobs: number of its jobs.
        bound: lower bound or oracle of the score.
        reference: score of the reference policy.
    """

    instance: InstanceName
    sha256: Digest
    jobs: Annotated[int, Meta(gt=0)]
    bound: Annotated[float, Meta(gt=0)]
    reference: Annotated[float, Meta(gt=0)]


class Suite(Struct, frozen=True):
    """A suite with its seals.

    Attributes:
        file: the content of its file.
        folder: its folder.
        seals: the seal of each instance, by name; empty: the suite is not sealed.
    """

    file: SuiteFile
    folder: Path
    seals: Mapping[str, Seal]


KINDS = (SuiteFile, InstanceFile, Reference)


def shipped_suites() -> dict[str, Path]:
    """Return the files of the shipped suites by name."""
    folder = shipped_folder() / SUITES
    return {path.parent.name: path for path in sorted(folder.glob(f"*/{FILE}"))}


def find_suite(text: str) -> Suite:
    """Return the suite that a text names: a shipped one, or a path of a `suite.yaml`.

    Raises:
        BenchmarkError: there is no such suite, it is invalid, or it is not sealed.
    """
    shipped = shipped_suites()
    path = shipped.get(text, Path(text))
    if not path.is_file():
        raise BenchmarkError(
            f"{text}: no such suite; expected one of {', '.join(shipped)}, or the path of a {FILE}"
        )
    suite = read_suite(path)
    missing = [each.name for each in suite.file.instances if each.name not in suite.seals]
    if missing:
        raise BenchmarkError(
            f"{path.parent / SEALS}: the instance {missing[0]} is missing; write the file with "
            f"`hpcosim benchmark seal {path}`"
        )
    return suite


def read_suite(path: Path) -> Suite:
    """Return the suite in a file, sealed or not.

    Raises:
        SuiteError: the file is invalid. The error has the line and the field.
        BenchmarkError: its seals are invalid.
    """
    try:
        tree = read_tree(path, KIND)
    except ScenarioError as error:
        raise SuiteError(*error.args) from None
    try:
        file = msgspec.convert(tree, SuiteFile)
    except msgspec.ValidationError as error:
        found = scenario_error(error, tree, KINDS)
        line = line_of(read_text(path, KIND), found.field, found.key or None)
        raise SuiteError(found.what, path, line, found.field, found.key) from None
    if file.bound not in (known := bound_names()):
        what = f"expected one of {', '.join(known)}, got {file.bound!r}"
        line = line_of(read_text(path, KIND), "$.bound", None)
        raise SuiteError(what, path, line, "$.bound")
    return Suite(file, path.parent, _read_seals(path.parent / SEALS))


def bound_names() -> tuple[str, ...]:
    """Return the names of all bounds, also of those that other packages register."""
    return (*OWN_BOUNDS, *(point.name for point in entry_points(group=BOUNDS)))


def write_seals(folder: Path, seals: list[Seal]) -> None:
    """Write the seals of a suite to its folder.

    Raises:
        OSError: the file cannot be written.
    """
    rows = [msgspec.to_builtins(seal) for seal in seals]
    write_rows(folder / SEALS, Seal.__struct_fields__, rows, digits=None)


def _read_seals(path: Path) -> dict[str, Seal]:
    """Return the seals in a file, by instance; none if the file is missing."""
    if not path.exists():
        return {}
    try:
        rows = read_rows(path, Seal.__struct_fields__)
        # A digest of decimal digits only is text too.
        texts = [{**row, "sha256": str(row["sha256"])} for row in rows]
        seals = [msgspec.convert(row, Seal) for row in texts]
    except (ExperimentError, msgspec.ValidationError) as error:
        what = str(error).removeprefix(f"{path}: ")
        raise BenchmarkError(f"{path}: expected the seals of a suite: {what}") from None
    return {seal.instance: seal for seal in seals}
