"""The command `hpcosim schedule`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli import options
from hpcosim.cli.usage import errors_in_one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hpcosim_protocol import Welcome

LABEL = 8
"""Characters of a session's name that are public."""

DAY_S = 86_400.0


def schedule(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Scheduler; `hpcosim schedulers` lists them.")
    ],
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Model file of a trained scheduler.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample the actions of a trained scheduler.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file of settings of the scheduler."),
    ] = None,
    power: Annotated[
        str, typer.Option(metavar="JSON", help="Power manager: its name and settings.")
    ] = '{"name": "always-on"}',
    power_awareness: options.PowerAwareness = "unaware",
    in_process: options.InProcess = False,
    own_name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="TEXT",
            help="Name in `hpcosim status`, in logs and in the name of the results folder, such as "
            "student7. Default: the scheduler.",
        ),
    ] = "",
    connect: options.Connect = options.SERVER,
    scenario: Annotated[
        str, typer.Option(metavar="NAME", help="Scenario of the server. Default: its first.")
    ] = "",
    seed: options.Seed = None,
    session: Annotated[
        str, typer.Option(metavar="ID", help="Session to resume after its client died.")
    ] = "",
    from_snapshot: Annotated[
        bool,
        typer.Option(
            "--from-snapshot",
            help="Resume --session with another scheduler, or one that is not deterministic.",
        ),
    ] = False,
    explain: options.Explain = False,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Timeout of each reply, in s.")] = 60.0,
    hello_timeout_s: Annotated[
        float, typer.Option(min=0.1, help="Timeout of the first reply, in s.")
    ] = 20.0,
    keys: options.Keys = None,
    server_key: options.ServerKey = None,
    parent: options.Parent = None,
) -> None:
    """Schedule one simulation of a server with a policy, and print how it ended."""
    with errors_in_one_line():
        options.end_with(parent)
        from hpcosim_client import Timeouts
        from hpcosim_client import run as schedule_one
        from hpcosim_schedulers.catalogue.description import describe
        from hpcosim_schedulers.catalogue.power import title, with_power
        from hpcosim_schedulers.catalogue.schedulers import canonical_name
        from hpcosim_schedulers.catalogue.trained import with_model
        from hpcosim_schedulers.power.settings import parse_awareness, read_power

        name = with_model(canonical_name(name), model, sample=sample)
        name = options.in_this_process(name) if in_process else name
        manager, awareness = read_power(power), parse_awareness(power_awareness)
        _warn_of_networks(name, getattr(manager, "model", ""))
        site = {} if settings is None else _settings(settings)
        shown = own_name or title(name, manager, awareness)
        opened: list[Welcome] = []

        def welcomed(welcome: Welcome) -> None:
            opened.append(welcome)
            _show_session(welcome)

        metrics = schedule_one(
            with_power(name, manager, awareness, site),
            connect,
            name=shown,
            description=describe(name, manager, awareness, site),
            scenario=scenario,
            seed=seed,
            session=session,
            from_snapshot=from_snapshot,
            explain=explain,
            timeouts=Timeouts(
                min(5.0, timeout_s / 2, hello_timeout_s / 2), timeout_s, hello_timeout_s
            ),
            welcomed=welcomed,
            keys=keys,
            server_key=server_key,
        )
        if parent is None:  # the parent prints its own summary
            _print_end(shown, opened[-1], metrics)


def _warn_of_networks(name: str, power_model: str) -> None:
    """Print where the networks of a scheduler and of a power manager are worse than rules."""
    from hpcosim.cli.printing import print_warning
    from hpcosim_schedulers.catalogue.evaluation import evaluation_warning
    from hpcosim_schedulers.catalogue.trained import is_trained

    for model in (name.partition(":")[2] if is_trained(name) else "", power_model):
        if model and (warning := evaluation_warning(Path(model))):
            print_warning(warning)


def _settings(path: Path) -> dict[str, object]:
    from hpcosim_scenarios.errors import ScenarioError
    from hpcosim_scenarios.model.yaml_tree import read_tree

    tree = read_tree(path, "mapping of settings")
    if not isinstance(tree, dict):
        raise ScenarioError("expected a mapping of settings, such as priority:", path)
    return tree


def _print_end(name: str, welcome: Welcome, metrics: Mapping[str, int | float]) -> None:
    """Print how a simulation ended; the server has the results, and knows where they are."""
    from hpcosim.cli.printing import number
    from hpcosim_view.run.extracts import printable

    label = welcome.session[:LABEL]
    parts = []
    if "jobs" in metrics:
        parts.append(f"{metrics['jobs']:,} jobs, {metrics.get('jobs_completed', 0):,} completed")
    if "makespan_s" in metrics:
        parts.append(f"{number(metrics['makespan_s'] / DAY_S)} simulated days")
    if "mean_wait_s" in metrics:
        parts.append(f"mean wait {number(metrics['mean_wait_s'])} s")
    typer.echo(printable(f"{name} on {welcome.scenario}: {', '.join(parts) or 'ended'}"))
    typer.echo(f"session {label}; the server writes the results to the folder of its --out")


def _show_session(welcome: Welcome) -> None:
    """Write the session's identifier to a terminal, for `--session`."""
    if sys.stderr.isatty():
        sys.stderr.write(f"session {welcome.session}; resume it with --session {welcome.session}\n")
