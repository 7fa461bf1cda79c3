"""The settings of power managers and of the awareness of power states, as scenarios state them.

The key `name` of `scheduler.power` is the manager's name; the other keys are the fields of the
manager's class below. Sets of nodes of which some stay on are those of Slurm's SuspendExcNodes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, cast, get_args

import msgspec
from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError, explained
from hpcosim_protocol import HostListError, Platform
from hpcosim_protocol.hosts import NodeNames, expand

if TYPE_CHECKING:
    from hpcosim_client.job import Bools, Ints


WholeSeconds = Annotated[int, Meta(ge=0, le=1_000_000)]
PerMinute = Annotated[int, Meta(ge=0, le=60_000)]


Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Watts = Annotated[float, Meta(gt=0, le=1e15)]
Interval = Annotated[float, Meta(gt=0, le=1e12)]
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = "|".join(WEEKDAYS)
WINDOW = re.compile(
    rf"(?:(?P<first>{_DAY})(?:-(?P<last>{_DAY}))? )?"
    r"(?P<from_h>[01]\d|2[0-3]):(?P<from_min>[0-5]\d)-"
    r"(?:(?=24:00)|(?![3-9]|2[4-9]))(?P<to_h>[0-2]\d):(?P<to_min>[0-5]\d)",
    re.ASCII,
)
"""A window of `OffAtNight.off`."""

SecondOfWeek = Annotated[float, Meta(ge=0, lt=604_800)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]

EXAMPLE = '{"name": "timeout", "timeout_s": 900}'

Awareness = Literal["unaware", "aware", "planned", "ipm"]
"""How a job scheduler treats nodes that are not on.

- `unaware`: a sleeping node counts as free. A job is allocated the lowest-numbered nodes and holds
  those that are on while the others boot.
- `aware`: a job is allocated nodes that are on first, then booting nodes, then sleeping nodes.
  Estimates include the boot time: a job waits for running jobs to end if that is sooner than a
  boot; otherwise it is allocated sleeping nodes, which switches them on.
- `planned`: a job is allocated only nodes that are on. The nodes of a reservation are switched on
  one boot time before it begins; until then other jobs may use them.
- `ipm`: as `planned`, with the whole queue planned on the nodes that waste the least energy, see
  `hpcosim_schedulers.ipm` (Pulungan et al. 2026).
