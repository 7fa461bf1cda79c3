"""The examples of deployment: systemd accepts the unit, and our command line every command."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from hpcosim.cli.main import command_line
from hpcosim.cli.server_file import read_settings, split_changes
from hpcosim_scenarios.model.file import load_scenario, named_files
from hpcosim_scenarios.model.overrides import parse
from hpcosim_schedulers.power.settings import PATHS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNIT = (DEPLOY / "hpcosim.service").read_text()
MANIFEST = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
SCENARIOS = ("/scenarios/demo.yaml", "/etc/hpcosim/scenario.yaml")
SCENARIO = str(ROOT / "scenarios" / "demo.yaml")


def parsed(words: Sequence[str]) -> Mapping[str, Any]:
    """Return the options of a command line, with a scenario that exists here."""
    name, *rest = [SCENARIO if word in SCENARIOS else word for word in words]
    group = typer.main.get_command(command_line((name, "ping")))
    assert isinstance(group, TyperGroup)
    command = group.commands[name]
    return dict(command.make_context(name, rest).params)


def drain_s(options: Mapping[str, Any]) -> float:
    """Return `drain_s` of the settings that a command sets."""
    of_server, _ = split_changes(parse(options["changes"]))
    settings, _ = read_settings([Path("scenarios/demo.yaml")], of_server)
    return settings.drain_s


def of_kind(kind: str) -> dict[str, Any]:
    """Return the object of a kind in the manifest."""
    (found,) = (each for each in MANIFEST if each["kind"] == kind)
    assert isinstance(found, dict)
    return found


def values(key: str) -> Iterator[str]:
    """Yield the values of a key of the unit."""
    for line in UNIT.splitlines():
        name, equals, value = line.partition("=")
        if equals and name == key:
            yield value


def pod() -> dict[str, Any]:
    """Return the specification of the pod."""
    spec: dict[str, Any] = of_kind("StatefulSet")["spec"]["template"]["spec"]
    return spec


def in_the_image() -> set[Path]:
    """Return the files of the checkout that the Dockerfile copies to /scenarios."""
    (copied,) = re.findall(r"^COPY (scenarios/.*) /scenarios/$", DOCKERFILE, re.MULTILINE)
    return {path for pattern in copied.split() for path in ROOT.glob(pattern)}


def test_the_image_has_what_its_scenarios_read() -> None:
    """Each scenario of /scenarios has its tariffs, jobs and networks there."""
    files = in_the_image()
    scenarios = [path for path in files if path.suffix == ".yaml"]
    assert {"carbon", "demo", "office-hours", "site"} <= {path.stem for path in scenarios}
    for path in scenarios:
        scenario = load_scenario(path)
        read = [*named_files(scenario, path.parent).values()]
        read += [
            path.parent / model.partition(":")[2] for model in scenario.scheduler.agents.values()
        ]
        for key in PATHS:
            if name := scenario.scheduler.power.get(key):
                read.append(path.parent / name)
        assert {each.resolve() for each in read} <= files, path


@pytest.mark.parametrize("name", ["hpcosim.service", "hpcosim-twin.service"])
def test_the_units_are_accepted_by_systemd(tmp_path: Path, name: str) -> None:
    """`systemd-analyze verify` has no complaint."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    path, unit = tmp_path / name, (DEPLOY / name).read_text()
    path.write_text(unit.replace("/usr/local/bin/hpcosim", shutil.which("true") or "/bin/true"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if name in line]
    assert complaints == []


def test_the_unit_of_a_twin_starts_one_on_the_loopback_interface() -> None:
    """Its files are in the state directory."""
    unit = (DEPLOY / "hpcosim-twin.service").read_text()
    (start,) = re.findall(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)
    options = parsed(shlex.split(start))
    assert options["http"].startswith("127.0.0.1:")
    (state,) = re.findall(r"^StateDirectory=(\S+)$", unit, re.MULTILINE)
    assert options["folder"] == Path("/var/lib") / state


def test_the_unit_starts_a_server_that_restores_its_sessions() -> None:
    """Journals are in the state directory, and the time to stop exceeds that to drain."""
    (start,) = values("ExecStart")
    path, command, *rest = shlex.split(start)
    options = parsed([command, *rest])
    (folder,) = values("StateDirectory")
    state = Path("/var/lib") / folder
    assert (path, command) == ("/usr/local/bin/hpcosim", "serve")
    assert state in options["resume"].parents
    assert state in options["out"].parents
    assert list(values("Restart")) == ["on-failure"]
    (stop_s,) = values("TimeoutStopSec")
    assert float(stop_s) > drain_s(options)


def test_the_manifest_starts_a_server_that_restores_its_sessions() -> None:
    """Journals are in the volume that stays, and the grace period exceeds the time to drain."""
    (container,) = pod()["containers"]
    words = [str(word) for word in container["args"]]
    mounts = {each["name"]: Path(each["mountPath"]) for each in container["volumeMounts"]}
    (claim,) = of_kind("StatefulSet")["spec"]["volumeClaimTemplates"]
    kept = mounts[claim["metadata"]["name"]]
    assert kept in Path(words[words.index("--resume") + 1]).parents
    assert kept == Path(words[words.index("--out") + 1])
    assert pod()["terminationGracePeriodSeconds"] > drain_s(parsed(words))


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe", "readinessProbe"])
def test_the_probes_ask_the_server_at_its_port(probe: str) -> None:
    """Each probe is a command of ours, and has time for its timeout."""
    (container,) = pod()["containers"]
    program, *words = container[probe]["exec"]["command"]
    assert program == "hpcosim"
    (port,) = container["ports"]
    assert f"tcp://127.0.0.1:{port['containerPort']}" in words
    assert container[probe]["timeoutSeconds"] > parsed(words)["timeout_s"]


def test_names_within_the_manifest_agree() -> None:
    """The service finds the pod and its port, and every mounted volume and key exists."""
    stateful, service = of_kind("StatefulSet")["spec"], of_kind("Service")["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert service["selector"] == stateful["selector"]["matchLabels"] == labels
    (container,) = pod()["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert [ports[each["targetPort"]] for each in service["ports"]] == [28080]
    volumes = {each["name"]: each for each in pod()["volumes"]}
    claims = {each["metadata"]["name"] for each in stateful["volumeClaimTemplates"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes.keys() | claims
    secret = volumes["keys"]["secret"]
    assert secret["secretName"] == of_kind("Secret")["metadata"]["name"]
    keys = of_kind("Secret")["stringData"].keys()
    assert {each["key"] for each in secret["items"]} == keys


def test_the_pod_has_no_rights_that_it_does_not_need() -> None:
    """The container runs without root, capabilities and a writable system."""
    (container,) = pod()["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["automountServiceAccountToken"] is False
