"""A benchmark run: all instances of a suite with one scheduler, written as a submission."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcosim_experiments.benchmark.instances import policy_of
from hpcosim_experiments.benchmark.recording import record
from hpcosim_experiments.benchmark.served import serve_instances
from hpcosim_experiments.benchmark.submission import (
    Author,
    Transport,
    read_submission,
    write_submission,
)
from hpcosim_experiments.benchmark.suite import Suite
from hpcosim_experiments.benchmark.verify import Verified, Verifier
from hpcosim_schedulers.catalogue.schedulers import SCRIPTED, short_name
from hpcosim_schedulers.power.settings import PATHS
from hpcosim_server.service.keys import Access

Report = Callable[[str], None]
"""Called with the name of each instance before it runs."""

INSTANCE = "{instance}"
"""Stands for the name of the instance in the name of a scheduler, such as that of a schedule."""


def run_policy(
    suite: Suite,
    scheduler: str,
    power: Mapping[str, Any],
    power_awareness: str,
    out: Path,
    author: Author,
    report: Report,
) -> Verified:
    """Run a suite with a scheduler in this process; write and verify the submission.

    Args:
        suite: the suite.
        scheduler: name of a scheduler, PATH.py:FUNCTION, or an agent of the instances' scenarios;
            `INSTANCE` in it is replaced by the name of the instance.
        power: the power manager, as in a scenario.
        power_awareness: treatment of nodes that are not on, as in a scenario.
        out: the file to write.
        author: what to say about the scheduler.
        report: called with the name of each instance before it runs.

    Raises:
        BenchmarkError: an instance differs from that of the suite, or the scheduler decided what
            the suite does not allow.
        RunError: the scheduler failed.
        ScenarioError, PolicyError, OracleError: the policy is invalid.
        StoreError: the submission cannot be written.
    """
    verifier, runs = Verifier(suite), {}
    for instance in suite.file.instances:
        report(instance.name)
        loaded = verifier.load(instance)
        named = scheduler.replace(INSTANCE, instance.name)
        chosen = policy_of(suite, instance, loaded, named, power, power_awareness)
        runs[instance.name] = record(suite.file, instance.name, loaded, chosen)
    policy = {  # without the paths of files on this machine
        "scheduler": short_name(scheduler),
        "power": {key: Path(value).name if key in PATHS else value for key, value in power.items()},
        "power_awareness": power_awareness,
    }
    transport: Transport = "schedule" if scheduler.startswith(SCRIPTED) else "inproc"
    write_submission(out, suite, author, runs, transport=transport, policy=policy)
    return verifier(read_submission(out))


def run_served(
    suite: Suite,
    address: str,
    client: Sequence[str],
    access: Access,
    out: Path,
    author: Author,
    report: Report,
) -> Verified:
    """Run a suite with a scheduler in its own process; write and verify the submission.

    Args:
        suite: the suite.
        address: address at which the instances are served.
        client: as `command` of `serve_instances`.
        access: who may connect.
        out: the file to write.
        author: what to say about the scheduler.
        report: called with the name of each instance when a session of it is opened.

    Raises:
        RunError, BenchmarkError, BindError, CommandError: as `serve_instances`.
        StoreError: the submission cannot be written.
    """
    verifier = Verifier(suite)
    instances = {each.name: verifier.load(each) for each in suite.file.instances}
    runs = serve_instances(suite.file, instances, address, client, access, report)
    write_submission(out, suite, author, runs, transport="wire", policy={})
    return verifier(read_submission(out))
