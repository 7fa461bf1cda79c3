"""A scenario: platform, workload, scheduler and seed, from one YAML file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta, Struct

import hpcosim_protocol as protocol
from hpcosim_protocol import Placement
from hpcosim_protocol.platform import NotNegative
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_server.contention import check_contention

MOST_BYTES = 2**20
MOST_NODES = 1_000_000

# Bounds far beyond any machine, within which no number of a run can overflow.
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Cores = Annotated[int, Meta(gt=0, le=1_000_000)]
Nodes = Annotated[int, Meta(gt=0, le=1_000_000)]
Watts = Annotated[float, Meta(ge=0, le=1e9)]
Mbps = Annotated[float, Meta(ge=0, le=1e12)]
Clock = Annotated[float, Meta(ge=1e-6, le=1e6)]
Factor = Annotated[float, Meta(ge=1e-6, le=1e6)]
Seconds = Annotated[float, Meta(gt=0, le=1e12)]
Jobs = Annotated[int, Meta(gt=0, le=100_000_000)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Scalar = bool | int | float | str | None


class Contention(protocol.Contention, frozen=True, forbid_unknown_fields=True):
    """See `hpcosim_protocol.Contention`."""

    c_mbps: Mbps
    b_per_mbps: Annotated[float, Meta(ge=-1e6, lt=0)]
    da: Annotated[float, Meta(ge=-1e6, le=1e6)]
    db_mbps: Mbps
    dc_mbps: Mbps
    dd_mbps: Mbps


class Processor(protocol.Processor, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """See `hpcosim_protocol.Processor`; a key it does not know is an error here.

    Its power must be said, if only as 0: energies of 0 J would else come as a surprise.
    """

    cores: Cores
    clock_ghz: Clock = 1.0
    static_w: Watts
    dynamic_w: Watts
    flops_per_cycle: Factor = 1.0
    contention: Contention | None = None

    def __post_init__(self) -> None:
        check_contention(self)


class NodeGroup(protocol.NodeGroup, frozen=True, forbid_unknown_fields=True):
    """See `hpcosim_protocol.NodeGroup`."""

    count: Nodes
    processors: Annotated[tuple[Processor, ...], Meta(min_length=1)]


class Platform(protocol.Platform, frozen=True, forbid_unknown_fields=True):
    """See `hpcosim_protocol.Platform`."""

    nodes: Annotated[tuple[NodeGroup, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.node_count > MOST_NODES:
            raise ValueError(f"a platform has at most {MOST_NODES} nodes, not {self.node_count}")


class Lublin(Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="lublin"):
    """Jobs of the Lublin-Feitelson model (2003).

    Attributes:
        jobs: how many.
        processors: the size of the machine they are meant for.
    """

    jobs: Jobs
    processors: Cores


class Poisson(Struct, frozen=True, forbid_unknown_fields=True, tag_field="model", tag="poisson"):
    """Jobs that come as a Poisson process.

    Attributes:
        jobs: how many.
        mean_interarrival_s: mean time between submissions.
        cores: least and most cores, log-uniform.
        run_s: least and longest run time, log-uniform.
        overestimate: requested times are up to this many times the run time.
    """

    jobs: Jobs
    mean_interarrival_s: Seconds
    cores: tuple[Cores, Cores] = (1, 32)
    run_s: tuple[Seconds, Seconds] = (60.0, 7200.0)
    overestimate: Annotated[float, Meta(ge=1, le=1e6)] = 2.0


class Workload(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the jobs come from (one of the first four) and what is made of them, in this order.

    Attributes:
        swf: a log in the Standard Workload Format; a path from the scenario's folder.
        json: a file in the project's own format, likewise.
        trace: a known log by name, see `hpcosim traces`.
        synthetic: a model.
        lenient: leave out corrupt lines and count them.
        placement: how jobs that do not say are laid over nodes.
        window_s: only jobs submitted from the first to before the second of these.
        jobs: only these of the jobs kept, counted from 0, without the last.
        max_cores: jobs of more cores are cut down to these.
        load: so many times as many jobs in the same time.
        reference_clock_ghz: the clock at which run times hold; a job on nodes of another clock
            runs as much longer or shorter. Absent: run times hold on every node.
    """

    swf: str | None = None
    json: str | None = None
    trace: str | None = None
    synthetic: Lublin | Poisson | None = None
    lenient: bool = False
    placement: Placement = "cores"
    window_s: tuple[NotNegative, NotNegative] | None = None
    jobs: tuple[Count, Count] | None = None
    max_cores: Cores | None = None
    load: Factor = 1.0
    reference_clock_ghz: Clock | None = None

    def __post_init__(self) -> None:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"a workload has one of {', '.join(SOURCES)}; here is {found}")
        for name in ("window_s", "jobs"):
            window = getattr(self, name)
            if window is not None and window[0] >= window[1]:
                raise ValueError(f"{name} must go from less to more, not {list(window)}")


