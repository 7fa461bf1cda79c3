"""The command `hpcosim import`: clusters and jobs from the files of workload managers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.usage import EXAMPLES, CommandGroup, errors_in_one_line, help_of

if TYPE_CHECKING:
    from hpcosim_slurm.files.report import ImportReport

app = typer.Typer(
    cls=CommandGroup, help="Import clusters and jobs from the files of workload managers."
)

Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Anonymize = Annotated[
    bool, typer.Option("--anonymize", help="Replace the names of users, groups, accounts and jobs.")
]
Names = Annotated[
    Path | None,
    typer.Option(
        help="With --anonymize: file that keeps the replaced names, so that several imports use "
        "the same ones. Keep it private."
    ),
]
TimeZone = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of local times, such as Europe/Berlin.")
]
Start = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Time of second 0 of the simulation; earlier jobs are left out. Default: the first "
        "submission.",
    ),
]


def slurm(
    conf: Annotated[Path, typer.Option(help="The slurm.conf of the cluster.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The scenario to write.")],
    sacctmgr: Annotated[
        Path | None, typer.Option(help="Accounts and users: output of `sacctmgr dump`.")
    ] = None,
    qos: Annotated[Path | None, typer.Option(help="QOS: output of `sacctmgr -P show qos`.")] = None,
    gres: Annotated[
        Path | None, typer.Option(help="gres.conf. Default: the file beside slurm.conf, if any.")
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option(help="topology.conf. Default: the file beside slurm.conf, if any."),
    ] = None,
    reservations: Annotated[
        Path | None,
        typer.Option(
            help="Reservations: output of `scontrol show reservation`. They need --start."
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="With --reservations: time of second 0 of the simulation, as `hpcosim import "
            "sacct` prints it.",
        ),
    ] = "",
    time_zone: TimeZone = "UTC",
    jobs: Annotated[
        str, typer.Option(help="The jobs of the scenario, relative to its folder.")
    ] = "jobs.jsonl",
    static_w: Annotated[
        float, typer.Option(min=0, help="Static power of each core, W. Slurm does not state it.")
    ] = 5.0,
    dynamic_w: Annotated[
        float, typer.Option(min=0, help="Additional power of each core that has a task, W.")
    ] = 5.0,
    sleep_w: Annotated[
        float,
        typer.Option(min=0, help="Power of a node that SuspendProgram has switched off, W."),
    ] = 5.0,
    anonymize: Anonymize = False,
    names: Names = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the scenario of a Slurm cluster from its configuration.

    Nodes, features, weights, devices, partitions, switches, licences, priorities, the parameters of
    the scheduler, power saving, reservations, accounts and QOS. Every setting that is not modelled
    is listed.
    """
    with _importing(names, anonymize=anonymize):
        from hpcosim_slurm.files.slurm.convert import SlurmOptions, import_slurm
        from hpcosim_slurm.files.slurm.nodes import NodePower

        if start and reservations is None:
            raise typer.BadParameter("--start applies to --reservations; add it")
        options = SlurmOptions(
            sacctmgr=sacctmgr,
            qos=qos,
            gres=gres,
            topology=topology,
            reservations=reservations,
            start=start,
            time_zone=time_zone,
            power=NodePower(static_w, dynamic_w, sleep_w),
            jobs=jobs,
            anonymize=anonymize,
            names=names,
            force=force,
        )
        _print(import_slurm(conf, out, options), as_json=as_json)


