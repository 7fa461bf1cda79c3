"""The command `hpcosim compare`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli import options
from hpcosim.cli.usage import errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_scenarios.model.overrides import Overrides
    from hpcosim_scenarios.running.compare import Comparison


def compare(
    scenario: options.ScenarioFile,
    schedulers: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Comma-separated schedulers or groups; `hpcosim schedulers` lists them. "
            "Default: the scenario's scheduler.",
        ),
    ] = None,
    power: Annotated[
        str | None,
        typer.Option(
            metavar="MANAGERS",
            help="Comma-separated power managers, by name or as YAML or JSON mappings: "
            '"always-on, {name: timeout, timeout_s: 900}". Default: the scenario\'s manager.',
        ),
    ] = None,
    platforms: Annotated[
        str | None,
        typer.Option(
            metavar="FILES",
            help="Comma-separated scenario files or names of shipped scenarios; their section "
            "`platform` takes the place of that of SCENARIO. Default: its own platform.",
        ),
    ] = None,
    baseline: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Also print what the other policies save against this one, and how much longer "
            "jobs wait: a name in the table, or that of its scheduler or power manager.",
        ),
    ] = "",
    workload: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Other jobs than those of the scenario: JSON lines, or a log in the Standard "
            "Workload Format (.swf). Also prints waits by partition, account and user.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Also print mean waits by these, separated by commas: partition, account, user, "
            "group, qos.",
        ),
    ] = None,
    transport: options.TransportOption = "inproc",
    seed: options.Seed = None,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    explain: options.Explain = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for results, with a subfolder per policy. Default: none."),
    ] = None,
    force: options.Force = False,
    in_process: options.InProcess = False,
    formats: options.Formats = None,
    as_json: options.Json = False,
) -> None:
    """Run a scenario under several schedulers, power managers or platforms; compare the metrics."""
    with errors_in_one_line():
        from hpcosim.cli.printing import grouped_by, print_warning
        from hpcosim_client import PolicyError
        from hpcosim_scenarios.running.compare import compare_platforms, compare_policies
        from hpcosim_scenarios.running.policies import parse_power_list
        from hpcosim_scenarios.running.results import formats_of

        if schedulers is None and power is None and platforms is None:
            raise PolicyError(
                "nothing to compare; expected --schedulers, --power or both, or --platforms"
            )
        if platforms is not None and baseline:
            raise PolicyError("--baseline compares policies on one platform; leave out --platforms")
        overrides = {
            **options.workload_override(workload),
            **options.overrides_of(changes, seed, lenient, explain=explain),
        }
        if by is None:
            by = "" if workload is None else "partition,account,user"
        named = None if schedulers is None else options.names_of(schedulers)
        if in_process:
            named = [*map(options.in_this_process, named or [""])]
        compared: Callable[..., Comparison] = partial(compare_policies, scenario, named)
        if platforms is not None:
            files = [options.scenario_file(Path(each)) for each in options.names_of(platforms)]
            compared = partial(compare_platforms, scenario, files, named)
        run = partial(
            compared,
            power=() if power is None else parse_power_list(power),
            **({"baseline": baseline} if baseline else {}),
            by=grouped_by(by),
            transport=transport,
            out=out,
            force=force,
            overrides=overrides,
            formats=formats_of(formats),
            warn=print_warning,
        )
        _run_and_print(run, scenario, overrides, as_json=as_json)


def _run_and_print(
    run: Callable[..., Comparison], scenario: Path, overrides: Overrides, *, as_json: bool
) -> None:
    """Run a comparison and print it; if a run fails, print the metrics of those before it."""
    from hpcosim.cli.printing import print_comparison, print_groups
    from hpcosim_scenarios.model.file import load_scenario
    from hpcosim_scenarios.running.compare import Comparison

    currency = load_scenario(scenario, overrides).currency
    metrics: dict[str, dict[str, int | float]] = {}
    compared = Comparison(metrics)
    try:
        compared = run(on_result=lambda name, found: metrics.update({name: dict(found)}))
    finally:  # a run that fails must not cost the metrics of the others
        if metrics:
            print_comparison(compared, currency, as_json=as_json)
        if compared.groups and not as_json:
            print_groups(compared.groups)
