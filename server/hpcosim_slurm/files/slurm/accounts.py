"""Accounts and users of `sacctmgr dump`, and qualities of service of `sacctmgr show qos`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_slurm.files.output import InputError, Pseudonyms
from hpcosim_slurm.files.report import ImportReport, Kind
from hpcosim_slurm.files.slurm import statements as texts
from hpcosim_slurm.files.tables import lines_of, read_table
from hpcosim_workloads.logs.quantities import FieldError, shown

ROOT = "root"
MOST_ENTRIES = 1_000_000
DUMP_ADVICE = "make the file with `sacctmgr dump CLUSTER file=dump.cfg`"
QOS_ADVICE = "make the file with `sacctmgr -P show qos`"

_LINE = re.compile(r"\s*(Cluster|Parent|Account|User|Project)\s*-\s*(.*)", re.IGNORECASE)
_PART = re.compile(
    r"""(?:'([^']*)'|"([^"]*)"|([^:=]*))"""
    r"""(?:(=)(?:'([^']*)'|"([^"]*)"|((?:gres/[^:=,]+:[^:=,]+=|[^:])*)))?(?::|$)"""
)
"""A name, or a key and its value. A value may have a type, as in `GrpTRES=gres/gpu:a100=4`."""

Read = Callable[[str], Any]

LIMITS: Mapping[str, tuple[str, Read]] = {
    "grpjobs": ("grp_jobs", texts.optional_whole),
    "grpjobsaccrue": ("grp_jobs_accrue", texts.optional_whole),
    "grpsubmit": ("grp_submit_jobs", texts.optional_whole),
    "grpsubmitjobs": ("grp_submit_jobs", texts.optional_whole),
    "grptres": ("grp_tres", texts.tres_limits),
    "grptresmins": ("grp_tres_mins", texts.tres_limits),
    "grptresrunmins": ("grp_tres_run_mins", texts.tres_limits),
    "grpwall": ("grp_wall_s", texts.optional_seconds),
    "maxtres": ("max_tres_per_job", texts.tres_limits),
    "maxtresperjob": ("max_tres_per_job", texts.tres_limits),
    "maxtrespernode": ("max_tres_per_node", texts.tres_limits),
    "maxtresmins": ("max_tres_mins_per_job", texts.tres_limits),
    "maxtresminsperjob": ("max_tres_mins_per_job", texts.tres_limits),
    "maxwall": ("max_wall_s", texts.optional_seconds),
    "maxwalldurationperjob": ("max_wall_s", texts.optional_seconds),
}
QOS_FLAGS: Mapping[str, str] = {
    "denyonlimit": "deny_on_limit",
    "enforceusagethreshold": "enforce_usage_threshold",
    "nodecay": "no_decay",
    "noreserve": "no_reserve",
    "overpartqos": "over_part_qos",
    "partitionmaxnodes": "partition_max_nodes",
    "partitionminnodes": "partition_min_nodes",
    "partitiontimelimit": "partition_time_limit",
    "requiresreservation": "requires_reservation",
    "usagefactorsafe": "usage_factor_safe",
}
DESCRIPTIVE = frozenset(("description", "organization", "adminlevel", "coordinator", "wckeys"))


def _shares(text: str) -> int | str | None:
    return "parent" if text.lower() == "parent" else texts.optional_whole(text)


ASSOCIATION: Mapping[str, tuple[str, Read]] = {
    **LIMITS,
    "fairshare": ("shares", _shares),
    "priority": ("priority", texts.optional_whole),
    "qos": ("qos", texts.names),
    "defaultqos": ("default_qos", str),
    "maxjobs": ("max_jobs", texts.optional_whole),
    "maxjobsaccrue": ("max_jobs_accrue", texts.optional_whole),
    "maxsubmit": ("max_submit_jobs", texts.optional_whole),
    "maxsubmitjobs": ("max_submit_jobs", texts.optional_whole),
}
"""Attribute of an association and its conversion, by key of `sacctmgr`."""

