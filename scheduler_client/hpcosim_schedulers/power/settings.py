"""The settings of every power manager: the mapping `scheduler.power` of a scenario.

Its key `name` is the manager's name; the other keys are the fields of the manager's class below.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, cast, get_args

import msgspec
from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError
from hpcosim_client.names import canonical
from hpcosim_client.setting_errors import explained
from hpcosim_schedulers.power.kept_nodes import node_sets
from hpcosim_schedulers.power.slurm_settings import Slurm

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
    """Settings of `hpcosim_schedulers.power.keep_idle.keep_idle`.

    Attributes:
        warm: number of idle nodes that stay on, >= 0.
        timeout_s: idle time after which another node is switched off, simulated seconds, >= 0.
    """

    warm: Count
    timeout_s: Seconds = 0.0


class OffAtNight(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="off-at-night"
):
    """Settings of `hpcosim_schedulers.power.off_at_night.off_at_night`.

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
    """Settings of `hpcosim_schedulers.agents.spare_nodes.manager.learned`.

    Attributes:
        model: file that `hpcosim train spare-nodes` wrote.
        wait_price_w: price of a job's wait in J/s, > 0.
        samples: number of samples of the future for each decision, >= 1.
    """

    model: Annotated[str, Meta(min_length=1)]
    wait_price_w: Watts
    samples: Annotated[int, Meta(ge=1, le=10_000)] = 48


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