"""

AWARENESSES: tuple[Awareness, ...] = get_args(Awareness)


NODE_SET = re.compile(r"\s*([^\s:;]+)(?::(\d{1,9}))?\s*", re.ASCII)
NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
OUTER_COMMA = re.compile(r",(?![^\[\]]*\])")


class Slurm(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="slurm"):
    """Settings of Slurm's power saving, with the names and meanings of slurm.conf.

    Attributes:
        suspend_time_s: SuspendTime, in seconds, >= 0. A node idle for longer is switched off.
        suspend_timeout_s: SuspendTimeout, in seconds, >= 0. A node that is switched off is not
            allocated until a scan more than this time later; None: the `switch_off_s` of its group.
        resume_timeout_s: ResumeTimeout, in seconds, >= 0: the longest boot time; None: any. A
            platform whose nodes take longer is an error; no boot fails in a simulation.
        suspend_rate_per_min: SuspendRate, nodes per minute; 0: no limit.
        resume_rate_per_min: ResumeRate, nodes per minute; 0: no limit.
        suspend_exc_nodes: SuspendExcNodes, sets of nodes separated by commas: host lists such as
            `hm[01-04]`, node numbers such as `20` and `0-9`. Nodes of a set are never switched off;
            of `hm[01-04]:2` the two lowest-numbered idle nodes that are on stay on. Quote the value
            in YAML, where 20:4 is the number 1204.
        suspend_exc_states: SuspendExcStates. With `PLANNED`, nodes that the job scheduler has
            reserved (`PowerExchange.planned`) are not switched off.
        power_save_interval_s: power_save_interval of SlurmctldParameters, in seconds, >= 0.
        power_save_min_interval_s: power_save_min_interval of SlurmctldParameters, in seconds, >= 0.
    """

    suspend_time_s: Seconds
    suspend_timeout_s: Seconds | None = None
    resume_timeout_s: Seconds | None = None
    suspend_rate_per_min: PerMinute = 60
    resume_rate_per_min: PerMinute = 300
    suspend_exc_nodes: str = ""
    suspend_exc_states: Literal["", "PLANNED"] = ""
    power_save_interval_s: WholeSeconds = 10
    power_save_min_interval_s: WholeSeconds = 0

    def __post_init__(self) -> None:
        list(node_sets(self.suspend_exc_nodes, "suspend_exc_nodes"))

    def check(self, platform: Platform) -> None:
        """Check that the settings fit a platform.

        Raises:
            PolicyError: the nodes take longer to switch than the settings allow, or an excluded
                node does not exist.
        """
        for states in (group.power_states for group in platform.nodes):
            if states is not None:
                _check_longer("suspend_timeout_s", self.suspend_timeout_s, states, "switch_off_s")
                _check_longer("resume_timeout_s", self.resume_timeout_s, states, "switch_on_s")
        kept_on(self.suspend_exc_nodes, "suspend_exc_nodes", platform)


def _check_longer(name: str, given_s: float | None, states: object, least: str) -> None:
    least_s = float(getattr(states, least))
    if given_s is not None and given_s < least_s:
        raise PolicyError(
            f"{name}: expected at least {least_s}, the {least} of a node group, got {given_s}: "
            "Slurm would not wait for its nodes"
        )


class AlwaysOn(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="always-on"):
    """Every node stays on."""


class Timeout(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="timeout"):
    """Settings of `hpcosim_schedulers.power.timeout.timeout`.

    Attributes:
        timeout_s: idle time after which a node is switched off, simulated seconds, >= 0.
        wait_price_w: price of a job's wait in J/s, > 0, see `PowerExchange.wait_price_w`; None: no
            job is delayed to save energy.
    """

    timeout_s: Seconds
    wait_price_w: Watts | None = None


class KeepIdle(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="keep-idle"):
    """Settings of `hpcosim_schedulers.power.timeout.keep_idle`.

    Attributes:
        warm: number of idle nodes that stay on, >= 0.
        timeout_s: idle time after which another node is switched off, simulated seconds, >= 0.
    """

    warm: Count
    timeout_s: Seconds = 0.0


class OffAtNight(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="off-at-night"
):
    """Settings of `hpcosim_schedulers.power.timeout.off_at_night`.

    Attributes:
        off: windows in which idle nodes are switched off: `20:00-06:00` on all days, `Mon-Fri
            20:00-06:00` on those that begin on these days, `Sat 00:00-24:00` a whole day. A window
            that does not end after its begin ends on the next day.
        keep_on: sets of nodes separated by commas that stay on in the windows: host lists such as
            `hm[01-04]`, node numbers such as `20` and `0-9`; of `0-9:2` the two lowest-numbered
            idle nodes that are on stay on. Quote the value in YAML, where 20:4 is the number 1204.
        origin_s: second of the week, from Monday midnight, at which the simulation starts, >= 0.
    """

    off: tuple[str, ...] = ("20:00-06:00",)
    keep_on: str = ""
    origin_s: SecondOfWeek = 0.0

    def __post_init__(self) -> None:
        if not self.off:
            raise ValueError("off: expected at least one window, such as 20:00-06:00, got none")
        for window in self.off:
            if WINDOW.fullmatch(window) is None:
                raise ValueError(
                    "off: expected windows such as '20:00-06:00', 'Mon-Fri 19:30-07:00' or "
                    f"'Sat 00:00-24:00', got {window!r}"
                )
        list(node_sets(self.keep_on, "keep_on"))


class Icon(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="icon"):
    """Settings of `hpcosim_schedulers.ipm.icon.icon`; the defaults are those of its authors' paper.

    Attributes:
        timeout_s: idle time after which a node is switched off, simulated seconds, >= 0.
        wait_price_w: price of the expected wait of the next job, in J/s, > 0.
        gate_s: time since the last submission after which no spare nodes are woken, simulated
            seconds, > 0; None: no limit (variant NG).
        fallback: whether calls without exponential samples are those of SNF + IPM; false: variant
            NF.
        window_s: age of the samples that are screened, simulated seconds, > 0.
    """

    timeout_s: Seconds = 7200.0
    wait_price_w: Watts = 5000.0
    gate_s: Interval | None = 43_200.0
    fallback: bool = True
    window_s: Interval = 7200.0


class Predictive(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="predictive"
):
    """Settings of `hpcosim_schedulers.predictive.manager.predictive`.

    Attributes:
        wait_price_w: price of a job's wait in J/s, > 0.
        samples: number of samples of the future for each decision, >= 1.
    """

    wait_price_w: Watts
    samples: Annotated[int, Meta(ge=1, le=10_000)] = 48


class Learned(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="learned"):
    """Settings of `hpcosim_schedulers.agents.spare_nodes.learned`.

    Attributes:
        model: file that `hpcosim train spare-nodes` wrote.
        wait_price_w: price of a job's wait in J/s, > 0.
        samples: number of samples of the future for each decision, >= 1.
    """

    model: Annotated[str, Meta(min_length=1)]
    wait_price_w: Watts
    samples: Annotated[int, Meta(ge=1, le=10_000)] = 48


class Empirical(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="empirical"):
    """Settings of `hpcosim_schedulers.predictive.empirical.empirical`.

    Attributes:
        model: file that `hpcosim train rises` wrote.
        wait_price_w: price of a job's wait in J/s, > 0.
    """

    model: Annotated[str, Meta(min_length=1)]
    wait_price_w: Watts


class Oracle(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="oracle"):
    """Settings of `hpcosim_schedulers.power.oracle.by_plan`.

    Attributes:
        plan: file that `hpcosim oracle` wrote for the same job scheduler; empty: `hpcosim run` and
            `compare` compute the plan.
    """

    plan: str = ""


class Rl(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="rl"):
    """Settings of the manager that a package registers as `rl`.

    Attributes:
        model: file that `hpcosim train power` wrote.
        interval_s: interval between two decisions, simulated seconds, > 0; None: as in training.
        origin_s: second of the week, from Monday midnight, at which the simulation starts, >= 0;
            None: as in training.
    """

    model: Annotated[str, Meta(min_length=1)]
    interval_s: Interval | None = None
    origin_s: SecondOfWeek | None = None


class Adaptive(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="adaptive"):
    """Settings of `hpcosim_schedulers.power.adaptive.adaptive`.

    Attributes:
        model: file that `hpcosim train adaptive` wrote.
        origin_s: second of the week, from Monday midnight, at which the simulation starts, >= 0;
            None: as in training.
    """

    model: Annotated[str, Meta(min_length=1)]
    origin_s: SecondOfWeek | None = None


Power = (
    AlwaysOn
    | Timeout
    | KeepIdle
    | OffAtNight
    | Slurm
    | Icon
    | Predictive
    | Learned
    | Empirical
    | Oracle
    | Rl
    | Adaptive
)

MANAGERS: Mapping[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(Power)
}
"""The class of the settings of each manager, by name."""

NAMES: tuple[str, ...] = tuple(MANAGERS)
PATHS = ("plan", "model")
"""The settings that name a file."""


class PowerSettingsError(PolicyError):
    """The settings of a power manager are invalid.

    Args:
        what: the error, and how to fix it.
        field: dotted path of the setting below `power`; empty: the mapping itself.
    """

    def __init__(self, what: str, field: str = "") -> None:
        super().__init__(what, field)
        self.what = what
        self.field = field

    def __str__(self) -> str:
        return f"power{'.' if self.field else ''}{self.field}: {self.what}"


def parse_power(settings: Mapping[str, object]) -> Power:
    """Return the power manager that a mapping describes, for example one read from YAML.

    Files that the mapping names are not opened.

    Args:
        settings: `name` and the settings of that manager.

    Raises:
        PowerSettingsError: the mapping is invalid; `field` names the setting.

    Example:
        >>> parse_power({"name": "timeout", "timeout_s": 900})
        Timeout(timeout_s=900.0, wait_price_w=None)
    """
    name = settings.get("name")
    if isinstance(name, str):
        name = canonical(name, NAMES)
        settings = {**settings, "name": name}
    try:
        return cast(Power, msgspec.convert(dict(settings), type=Power))
    except msgspec.ValidationError as error:
        raise _explained(str(error), settings) from None


def read_power(text: str) -> Power:
    """Return the power manager that a JSON text describes.

    Raises:
        PolicyError: the text is not JSON, or the settings are invalid.
    """
    try:
        return parse_power(msgspec.json.decode(text, type=dict[str, object]))
    except (msgspec.DecodeError, PowerSettingsError) as error:
        raise PolicyError(
            f"expected a power manager in JSON, such as {EXAMPLE}, got {text!r}: {error}"
        ) from None


def as_text(power: Power) -> str:
    """Return the JSON text that `read_power` reads."""
    return msgspec.json.encode(power).decode()


def no_such_manager(name: str) -> str:
    """Return the message for an unknown name: the nearest name, and all names."""
    near = difflib.get_close_matches(name, NAMES, n=1)
    advice = f"did you mean {near[0]}? " if near else ""
    return f"there is no power manager {name!r}; {advice}expected one of {', '.join(NAMES)}"


def _explained(error: str, settings: Mapping[str, object]) -> PowerSettingsError:
    """Return the error for a message of msgspec, with the setting and how to fix it."""
    name = settings.get("name")
    if error.endswith(" - at `$.name`") and isinstance(name, str):
        return PowerSettingsError(no_such_manager(name), "name")
    field, what = explained(error, settings, MANAGERS.get(str(name), Struct), str(name))
    return PowerSettingsError(what, field)


def parse_awareness(text: str) -> Awareness:
    """Return the awareness that a setting names; case does not matter.

    Raises:
        PolicyError: there is no such awareness.
    """
    text = text.lower()
    if text not in AWARENESSES:
        known = ", ".join(AWARENESSES)
        raise PolicyError(f"power_awareness: expected one of {known}, got {text!r}")
    return text


class NodeSet(NamedTuple):
    """Some nodes, and how many of them stay on.

    Attributes:
        hosts: a host list; empty: the nodes have numbers.
        first, last: node numbers, if there is no host list.
        kept: number of nodes to keep on; None: all.
    """

    hosts: str
    first: int
    last: int
    kept: int | None


def node_sets(text: str, setting: str) -> Iterator[NodeSet]:
    """Yield the sets of a setting.

    Args:
        text: sets separated by commas: host lists such as `hm[01-04]`, node numbers such as `20`
            and `0-9`; a number after a colon is the number of nodes to keep on.
        setting: name of the setting, for messages.

    Raises:
        ValueError: a set is invalid.
    """
    for part in OUTER_COMMA.split(text) if text.strip() else ():
        match = NODE_SET.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{setting}: expected sets such as 20, 0-9:4 or hm[01-04]:2, got {part.strip()!r}"
            )
        numbers = NUMBERS.fullmatch(match[1])
        if numbers is None:
            hosts, first, size = match[1], 0, len(_expanded(match[1], setting))
        else:
            hosts, first = "", int(numbers[1])
            size = int(numbers[2] or numbers[1]) - first + 1
        kept = None if match[2] is None else int(match[2])
        if size < 1 or kept == 0:
            raise ValueError(f"{setting}: the set {part.strip()!r} is empty")
        yield NodeSet(hosts, first, first + size - 1, kept)


def kept_on(text: str, setting: str, platform: Platform) -> list[tuple[Ints, int]]:
    """Return the nodes of each set of a setting, and how many of them stay on.

    Args:
        text: sets, as `node_sets` takes them.
        setting: name of the setting, for messages.
        platform: the platform that has the nodes.

    Raises:
        PolicyError: a node does not exist.
    """
    import numpy as np  # settings are validated without it

    sets = list(node_sets(text, setting))
    names = NodeNames(platform) if sets else None
    found = [_nodes_of(each, platform.node_count, names, setting) for each in sets]
    return [
        (np.array(nodes), each.kept or len(nodes)) for nodes, each in zip(found, sets, strict=True)
    ]


def without_kept(chosen: Bools, usable: Bools, sets: list[tuple[Ints, int]]) -> Bools:
    """Return bool[nodes]: the chosen nodes but, of each set, the first usable ones that stay on."""
    left = chosen.copy()
    for members, count in sets:
        left[members[usable[members]][:count]] = False
    return left


def _expanded(hosts: str, setting: str) -> list[str]:
    try:
        return expand(hosts)
    except HostListError as error:
        raise ValueError(f"{setting}: {error}") from None


def _nodes_of(nodes: NodeSet, total: int, names: NodeNames | None, setting: str) -> list[int]:
    if nodes.hosts and names is not None:
        try:
            return sorted(set(names.numbers(nodes.hosts)))
        except HostListError as error:
            raise PolicyError(f"{setting}: {error}") from None
    if nodes.last >= total:
        raise PolicyError(
            f"{setting}: expected node numbers from 0 to {total - 1}, got {nodes.last}"
        )
    return list(range(nodes.first, nodes.last + 1))


def canonical(name: str, known: Collection[str]) -> str:
    """Return a known name in lower case; an unknown name is returned unchanged.

    Args:
        name: a name as a user wrote it; case does not matter.
        known: the canonical names.
    """
    return name.lower() if name.lower() in known else name