SOURCES = ("swf", "json", "trace", "synthetic")


class Scheduler(Struct, frozen=True, forbid_unknown_fields=True):
    """The scheduler.

    Attributes:
        name: as `hpcosim schedule` takes it.
    """

    name: Annotated[str, Meta(min_length=1, max_length=200)] = "fcfs"


class Scenario(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All that a result follows from.

    Attributes:
        name: for results and figures.
        seed: of everything that is drawn.
        platform: the cluster.
        workload: the jobs.
        scheduler: who decides.
        kill_at_walltime: a job past its requested time is killed.
        dynamic_jobs: the scheduler may submit jobs of its own.
    """

    name: Name
    seed: Count = 0
    platform: Platform
    workload: Workload
    scheduler: Scheduler = Scheduler()
    kill_at_walltime: bool = False
    dynamic_jobs: bool = False


def load_scenario(path: Path, overrides: Mapping[str, Scalar] | None = None) -> Scenario:
    """Return the scenario in a file.

    Args:
        path: the YAML file.
        overrides: values to change, by dotted path, such as `workload.load`.

    Raises:
        ScenarioError: it can't be read, or is none; names the line and the field.
    """
    text = _read(path)
    try:
        tree = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise ScenarioError(f"is not YAML: {error.problem}", path, line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"is not YAML: {' '.join(str(error).split())}", path) from None
    except RecursionError:
        raise ScenarioError("is nested too deep to be a scenario", path) from None
    for field, value in (overrides or {}).items():
        _override(tree, field, value)
    try:
        return msgspec.convert(tree, Scenario)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `")
        field = field.rstrip("`")
        line = _line_of(text, field, _unknown_key(what))
        raise ScenarioError(_helpful(what), path, line, field) from None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ScenarioError(f"is larger than {MOST_BYTES} bytes; is it a scenario?", path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"can't be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise ScenarioError("is not text in UTF-8", path) from None
    except ValueError as error:  # a null byte in the path
        raise ScenarioError(f"can't be read: {error}", path) from None


def _override(tree: Any, field: str, value: Scalar) -> None:
    *parents, last = field.split(".")
    branch = tree
    for name in parents:
        branch = branch.setdefault(name, {}) if isinstance(branch, dict) else None
    if not isinstance(branch, dict):
        raise ScenarioError(f"{field!r} can't be set: no such place in the scenario")
    branch[last] = value


def _unknown_key(what: str) -> str | None:
    found = re.search(r"unknown field `(.*)`", what)
    return found[1] if found else None


def _helpful(what: str) -> str:
    """Add the nearest known key to a message about an unknown one."""
    unknown = _unknown_key(what)
    if unknown is None:
        return what.replace("Object", "a mapping").replace("`object`", "a mapping")
    known = {field for kind in KINDS for field in kind.__struct_fields__}
    near = difflib.get_close_matches(unknown, sorted(known), n=1)
    advice = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key {unknown!r}{advice}"


KINDS = (
    Scenario,
    Platform,
    NodeGroup,
    Processor,
    Contention,
    Workload,
    Lublin,
    Poisson,
    Scheduler,
)


def _line_of(text: str, field: str, key: str | None) -> int | None:
    """Return the line of a field such as `$.platform.nodes[0]`, or of a key in it.

    Where there is no such place, it is the line of what should hold it.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    steps = re.findall(r"\.([A-Za-z_]\w*)|\[(\d+)\]", field)
    for name, place in steps:
        inner = _child(node, name) if name else _item(node, int(place))
        if inner is None:
            break
        node = inner
    if key is not None and isinstance(node, yaml.MappingNode):
        node = next((name for name, _ in node.value if name.value == key), node)
    return node.start_mark.line + 1 if node is not None else None


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value == name), None)


def _item(node: yaml.Node | None, place: int) -> yaml.Node | None:
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    return items[place] if place < len(items) else None
