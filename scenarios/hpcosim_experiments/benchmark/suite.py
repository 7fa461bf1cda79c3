"""A suite: a versioned set of instances with a score, bounds and a reference scheduler.

A suite is a folder with `suite.yaml`, the scenarios of its instances or paths to them, and
`instances.csv`, which `hpcosim benchmark seal` writes: the SHA-256 of each instance, its number of
jobs, its bound and the score of the reference scheduler. A suite never changes: other instances,
another score or another bound make a suite with the next number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import NODEFAULT, Meta, Struct, field, structs

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.statistics.rows import read_rows, write_rows
from hpcosim_scenarios.errors import FileError, ScenarioError
from hpcosim_scenarios.model.messages import nearest, scenario_error
from hpcosim_scenarios.model.yaml_tree import line_of, read_text, read_tree
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_scenarios.running.policies import Chosen, chosen_by
from hpcosim_scenarios.shipped import shipped_folder
from hpcosim_workloads.table import JobSpec

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


FORMAT = 1
"""Version of the content that is hashed."""


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


class BenchmarkError(ExperimentError):
    """Base class of the errors of this package."""


class SuiteError(BenchmarkError, FileError):
    """The file of a suite is invalid. The arguments are those of `FileError`."""


class VerificationError(BenchmarkError):
    """A submission is not what it claims to be.

    Args:
        path: the submission.
        what: what is wrong, where, and what was expected.
    """

    exit_status = 1

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")


def load_instance(suite: Suite, instance: InstanceFile) -> LoadedScenario:
    """Return an instance with its jobs, as the simulator gets them.

    Raises:
        BenchmarkError: the instance has a part that no suite may have, or its content is not the
            one that the suite states.
        ScenarioError, WorkloadError: its scenario or its workload is invalid.
    """
    loaded = Library([suite.folder / instance.scenario], instance.set).default
    scenario = loaded.scenario
    parts = ("economics", "signals", "failures", "actions", "dynamic_jobs", "kill_at_walltime")
    if forbidden := next((name for name in parts if getattr(scenario, name)), None):
        raise BenchmarkError(
            f"{suite.file.name}: {instance.name}: an instance of a suite may not have {forbidden}"
        )
    seal = suite.seals.get(instance.name)
    if seal is not None and (found := digest_of(loaded)) != seal.sha256:
        raise BenchmarkError(
            f"{suite.file.name}: {instance.name}: this installation makes other jobs or another "
            f"platform: expected the SHA-256 {seal.sha256}, got {found}; expected the files of the "
            "suite, and a NumPy that draws the same numbers"
        )
    return loaded


def digest_of(loaded: LoadedScenario) -> str:
    """Return the SHA-256 of the content of an instance: platform, rules, seed and jobs.

    The content is JSON without values that are defaults, so that a new key with a default in a
    later version of hpcosim leaves it unchanged.
    """
    scenario = loaded.scenario
    content = {
        "format": FORMAT,
        "seed": scenario.seed,
        "platform": _plain(scenario.platform),
        "reference_clock_ghz": scenario.workload.reference_clock_ghz,
        "wake_on_allocation": scenario.wake_on_allocation,
        "jobs": [_plain_job(job) for job in loaded.jobs.rows()],
    }
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


def policy_of(
    suite: Suite,
    instance: InstanceFile,
    loaded: LoadedScenario,
    scheduler: str,
    power: Mapping[str, Any],
    power_awareness: str,
) -> Chosen:
    """Return a policy for an instance.

    Args:
        instance: one of its instances.
        loaded: the same, loaded.
        scheduler: name of a job scheduler, or of an agent of the instance's scenario.
        power: the power manager, as in a scenario.
        power_awareness: treatment of nodes that are not on, as in a scenario.

    Raises:
        ScenarioError, PolicyError: the policy is invalid, or cannot schedule the instance.
    """
    own = structs.replace(
        loaded.scenario.scheduler, power=dict(power), power_awareness=power_awareness
    )
    scenario = structs.replace(loaded.scenario, scheduler=own)
    chosen = chosen_by(scenario, suite.folder / instance.scenario, scheduler)
    chosen.check()
    return chosen


def _plain_job(job: JobSpec) -> dict[str, Any]:
    """Return the values of a job that are no defaults."""
    defaults = JobSpec._field_defaults
    return {
        name: _plain(value)
        for name, value in job._asdict().items()
        if name not in defaults or value != defaults[name]
    }


def _plain(value: Any) -> Any:
    """Return plain data without the values of structs that are defaults."""
    if isinstance(value, Struct):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in structs.fields(value)
            if getattr(value, field.name) != _default(field)
        }
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _default(field: structs.FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default
