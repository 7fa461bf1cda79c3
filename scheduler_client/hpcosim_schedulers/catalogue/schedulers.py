"""Job schedulers by name.

An unknown name, an invalid file or setting, and an awareness without support is a `PolicyError`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hpcosim_client.errors import PolicyError
from hpcosim_client.library import LibraryScheduler, is_library, path_in, with_path
from hpcosim_client.view import Policy, View
from hpcosim_schedulers.catalogue.policy_files import is_policy_file, make_from_file, split_name
from hpcosim_schedulers.catalogue.scheduler_settings import (
    NO_SETTINGS,
    SETTINGS,
    SITES,
    Settings,
    easy_of,
    follows_signal,
    make_signal_policy,
    make_site_policy,
    parse_settings,
)
from hpcosim_schedulers.catalogue.trained import (
    SCHEDULERS,
    Scheduler,
    check_trained,
    is_trained,
    load,
    make_trained,
    registered,
    trained_names,
)
from hpcosim_schedulers.heuristics import list_scheduling
from hpcosim_schedulers.heuristics.easy import RULES as HEAD_RULES
from hpcosim_schedulers.heuristics.easy import easy_by_rule
from hpcosim_schedulers.heuristics.job_node import ONE, job_node, job_node_names, parse_job_node
from hpcosim_schedulers.heuristics.list_scheduling import (
    Start,
    by_changing_key,
    by_fixed_key,
    first_come_first_served,
    start_soonest_on,
)
from hpcosim_schedulers.power.settings import NAMES, Awareness, canonical

SCRIPTED = "scripted:"
"""Prefix of the path of a schedule: `scripted:results/a-run/schedule.csv`."""

RECORDED = "recorded:"
"""Prefix of the path of recorded runs: `recorded:jobs.recorded.csv`."""

REPLAYED = (SCRIPTED, RECORDED)

SAFE_SETTINGS = re.compile(r"[A-Za-z0-9_.=:+-]{1,100}")
"""Settings that are part of the name of a results folder; a colon becomes a hyphen."""

MIN_WORD = 4
"""Fewest letters of a word that is looked up in the descriptions of schedulers."""


def _later(module: str, name: str, *arguments: object, **settings: object) -> Callable[..., Policy]:
    """Return a factory of policies that imports its module of `heuristics` when it is called."""

    def make(*more: object) -> Policy:
        policy: Policy = heuristic(module, name)(*arguments, *more, **settings)
        return policy

    return make


def heuristic(module: str, name: str) -> Any:
    """Return a name of a module of `heuristics`, which is imported here.

    A process runs one policy, so the catalogue imports no other.
    """
    return getattr(import_module(f"hpcosim_schedulers.heuristics.{module}"), name)


LISTS: Mapping[str, Callable[[Start], Policy]] = {
    "fcfs": lambda start: _first_come_first_served(start),
    **{name: partial(by_fixed_key, key) for name, key in list_scheduling.FIXED.items()},
    **{name: partial(by_changing_key, key) for name, key in list_scheduling.CHANGING.items()},
}
"""Factories of list schedulers, which take the function that starts a job."""

BACKFILLING: Mapping[str, Callable[[Awareness], Policy]] = {
    "easy": lambda awareness: easy_of(awareness),
    "conservative": _later("conservative", "conservative"),
    "young-daly": lambda awareness: heuristic("young_daly", "young_daly")(easy_of(awareness)),
}
"""Factories of schedulers with reservations; they support every awareness of power states."""

BY_RULE = tuple(f"easy-{name}" for name in HEAD_RULES)
"""EASY backfilling whose head is chosen by a rule, see `heuristics.easy.ChosenHead`."""

RULES = ("minmin", "maxmin", "duplex")

PLAIN: Mapping[str, Callable[[], Policy]] = {
    "look-ahead": lambda: heuristic("look_ahead", "look_ahead"),
}
"""Factories of other schedulers that ignore power states."""

PLACING: Mapping[str, Callable[[], Policy]] = {
    "esjf": _later("esjf", "esjf"),
    "esjf-now": _later("esjf", "esjf", now_only=True),
    "minmin": partial(heuristic, "minmin", "min_min"),
    "maxmin": partial(heuristic, "minmin", "max_min"),
    "duplex": partial(heuristic, "minmin", "duplex"),
    "gpu-random": _later("gpu_packing", "gpu_random"),
    "gpu-packing": _later("gpu_packing", "gpu_packing"),
    "best-fit": _later("gpu_packing", "best_fit"),
    "fgd": _later("gpu_packing", "fgd"),
    **{f"{rule}-immediate": _later("minmin", "immediate", rule) for rule in RULES},
    **{f"{rule}-chained": _later("minmin", "immediate", rule, chained=True) for rule in RULES},
}
"""Factories of schedulers that choose nodes by a rule that ignores power states."""

_JOBS = ("random", "first", "shortest", "smallest", "low-mem", "low-mem-ops")
_NODES = ("random", "high-gflops", "high-cores", "high-mem", "high-mem-bw", "low-power")
_AS_RUN = {"random": "none", "high-mem": "high-mem-used"}

_DESCRIBED = [f"{job}-{node}" for job in _JOBS for node in _NODES]
_RUN = [f"{_AS_RUN.get(job, job)}-{_AS_RUN.get(node, node)}" for job in _JOBS for node in _NODES]

GROUPS: Mapping[str, Sequence[str]] = {
    "all-heuristics": _DESCRIBED,
    "reference-heuristics": _RUN,
    "one-per-event": [name + ONE for name in _DESCRIBED],
    "reference-one-per-event": [name + ONE for name in _RUN],
    "minmin-family": [
        f"{rule}{mode}" for mode in ("", "-immediate") for rule in ("minmin", "maxmin", "duplex")
    ],
}
"""Groups of schedulers, by name; `catalogue.summaries.GROUPS` describes them.