QOS: Mapping[str, tuple[str, Read]] = {
    **LIMITS,
    "priority": ("priority", texts.optional_whole),
    "gracetime": ("grace_time_s", texts.optional_seconds),
    "preempt": ("preempt", texts.names),
    "preemptexempttime": ("preempt_exempt_time_s", texts.optional_seconds),
    "preemptmode": ("preempt_mode", lambda text: "" if text == "cluster" else text.lower()),
    "usagefactor": ("usage_factor", float),
    "limitfactor": ("limit_factor", float),
    "usagethres": ("usage_threshold", float),
    "maxtrespu": ("max_tres_per_user", texts.tres_limits),
    "maxtrespa": ("max_tres_per_account", texts.tres_limits),
    "maxtresrunminspu": ("max_tres_run_mins_per_user", texts.tres_limits),
    "maxtresrunminspa": ("max_tres_run_mins_per_account", texts.tres_limits),
    "maxjobspu": ("max_jobs_per_user", texts.optional_whole),
    "maxjobspa": ("max_jobs_per_account", texts.optional_whole),
    "maxsubmitpu": ("max_submit_jobs_per_user", texts.optional_whole),
    "maxsubmitpa": ("max_submit_jobs_per_account", texts.optional_whole),
    "maxjobsaccruepu": ("max_jobs_accrue_per_user", texts.optional_whole),
    "maxjobsaccruepa": ("max_jobs_accrue_per_account", texts.optional_whole),
    "minpriothres": ("min_prio_threshold", texts.optional_whole),
    "mintres": ("min_tres_per_job", texts.tres_limits),
    "flags": ("flags", lambda text: [QOS_FLAGS[flag] for flag in _known_flags(text)]),
}


class _Entry(NamedTuple):
    line: int
    kind: str
    name: str
    values: dict[str, str]


def read_accounts(
    path: Path, report: ImportReport, pseudonyms: Pseudonyms | None = None
) -> dict[str, Any]:
    """Return the accounts of a file of `sacctmgr dump`, as `scheduler.settings.accounts`.

    Args:
        pseudonyms: replaces the names; None: they are kept.

    Raises:
        InputError: the file cannot be read or has another form; names the line.
    """
    accounts: dict[str, Any] = {}
    parent = ROOT
    for entry in _entries(path):
        name = entry.name
        if entry.kind == "cluster":
            root = _attributes(entry, ASSOCIATION, path, report)
            root.pop("shares", None)  # the cluster has no rivals
            if root:
                accounts.setdefault(ROOT, {}).update(root)
        elif entry.kind == "parent":
            parent = _renamed(pseudonyms, "account", name)
            if parent != ROOT and parent not in accounts:
                what = f"there is no account {shown(name)} above; expected it in an earlier line"
                raise InputError(what, path, entry.line)
        elif entry.kind in ("account", "project"):
            own = _attributes(entry, ASSOCIATION, path, report)
            above = {} if parent == ROOT else {"parent": parent}
            accounts[_renamed(pseudonyms, "account", name)] = {**above, **own}
        else:
            _add_user(entry, accounts.setdefault(parent, {}), path, report, pseudonyms, parent)
    if not accounts:
        what = "expected lines such as `Account - 'physics':Fairshare=10`"
        raise InputError(f"{what}; {DUMP_ADVICE}", path)
    _report_empty(accounts, path, report)
    _add_inherited_qos(accounts)
    return {name: each for name, each in accounts.items() if name != ROOT or each}


def _add_inherited_qos(accounts: Mapping[str, Any]) -> None:
    """Replace each `+NAME` and `-NAME` of a list of QOS by the inherited list with that change.

    A parent is before its children, except that the root may be missing.
    """
    lists: dict[str, list[str]] = {ROOT: accounts.get(ROOT, {}).get("qos", [])}
    for name, account in accounts.items():
        if name != ROOT:
            _change_qos(account, lists.get(account.get("parent", ROOT), []))
        lists[name] = above = account.get("qos", lists.get(account.get("parent", ROOT), []))
        for user in account.get("users", {}).values():
            _change_qos(user, above)
            for each in user.get("partitions", {}).values():
                _change_qos(each, user.get("qos", above))


def _change_qos(association: dict[str, Any], inherited: Sequence[str]) -> None:
    stated = association.get("qos", [])
    if any(each[:1] in ("+", "-") for each in stated):
        gone = {each[1:] for each in stated if each.startswith("-")}
        more = [each.lstrip("+") for each in stated if not each.startswith("-")]
        kept = [each for each in inherited if each not in gone]
        association["qos"] = list(dict.fromkeys([*kept, *more]))


