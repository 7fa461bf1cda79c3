"""The configuration of a Slurm cluster to a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcosim_slurm.files.output import (
    InputError,
    Pseudonyms,
    check_outputs,
    scenario_text,
    write_files,
)
from hpcosim_slurm.files.report import ImportReport, Kind
from hpcosim_slurm.files.slurm import nodes as hardware
from hpcosim_slurm.files.slurm.accounts import read_accounts, read_qos
from hpcosim_slurm.files.slurm.power_saving import KEYS as POWER_SAVING
from hpcosim_slurm.files.slurm.power_saving import power_saving
from hpcosim_slurm.files.slurm.reservations import read_reservations
from hpcosim_slurm.files.slurm.scheduling import OWN, SITE, scheduler_settings
from hpcosim_slurm.files.slurm.statements import Statement, optional_whole, read_statements
from hpcosim_slurm.texts import as_text, origin_of, zone_of
from hpcosim_workloads.logs.quantities import FieldError, device_counts, shown

NORMAL = "normal"  # exists even if no file describes it
KEYS = ("qos", "allowqos", "denyqos")

WITHOUT_EFFECT = frozenset(
    (
        *("accountingstoragebackuphost", "accountingstorageexternalhost"),
        *("accountingstoragehost", "accountingstorageparameters", "accountingstoragepass"),
        *("accountingstorageport", "accountingstoragetres", "accountingstoragetype"),
        *("accountingstorageuser", "accountingstoreflags", "acctgatherenergytype"),
        *("acctgatherfilesystemtype", "acctgatherinterconnecttype", "acctgathernodefreq"),
        *("acctgatherprofiletype", "allowspecresourcesusage", "authaltparameters"),
        *("authalttypes", "authinfo", "authtype", "backupaddr", "backupcontroller"),
        *("batchstarttimeout", "bcastexclude", "bcastparameters", "burstbuffertype"),
        *("clifilterplugins", "clustername", "commtype", "communicationparameters"),
        *("controladdr", "controlmachine", "corespecplugin", "cpufreqdef", "cpufreqgovernors"),
        *("credtype", "cryptotype", "debugflags", "defaultstoragehost", "defaultstoragetype"),
        *("dependencyparameters", "disablerootjobs", "eiotimeout", "epilog", "epilogmsgtime"),
        *("epilogslurmctld", "extsensorsfreq", "extsensorstype", "federationparameters"),
        *("firstjobid", "getenvtimeout", "grestypes", "groupupdateforce", "groupupdatetime"),
        *("hashplugin", "healthcheckinterval", "healthchecknodestate", "healthcheckprogram"),
        *("inactivelimit", "interactivestepoptions", "jobacctgatherfrequency"),
        *("jobacctgatherparams", "jobacctgathertype", "jobcomphost", "jobcomploc"),
        *("jobcompparams", "jobcomppass", "jobcompport", "jobcomptype", "jobcompuser"),
        *("jobcontainertype", "jobcredentialprivatekey", "jobcredentialpublic"),
        *("jobcredentialpubliccertificate", "jobfileappend", "jobsubmitplugins", "killonbadexit"),
        *("launchparameters", "launchtype", "maildomain", "mailprog", "maxarraysize"),
        *("maxdbdmsgs", "maxjobcount", "maxjobid", "maxstepcount", "maxtaskspernode"),
        *("mcsparameters", "mcsplugin", "messagetimeout", "minjobage", "mpidefault", "mpiparams"),
        *("nodefeaturesplugins", "plugindir", "plugstackconfig", "powerparameters"),
        *("powerplugin", "prepparameters", "prepplugins", "prioritysitefactorparameters"),
        *("prioritysitefactorplugin", "privatedata", "proctracktype", "prolog"),
        *("prologepilogtimeout", "prologflags", "prologslurmctld", "propagateprioprocess"),
        *("propagateresourcelimits", "propagateresourcelimitsexcept", "rebootprogram"),
        *("reconfigflags", "requeueexit", "requeueexithold", "resumefailprogram"),
        *("resvepilog", "resvoverrun", "resvprolog", "returntoservice"),
        *("routeplugin", "sallocdefaultcommand", "sbcastparameters", "sched_logfile"),
        *("schedulertimeslice", "scronparameters", "selecttype", "slurmctldaddr"),
        *("slurmctlddebug", "slurmctldhost", "slurmctldlogfile"),
        *("slurmctldpidfile", "slurmctldplugstack", "slurmctldport", "slurmctldprimaryoffprog"),
        *("slurmctldprimaryonprog", "slurmctldsyslogdebug", "slurmctldtimeout", "slurmddebug"),
        *("slurmdlogfile", "slurmdparameters", "slurmdpidfile", "slurmdport", "slurmdspooldir"),
        *("slurmdsyslogdebug", "slurmduser", "slurmschedlogfile"),
        *("slurmschedloglevel", "slurmuser", "srunepilog", "srunportrange", "srunprolog"),
        *("statesavelocation", "switchparameters", "switchtype", "taskepilog"),
        *("taskplugin", "taskpluginparam", "taskprolog", "tcptimeout", "tmpfs", "topologyparam"),
        *("trackwckey", "tresweights", "unkillablestepprogram", "unkillablesteptimeout"),
        *("usepam", "vsizefactor", "waittime", "x11parameters"),
    )
)
"""Keys in lower case: paths, logging, accounts of processes, messages between daemons."""
NODE_WITHOUT_EFFECT = frozenset(
    ("bcastaddr", "nodeaddr", "nodehostname", "port", "reason", "state")
)
"""Keys of `NodeName` lines, in lower case. `state` is part of the failures section."""
NODE_MODELLED = frozenset(
    (
        *("boards", "corespeccount", "corespersocket", "cpus", "feature", "features", "gres"),
        *("memspeclimit", "nodename", "procs", "realmemory", "sockets", "socketsperboard"),
        *("threadspercore", "weight"),
    )
)
KINDS: Mapping[str, str] = {
    "DOWN": "fail",
    **dict.fromkeys(("DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"), "drain"),
}
"""Kind of the event at second 0 by state. A node in another state is up."""
MODELLED = frozenset(
    (
        *("clustername", "defmempercpu", "licenses", "maxmempercpu"),
        *("selecttype", "selecttypeparameters", *SITE, *OWN, *POWER_SAVING),
    )
)
SELECTION = frozenset(
    ("cr_core", "cr_core_memory", "cr_cpu", "cr_cpu_memory", "cr_lln", "cr_memory", "cr_pack_nodes")
)
LISTS = frozenset(("nodename", "partitionname", "nodeset", "switchname"))
BLOCKS = ("blockname", "blocksizes")
"""Keys of topology.conf for TopologyPlugin=topology/block."""
BESIDE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "gres.conf": (("name", "nodename", "autodetect"), "NodeName=n1 Name=gpu File=/dev/nvidia0"),
    "topology.conf": (("switchname", *BLOCKS), "SwitchName=leaf1 Nodes=n[1-4]"),
}
"""First keys of the lines of a file, in lower case, and an example of a line."""
POWER = hardware.NodePower()


def name_all_qos(
    settings: dict[str, Any],
    statements: Sequence[Statement],
    dump: Path | None,
    described: Path | None,
    report: ImportReport,
) -> None:
    """Report the QOS that are named and not described; they have no limits.

    Those of accounts and users are added to the settings, which are invalid otherwise. Those of
    partitions are not: `hpcosim validate` warns of them, too.

    Args:
        described: file of the QOS; None: there is none.
    """
    known = {NORMAL, *settings.get("qos", {})}
    where = f"in {described.name}" if described else "(see --qos)"
    for name in _of_accounts(settings):
        if name not in known:
            place = dump.name if dump else ""
            report.add("guessed", f"QOS {name} is not described {where}: no limits", place)
            settings.setdefault("qos", {})[name] = {}
    for statement in (each for each in statements if each.key == "partitionname"):
        for name in _of_partition(statement):
            if name not in known:
                what = f"QOS {name} is not described {where}: no limits"
                report.add("guessed", what, statement.place)


def _of_accounts(settings: dict[str, Any]) -> list[str]:
    """Return the QOS that accounts and users name, each once."""
    found: dict[str, None] = {}
    for account in settings.get("accounts", {}).values():
        users = account.get("users", {}).values()
        parts = (part for user in users for part in user.get("partitions", {}).values())
        for each in (account, *users, *parts):
            default = [each["default_qos"]] if "default_qos" in each else []
            found |= dict.fromkeys([*each.get("qos", ()), *default])
    return list(found)


def _of_partition(statement: Statement) -> list[str]:
    """Return the QOS that a partition names, each once."""
    texts = (name for key in KEYS for name in statement.get(key).split(","))
    found = dict.fromkeys(text.strip() for text in texts)
    return [name for name in found if name and name.upper() not in ("ALL", "N/A")]


def failures(
    statements: Sequence[Statement], groups: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the failures section; empty: all nodes are up.

    Raises:
        InputError: a `DownNodes` line has a node that does not exist.
    """
    known = {name for each in groups for name in hardware.hosts_of(each["names"], statements[0])}
    events = [*_of_nodes(statements), *_of_down_nodes(statements, known)]
    return {"failures": {"events": events}} if events else {}