The 36 heuristics are those of Lopez, Stafford, Bosque 2025, table 2, as the paper defines them and
as its program (IRMaSim) runs them.
"""


def scheduler_names() -> list[str]:
    """Return the names of all schedulers without a file, in the order of the catalogue."""
    return [*_own_names(), *registered(SCHEDULERS)]


def _own_names() -> list[str]:
    """Return the names of this package's schedulers without a file."""
    names = (LISTS, BACKFILLING, PLAIN, BY_RULE, SITES, SETTINGS, PLACING, job_node_names())
    return [name for some in names for name in some]


def canonical_name(name: str) -> str:
    """Return the canonical name of a scheduler or of a group, as results carry it.

    Case does not matter. A file in the name and an unknown name are returned unchanged.

    Example:
        >>> canonical_name("EASY")
        'easy'
    """
    kind, colon, file = name.partition(":")
    own = [*(prefix[:-1] for prefix in REPLAYED), *SETTINGS]
    if not colon:
        own += [*_own_names(), *GROUPS]
    if kind.lower() in own:  # without a look at the entry points
        return f"{canonical(kind, own)}{colon}{file}"
    known = trained_names() if colon else [*trained_names(), *registered(SCHEDULERS)]
    return f"{canonical(kind, known)}{colon}{file}"


def short_name(name: str) -> str:
    """Return a scheduler's canonical name without the folder of the file in it."""
    name = canonical_name(name)
    if is_policy_file(name):
        return Path(name).name
    if is_library(name):
        return with_path(name, Path(path_in(name)).name)
    kind, colon, file = name.partition(":")
    return f"{kind}{colon}{Path(file).name}"


def folder_name(name: str) -> str:
    """Return the part of a scheduler's name that names its results folder, without the file.

    Settings are part of it if they are short and every file system accepts them.

    Example:
        >>> folder_name("carbon-aware:slack_s=86400")
        'carbon-aware-slack_s=86400'
    """
    if is_policy_file(name):
        return name.rpartition(":")[2]
    if is_library(name):
        return Path(path_in(name)).stem
    kind, colon, settings = name.partition(":")
    if colon and follows_signal(name) and SAFE_SETTINGS.fullmatch(settings):
        return f"{kind}-{settings.replace(':', '-')}"
    return kind


def expand(names: Sequence[str]) -> list[str]:
    """Return the canonical names with groups replaced by their members, each name once."""
    named = map(canonical_name, names)
    return list(dict.fromkeys(one for name in named for one in GROUPS.get(name, (name,))))


def check_scheduler(name: str) -> str:
    """Return the canonical name of a scheduler, as `make_policy` takes it; no file is opened."""
    name = canonical_name(name)
    if name in ("scripted", SCRIPTED):
        raise PolicyError(f"{name!r} names no file: expected {SCRIPTED}results/a-run/schedule.csv")
    if name in ("recorded", RECORDED):
        raise PolicyError(f"{name!r} names no file: expected {RECORDED}jobs.recorded.csv")
    if name in _own_names():
        return name
    if is_library(name):
        return name
    if is_policy_file(name):
        split_name(name)
    elif is_trained(name):
        check_trained(name)
    elif follows_signal(name):
        parse_settings(name)
    elif name in GROUPS:
        raise PolicyError(f"{name} is a group of schedulers: use it with `hpcosim compare`")
    elif not name.startswith(REPLAYED) and name not in (known := scheduler_names()):
        raise PolicyError(_no_such_scheduler(name, (*known, *GROUPS)))
    return name