def read_qos(path: Path, report: ImportReport) -> dict[str, Any]:
    """Return the qualities of service of a file, as `scheduler.settings.qos`.

    Raises:
        InputError: the file cannot be read or has another form; names the line.
    """
    found: dict[str, Any] = {}
    for row in read_table(path, report, advice=QOS_ADVICE, strict=True):
        values = {key.lower(): value for key, value in row.values.items()}
        name = values.pop("name", "")
        if not name:
            raise InputError(f"expected a column Name with a name; {QOS_ADVICE}", path, row.line)
        for flag in values.get("flags", "").split(","):
            if flag and flag.lower() not in QOS_FLAGS:
                report.add("not modelled", f"QOS Flags={flag:.60}", f"{path.name}:{row.line}")
        found[name] = _attributes(_Entry(row.line, "qos", name, values), QOS, path, report)
    return found


def _report_empty(accounts: Mapping[str, Any], path: Path, report: ImportReport) -> None:
    """Report accounts that have neither users nor accounts below: the file may be cut off."""
    parents = {each.get("parent", ROOT) for each in accounts.values()}
    for name, each in accounts.items():
        if name != ROOT and "users" not in each and name not in parents:
            what = "accounts without users: the file may be cut off"
            report.add("guessed", what, f"{path.name}: {name}")


def _add_user(
    entry: _Entry,
    account: dict[str, Any],
    path: Path,
    report: ImportReport,
    pseudonyms: Pseudonyms | None,
    parent: str,
) -> None:
    values = dict(entry.values)
    default = _renamed(pseudonyms, "account", values.pop("defaultaccount", ""))
    partition = values.pop("partition", "")
    own = _attributes(entry._replace(values=values), ASSOCIATION, path, report)
    if entry.name == ROOT and parent == ROOT and own in ({}, {"shares": 1}):
        return  # every site has this user
    users = account.setdefault("users", {})
    name = _renamed(pseudonyms, "user", entry.name)
    if partition:
        users.setdefault(name, {}).setdefault("partitions", {})[partition] = own
    else:
        users.setdefault(name, {}).update(own | ({"default": True} if default == parent else {}))


def _entries(path: Path) -> Iterator[_Entry]:
    count = 0
    for number, text in lines_of(path):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        count += 1
        match = _LINE.fullmatch(text)
        if match is None or count > MOST_ENTRIES:
            what = "expected a line such as `User - 'ada':Fairshare=1`, got"
            raise InputError(f"{what} {shown(text)}", path, number)
        yield _entry(number, match[1].lower(), match[2], path)


def _entry(number: int, kind: str, text: str, path: Path) -> _Entry:
    parts = [match for match in _PART.finditer(text.strip()) if match[0]]
    plain = [(_plain(match, 1).strip(), match[4], _plain(match, 5).strip()) for match in parts]
    if not plain or not plain[0][0]:
        raise InputError(f"expected a name after `{kind} -`, got {shown(text)}", path, number)
    name = plain[0][0]
    for key, equals, value in plain[1:]:
        if not key or not equals:
            what = f"{name}: expected `Key=Value`, got {shown(key or value)}"
            raise InputError(f"{what}; {DUMP_ADVICE}", path, number)
    for word in (name, *(value for _, _, value in plain[1:])):
        if word[:1] in ("'", '"') and (len(word) == 1 or word[-1] != word[0]):
            what = f"the quote of {shown(word)} does not end; {DUMP_ADVICE}"
            raise InputError(what, path, number)
    return _Entry(number, kind, name, {key.lower(): value for key, _, value in plain[1:]})


def _plain(match: re.Match[str], first: int) -> str:
    """Return the text of three groups of which one has matched: quoted texts or a plain one."""
    return next((each for each in match.groups()[first - 1 : first + 2] if each), "")


def _attributes(
    entry: _Entry, readers: Mapping[str, tuple[str, Read]], path: Path, report: ImportReport
) -> dict[str, Any]:
    """Return the attributes that an entry states; those without a limit are left out."""
    found: dict[str, Any] = {}
    for key, text in entry.values.items():
        if key in readers and text:
            name, read = readers[key]
            try:
                value = read(text)
            except (FieldError, ValueError) as error:
                raise InputError(f"{entry.name}: {key}: {error}", path, entry.line) from None
            if value not in (None, {}, [], ""):
                found[name] = value
        elif key not in readers and text:
            kind: Kind = "no effect" if key in DESCRIPTIVE else "not modelled"
            report.add(kind, f"sacctmgr: {key}", f"{path.name}:{entry.line}")
    return found


def _known_flags(text: str) -> list[str]:
    return [flag.lower() for flag in text.split(",") if flag.lower() in QOS_FLAGS]


def _renamed(pseudonyms: Pseudonyms | None, kind: str, name: str) -> str:
    return name if pseudonyms is None else pseudonyms.of(kind, name)