def _of_nodes(statements: Sequence[Statement]) -> Iterator[dict[str, Any]]:
    default = ""
    for statement in (each for each in statements if each.key == "nodename"):
        hosts, state = statement.values["nodename"], statement.values.get("state", default)
        if hosts.upper() == "DEFAULT":
            default = state
        elif state.upper() not in hardware.AWAY:
            yield from _event(hosts, state)


def _of_down_nodes(statements: Sequence[Statement], known: set[str]) -> Iterator[dict[str, Any]]:
    for statement in (each for each in statements if each.key == "downnodes"):
        hosts = statement.values["downnodes"]
        for name in hardware.hosts_of(hosts, statement):
            if name not in known:
                raise statement.error(f"DownNodes: there is no node {name!r}")
        yield from _event(hosts, statement.get("state") or "DOWN")


def _event(hosts: str, state: str) -> Iterator[dict[str, Any]]:
    if kind := KINDS.get(state.upper()):
        yield {"at_s": 0, "nodes": hosts, "kind": kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """How a configuration is imported.

    Attributes:
        start: time of simulated second 0, as in the file of reservations, which need it.
    """

    sacctmgr: Path | None = None
    qos: Path | None = None
    gres: Path | None = None
    topology: Path | None = None
    reservations: Path | None = None
    start: str = ""
    time_zone: str = "UTC"
    power: hardware.NodePower = POWER
    jobs: str = "jobs.jsonl"
    anonymize: bool = False
    names: Path | None = None
    force: bool = False


DEFAULTS = SlurmOptions()


def import_slurm(conf: Path, out: Path, options: SlurmOptions = DEFAULTS) -> ImportReport:
    """Write the scenario of a Slurm cluster.

    Returns:
        What was written, guessed and not modelled.

    Raises:
        InputError: a file cannot be read or is invalid, or the scenario exists or cannot be
            written. Nothing is written then.
    """
    report = ImportReport()
    statements = read_statements(conf, report)
    gres = _beside(options.gres, conf, "gres.conf", report)
    topology = _beside(options.topology, conf, "topology.conf", report)
    read = {conf, options.sacctmgr, options.qos, options.reservations}
    read |= {each.path for each in (*statements, *gres, *topology)}
    check_outputs([out], [*filter(None, read)], options.names)
    names = Pseudonyms(options.names) if options.anonymize else None
    settings = scheduler_settings(statements, report)
    if options.sacctmgr is not None:
        settings["accounts"] = read_accounts(options.sacctmgr, report, names)
    if options.qos is not None:
        settings["qos"] = read_qos(options.qos, report)
    name_all_qos(settings, statements, options.sacctmgr, options.qos, report)
    if topology and not _value(statements, "topologyplugin")[0]:
        settings.setdefault("selection", {})["ignore_topology"] = True  # Slurm's default
    platform = _platform(statements, gres, topology, options.power, report)
    manager = power_saving(statements, platform, options.power, report)
    if options.reservations is not None:
        reserved = _reservations(options.reservations, options, platform, names, report)
        platform |= {"reservations": reserved} if reserved else {}
    if names is not None and "partitions" in platform:
        platform["partitions"] = [names.partition(each) for each in platform["partitions"]]
    _not_modelled(statements, report)
    scenario: dict[str, Any] = {
        "name": _name(statements),
        "platform": platform,
        **failures(statements, platform["nodes"]),
        "workload": {"json": options.jobs},
        "scheduler": {
            "name": "slurm",
            **({"power": manager} if manager else {}),
            "settings": settings,
        },
    }
    text = scenario_text(scenario, report, "import slurm")
    write_files({out: text.encode()}, force=options.force)
    if names is not None:
        write_files(names.content(), force=True)
    nodes = sum(group["count"] for group in platform["nodes"])
    counts = (
        f"{len(platform.get(section, ()))} {section}"
        for section in ("partitions", "reservations")
        if section == "partitions" or options.reservations is not None
    )
    report.written = [f"{out}: {nodes:,} nodes, {', '.join(counts)}"]
    return report


def _reservations(
    path: Path,
    options: SlurmOptions,
    platform: Mapping[str, Any],
    names: Pseudonyms | None,
    report: ImportReport,
) -> list[dict[str, Any]]:
    zone = zone_of(options.time_zone)
    if not options.start:
        raise InputError(
            "--reservations needs --start TIME, second 0 of the simulation; `hpcosim import sacct` "
            "prints that of the jobs"
        )
    origin_s = origin_of(options.start, zone, 0.0)
    report.facts["second 0 of the simulation"] = as_text(origin_s)
    report.facts["time zone of local times"] = options.time_zone
    return read_reservations(path, platform, zone, origin_s, report, names)


def _beside(path: Path | None, conf: Path, name: str, report: ImportReport) -> list[Statement]:
    """Return the statements of a file, or of the one beside slurm.conf if it exists."""
    if path is None:
        path = conf.parent / name
        if not path.is_file():
            return []
    statements = read_statements(path, report)
    keys, example = BESIDE[name]
    for statement in statements:
        if statement.key not in keys:
            written = statement.names[statement.key]
            raise statement.error(
                f"expected a {name} with lines such as `{example}`, got {shown(written)}"
            )
        if statement.key in BLOCKS:
            report.add("not modelled", statement.names[statement.key], statement.place)
    return statements


def _platform(
    statements: Sequence[Statement],
    gres: Sequence[Statement],
    topology: Sequence[Statement],
    power: hardware.NodePower,
    report: ImportReport,
) -> dict[str, Any]:
    groups = hardware.node_groups(statements, gres, power, report)
    site: dict[str, Any] = {}
    for key, name in (
        ("defmempercpu", "default_memory_per_core_mb"),
        ("maxmempercpu", "max_memory_per_core_mb"),
    ):
        text, statement = _value(statements, key)
        if text and statement is not None:
            try:
                site[name] = optional_whole(text)
            except FieldError as error:
                raise statement.error(f"{statement.names[key]}: {error}") from None
    found = hardware.partitions(statements, groups, site, report)
    text, statement = _value(statements, "licenses")
    try:
        licenses = {name.partition("@")[0]: count for name, count in device_counts(text).items()}
    except FieldError as error:
        assert statement is not None
        raise statement.error(f"Licenses: {error}") from None
    return {
        "nodes": groups,
        "consumable": _consumable(statements, report),
        **({"partitions": found} if found else {}),
        **({"licenses": licenses} if licenses else {}),
        **({"switches": connected} if (connected := hardware.switches(topology)) else {}),
    }


def _consumable(statements: Sequence[Statement], report: ImportReport) -> list[str]:
    """Return the consumable resources by SelectType and SelectTypeParameters."""
    if _value(statements, "selecttype")[0].lower() == "select/linear":
        return []
    text, _ = _value(statements, "selecttypeparameters")
    if not text:
        report.add("guessed", "SelectTypeParameters is not stated: CR_Core_Memory")
        return ["cores", "memory"]
    chosen = {name.strip().lower() for name in text.split(",")}
    for name in sorted(chosen - SELECTION):
        report.add("not modelled", f"SelectTypeParameters: {name.upper()}")
    cores = any(name.startswith(("cr_core", "cr_cpu", "cr_socket")) for name in chosen)
    memory = any(name.startswith("cr_") and name.endswith("memory") for name in chosen)
    return [name for name, is_so in (("cores", cores), ("memory", memory)) if is_so]


def _not_modelled(statements: Sequence[Statement], report: ImportReport) -> None:
    """List every key that nothing has read."""
    for statement in statements:
        for key, name in statement.names.items():
            if statement.key == "nodename":
                if key in NODE_WITHOUT_EFFECT:
                    report.add("no effect", f"NodeName ... {name}", statement.place)
                elif key not in NODE_MODELLED:
                    report.add("not modelled", f"NodeName ... {name}", statement.place)
            elif statement.key == "downnodes" and key in ("downnodes", "state", "reason"):
                continue  # in the failures section
            elif statement.key not in LISTS and key not in MODELLED:
                kind: Kind = "no effect" if key in WITHOUT_EFFECT else "not modelled"
                report.add(kind, name, statement.place)


def _value(statements: Sequence[Statement], key: str) -> tuple[str, Statement | None]:
    """Return the last value of a key outside of lists, and its statement."""
    for statement in reversed(statements):
        if key in statement.values and statement.key not in LISTS:
            return statement.values[key], statement
    return "", None


def _name(statements: Sequence[Statement]) -> str:
    """Return the name of the cluster as the name of a scenario."""
    text, _ = _value(statements, "clustername")
    name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text)
    name = name.encode("ascii", "ignore").decode().lstrip("._-")[:100]
    return name or "cluster"