def _no_such_scheduler(name: str, known: Sequence[str]) -> str:
    """Return the message for an unknown name, with the likely correction."""
    hyphened = name.lower().replace("_", "-")
    if hyphened in NAMES:
        return (
            f"{name!r} is a power manager, not a scheduler: keep the scheduler and choose the "
            f"manager with --set scheduler.power={hyphened}"
        )
    near = difflib.get_close_matches(hyphened, known, n=3) or _described_by(hyphened, known)
    file, colon, function = name.rpartition(":")
    if colon and Path(f"{file}.py").is_file():
        near = [f"{file}.py:{function}"]
    advice = f"did you mean {', '.join(near)}? " if near else ""
    return f"there is no scheduler {name!r}; {advice}`hpcosim schedulers` lists them"


def _described_by(word: str, known: Sequence[str]) -> list[str]:
    """Return the first schedulers whose description has a word, such as `backfill`."""
    from hpcosim_schedulers.catalogue.summaries import all_schedulers

    if len(word) < MIN_WORD:
        return []
    texts = {name: text.lower() for name, text in all_schedulers().items() if name in known}
    return [name for name, text in texts.items() if word in text and f"no {word}" not in text][:3]


def make_policy(
    name: str, awareness: Awareness = "unaware", settings: Settings = NO_SETTINGS
) -> Policy:
    """Return a new policy by name. Each simulation needs its own, because policies keep state.

    Args:
        name: a name of `scheduler_names`, `carbon-aware:SETTINGS`, `scripted:FILE`,
            `recorded:FILE`, `pairing:MODEL`, `deep-eas:MODEL`, `PATH.py:FUNCTION` (see
            `catalogue.policy_files`) or `[in-process:]PATH.so[:OPTIONS]` (see
            `hpcosim_client.library`).
        settings: settings of a site for the schedulers of `SITES`, see `slurm.settings`; other
            schedulers ignore them.

    Example:
        >>> policy = make_policy("easy")
    """
    name = check_scheduler(name)
    if awareness == "ipm":
        return _ipm(name)
    if name in BACKFILLING:
        return BACKFILLING[name](awareness)
    if follows_signal(name):
        return make_signal_policy(name, awareness)
    if awareness == "planned":
        raise PolicyError(
            f"power_awareness: planned is supported by {', '.join(BACKFILLING)}, which reserve "
            f"nodes, not by {name}"
        )
    soonest_on = awareness == "aware"
    if name in SITES and not soonest_on:
        return make_site_policy(name, settings)
    if name in LISTS:
        return LISTS[name](start_soonest_on if soonest_on else View.start)
    if is_policy_file(name) and not soonest_on:
        return make_from_file(name)
    if is_library(name) and not soonest_on:
        return LibraryScheduler(name)
    if (parts := parse_job_node(name)) is not None:
        return job_node(*parts, soonest_on=soonest_on)
    if soonest_on:
        raise PolicyError(
            f"power_awareness: {awareness} is not supported by {name}, which chooses nodes by a "
            "rule of its own; expected unaware"
        )
    if name in PLACING:
        return PLACING[name]()
    if name in PLAIN:
        return PLAIN[name]()
    if name in BY_RULE:
        return easy_by_rule(HEAD_RULES[name.removeprefix("easy-")])
    if name in registered(SCHEDULERS):
        scheduler: Scheduler = load(SCHEDULERS, name)
        return scheduler.make()
    if is_trained(name):
        return make_trained(name)
    if name.startswith(RECORDED):
        from hpcosim_schedulers.heuristics.recorded import read_recorded, recorded

        path = Path(name.removeprefix(RECORDED))
        return recorded(read_recorded(path), str(path))
    from hpcosim_schedulers.heuristics.scripted import read_schedule, scripted

    path = Path(name.removeprefix(SCRIPTED))
    return scripted(read_schedule(path), str(path))


IPM: Mapping[str, tuple[str, str]] = {
    "easy": ("plan", "easy_ipm"),
    "snf": ("icon", "snf_ipm"),
}
"""Module of `ipm` and function that makes the policy, of the schedulers that support `ipm`."""


def _ipm(name: str) -> Policy:
    if name not in IPM:
        raise PolicyError(
            f"power_awareness: ipm is supported by {' and '.join(IPM)}, not by {name}"
        )
    module, function = IPM[name]
    policy: Policy = getattr(import_module(f"hpcosim_schedulers.ipm.{module}"), function)()
    return policy


def _first_come_first_served(start: Start) -> Policy:
    if start is View.start:
        return first_come_first_served
    return partial(first_come_first_served, start=start)