def sacct(
    records: Annotated[
        Path, typer.Argument(metavar="FILE", help="Output of `sacct -P`, plain or gzipped.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of jobs to write.")],
    time_zone: TimeZone = "UTC",
    start: Start = "",
    requeue: Annotated[
        bool,
        typer.Option(
            "--requeue/--no-requeue",
            help="Whether jobs may be requeued that do not say so (JobRequeue of slurm.conf).",
        ),
    ] = True,
    anonymize: Anonymize = False,
    names: Names = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the jobs of Slurm's accounting as JSON lines, and their recorded runs beside them.

    Steps and jobs that never started are left out; the records of a requeued job become one job.
    The report lists what was dropped and what was guessed.
    """
    with _importing(names, anonymize=anonymize):
        from hpcosim_slurm.files.record_jobs import RecordOptions
        from hpcosim_slurm.files.sacct import import_sacct

        options = RecordOptions(
            time_zone=time_zone,
            start=start,
            requeue=requeue,
            anonymize=anonymize,
            names=names,
            force=force,
        )
        _print(import_sacct(records, out, options), as_json=as_json)


def kubernetes(
    table: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with one container or pod a line.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file of jobs to write.")],
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="FIELD=COLUMN",
            help="Column of a field, where it has another name than in the documented mapping. "
            "Repeatable.",
        ),
    ] = None,
    time_zone: TimeZone = "UTC",
    start: Start = "",
    anonymize: Anonymize = False,
    names: Names = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the pods of a Kubernetes-style table of GPU jobs as JSON lines."""
    with _importing(names, anonymize=anonymize):
        from hpcosim_slurm.files.kubernetes import KubernetesOptions, import_kubernetes

        options = KubernetesOptions(
            columns=tuple(columns or ()),
            time_zone=time_zone,
            start=start,
            anonymize=anonymize,
            names=names,
            force=force,
        )
        _print(import_kubernetes(table, out, options), as_json=as_json)


def batsim(
    platform: Annotated[
        Path, typer.Option("--platform", "-p", help="The SimGrid platform, as for `batsim -p`.")
    ],
    workload: Annotated[
        list[Path],
        typer.Option("--workload", "-w", help="A workload in Batsim's JSON. Repeatable."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The scenario to write.")],
    jobs: Annotated[
        str, typer.Option(help="The jobs of the scenario, relative to its folder.")
    ] = "jobs.jsonl",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a scenario from the platform and the workloads of Batsim.

    A host becomes a node with one core. What has no counterpart is listed.
    """
    with errors_in_one_line():
        from hpcosim_slurm.files.batsim import import_batsim

        _print(import_batsim(platform, workload, out, jobs, force=force), as_json=as_json)


def _accounting(manager: str, doc: str) -> Callable[..., None]:
    """Return the command that imports the accounting of a manager."""

    def command(
        files: Annotated[
            list[Path],
            typer.Argument(metavar="FILES", help="Accounting, plain or gzipped, oldest first."),
        ],
        out: Annotated[
            Path,
            typer.Option(
                "--out",
                "-o",
                help="Folder for jobs.jsonl, jobs.recorded.csv and, if nodes are known, "
                "cluster.yaml.",
            ),
        ],
        nodes: Annotated[
            int,
            typer.Option(min=0, help="Number of nodes. Default: the hosts on which jobs ran."),
        ] = 0,
        cores_per_node: Annotated[
            int,
            typer.Option(
                min=0,
                help="Cores of each node, at least. Default: the most that jobs used at once.",
            ),
        ] = 0,
        time_zone: TimeZone = "UTC",
        start: Start = "",
        anonymize: Anonymize = False,
        names: Names = None,
        force: Force = False,
        as_json: Json = False,
    ) -> None:
        with _importing(names, anonymize=anonymize):
            from hpcosim_slurm.files.accounting import AccountingOptions, import_accounting
            from hpcosim_slurm.files.observed_platform import KnownNodes
            from hpcosim_slurm.files.record_jobs import RecordOptions

            records = RecordOptions(
                time_zone=time_zone, start=start, anonymize=anonymize, names=names, force=force
            )
            options = AccountingOptions(records=records, known=KnownNodes(nodes, cores_per_node))
            _print(import_accounting(manager, files, out, options), as_json=as_json)

    command.__name__ = manager
    command.__doc__ = doc
    return command


ACCOUNTING_HELP = """

Jobs that never started are left out. The report lists what was dropped, guessed and not
translated; a queue becomes a partition of the nodes on which its jobs ran.
"""
MANAGERS = {
    "pbs": "the accounting logs of PBS Pro, OpenPBS or Torque",
    "lsf": "LSF's accounting, `lsb.acct`",
    "sge": "Grid Engine's file `accounting`",
    "oar": "a dump of OAR's database",
}

COMMANDS: tuple[Callable[..., None], ...] = (
    slurm,
    sacct,
    *(
        _accounting(name, f"Write jobs, their runs and a scenario from {what}.{ACCOUNTING_HELP}")
        for name, what in MANAGERS.items()
    ),
    kubernetes,
    batsim,
)

for command in COMMANDS:
    app.command(
        command.__name__, help=help_of(command), epilog=EXAMPLES[f"import {command.__name__}"]
    )(command)


@contextmanager
def _importing(names: Path | None, *, anonymize: bool) -> Iterator[None]:
    """Check the options that all imports have, and show errors in one line."""
    with errors_in_one_line():
        if names is not None and not anonymize:
            raise typer.BadParameter("--names applies to --anonymize; add it")
        yield


def _print(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        import json

        sys.stdout.write(json.dumps(report.as_dict(), indent=2) + "\n")
        return
    for line in report.lines():
        typer.echo(line)
