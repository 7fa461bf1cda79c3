"""Partitions, reservations, switches, failures and actions of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.yaml_tree import parse_yaml
from hpcosim_scenarios.running.library import Library, site_events_of
from hpcosim_sim.engine.site_events import (
    NO_SITE_EVENTS,
    Distribution,
    FailureModel,
    JobAction,
    NodeChange,
)

SITE = """\
name: site
platform:
  consumable: [cores, memory]
  licenses: {matlab: 3}
  nodes:
    - count: 4
      names: n[1-4]
      memory_mb: 64000
      processors: [{cores: 8, static_w: 60, dynamic_w: 5}]
    - count: 2
      names: g[1-2]
      features: [ib]
      gres: {"gpu:a100": 2}
      memory_mb: 64000
      processors: [{cores: 8, static_w: 60, dynamic_w: 5}]
  partitions:
    - {name: normal, nodes: "n[1-4],g1", default: true, max_time_s: 3600}
    - {name: gpu, nodes: "g[1-2]"}
  reservations:
    - {name: window, nodes: ALL, start_s: 100, end_s: 200, flags: [maint]}
  switches:
    - {name: s1, nodes: "n[1-4]"}
    - {name: s2, nodes: "g[1-2]"}
    - {name: top, switches: [s1, s2]}
workload:
  inline:
    - {job_id: 7, submit_s: 0, cores: 2, run_s: 50, array: 0-2}
    - {job_id: 8, submit_s: 0, cores: 2, run_s: 50, required_nodes: "n[2-3]"}
failures:
  events:
    - {at_s: 10, nodes: n1, repair_after_s: 5}
  random:
    - until_failure: {distribution: weibull, mean_s: 1.0e6, shape: 0.7}
      until_repair: {mean_s: 600}
actions:
  - {at_s: 5, job: 7_1, kind: cancel}
scheduler: {name: easy, settings: {accounts: [{name: a}]}}
"""

Load = Callable[..., Scenario]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Return a function that loads the site with a text replaced."""

    def loaded(old: str = "", new: str = "", **overrides: Any) -> Scenario:
        assert old in SITE
        path = tmp_path / "site.yaml"
        path.write_text(SITE.replace(old, new, 1) if old else SITE)
        return load_scenario(path, overrides)

    return loaded


def test_host_lists_become_node_numbers(load: Load) -> None:
    """Partitions, reservations and switches have ranges of node numbers."""
    platform = load().platform
    assert [each.nodes for each in platform.partitions] == [((0, 4),), ((4, 5),)]
    assert platform.reservations[0].nodes == ((0, 5),)
    assert [each.nodes for each in platform.switches] == [((0, 3),), ((4, 5),), ()]


def test_the_effective_scenario_is_a_scenario(load: Load) -> None:
    """Node numbers are accepted where host lists are: run.json has them."""
    scenario = load()
    again = msgspec.convert(msgspec.to_builtins(scenario), Scenario)
    assert again == scenario


def test_node_numbers_are_accepted(load: Load) -> None:
    """A list of ranges is another way to write the nodes."""
    platform = load('nodes: "g[1-2]"}\n  res', "nodes: [[0, 0], [4, 5]]}\n  res").platform
    assert platform.partitions[1].nodes == ((0, 0), (4, 5))


def test_jobs_name_nodes_by_name(load: Load) -> None:
    """The nodes of a job are those of the platform."""
    jobs = {job.job_id: job for job in jobs_of(load(), Path()).rows()}
    assert jobs[8].request is not None
    assert jobs[8].request.required_nodes == (1, 2)


def test_settings_of_the_scheduler_are_not_read(load: Load) -> None:
    """They are plain data for the policy."""
    assert load().scheduler.settings == {"accounts": [{"name": "a"}]}


def test_failures_and_actions_become_site_events(load: Load) -> None:
    """Names of nodes and of tasks are resolved; a repair follows its failure."""
    scenario = load()
    events = site_events_of(scenario, jobs_of(scenario, Path()))
    assert events.node_changes == (NodeChange(10, (0,), "fail"), NodeChange(15, (0,), "repair"))
    assert events.job_actions == (JobAction(at_s=5, job_id=9, kind="cancel"),)
    until = Distribution("weibull", 1e6, 0.7), Distribution("exponential", 600)
    assert events.failure_models == (FailureModel((0, 1, 2, 3, 4, 5), *until),)


def test_an_action_on_an_array_is_one_on_each_task(load: Load) -> None:
    """The number of the array stands for all its tasks."""
    scenario = load("job: 7_1", "job: 7")
    events = site_events_of(scenario, jobs_of(scenario, Path()))
    assert [each.job_id for each in events.job_actions] == [7, 9, 10]


def test_a_scenario_without_them_has_no_site_events(load: Load) -> None:
    """The engine skips what is not there."""
    scenario = msgspec.structs.replace(load(), failures=None, actions=())
    assert site_events_of(scenario, jobs_of(scenario, Path())) is NO_SITE_EVENTS


INVALID = [
    ('"n[1-4],g1"', '"n[1-5]"', r":17: platform\.partitions\[0\]\.nodes: unknown node 'n5'"),
    ('"n[1-4],g1"', '"n[1-"', r":17: platform\.partitions\[0\]\.nodes: expected a host list"),
    ('"n[1-4],g1"', "[[0, 6]]", r":17: .*expected a host list, or ascending pairs .* got \[0, 6\]"),
    ('"n[1-4],g1"', "[]", r":17: platform\.partitions\[0\]\.nodes: expected at least one node"),
    ("names: g[1-2]", "names: n[4-5]", "platform.nodes: nodes 3 and 4 have the same name, 'n4'"),
    ("names: g[1-2]", "names: g[1-3]", "expected a host list of 2 names"),
    ("name: gpu,", "name: normal,", r":18: .*the name 'normal' is there twice"),
    (
        "name: gpu,",
        "name: gpu, default: true,",
        "expected one default .*, got normal and gpu",
    ),
    (
        "name: gpu,",
        "name: gpu, min_nodes: 3,",
        "expected at most the 2 nodes of .*, got 3",
    ),
    (
        "name: gpu,",
        "name: gpu, min_nodes: 2, max_nodes: 1,",
        "expected at most max_nodes, 1, got 2",
    ),
    ("max_time_s: 3600", "max_time_s: 60, default_time_s: 90", "expected at most max_time_s, 60"),
    ("name: gpu,", "name: gpu, allow_qos: [a], deny_qos: [b],", "expected allow_qos or deny_qos"),
    ("name: gpu,", "name: gpu, max_tim_s: 3,", r":18: .*unknown key 'max_tim_s'; did you mean"),
    ("name: gpu,", "name: gpu, state: dow,", "expected one of .*; did you mean 'down'"),
    ("name: gpu,", "name: gpu, weight: 3,", "unknown key 'weight'"),
    ("end_s: 200", "end_s: 100", r":20: .*end_s: expected a time after start_s, 100 s, got 100 s"),
    ("end_s: 200", "end_s: 200, repeat_s: 50", "expected at least the length of a window, 100 s"),
    ("[s1, s2]", "[s1, s3]", "unknown switch 's3'; the switches are s1, s2, top"),
    ("[s1, s2]", "[s1, top]", "the switches form a circle: top -> top"),
    ('name: s2, nodes: "g[1-2]"', 'name: s2, nodes: "n4"', "node n4 is connected to .* s1 and s2"),
    ("[s1, s2]", '[s1, s2], nodes: "n1"', "expected nodes .* or switches, got both"),
    ("      memory_mb: 64000\n", "", "expected memory_mb above 0, because platform.consumable"),
    ("features: [ib]", "features: [ib&x]", "expected a feature without operators"),
    ('"gpu:a100": 2', '"gpu:a,b": 2', "expected the name of a generic resource"),
    ("matlab: 3", '"a b": 3', "expected the name of a licence"),
    ("nodes: n1,", "nodes: n9,", r":31: failures\.events\[0\]\.nodes: unknown node 'n9'"),
    (
        "  random:\n",
        "  random:\n    - {nodes: n3, until_failure: {mean_s: 1}, until_repair: {mean_s: 1}}\n",
        r":34: failures\.random\[1\]\.nodes: node n3 is already in random\[0\]",
    ),
    ("shape: 0.7", "", "weibull needs shape; add it"),
    ("{mean_s: 600}", "{mean_s: 600, shape: 1}", "shape applies to weibull and lognormal"),
    ("repair_after_s: 5", "kind: repair, repair_after_s: 5", "applies to fail and drain"),
    ("kind: cancel", "kind: cancel, nice: 3", "nice applies to update; remove it"),
    ("kind: cancel", "kind: update", "expected at least one of begin_s"),
    ("job: 7_1", "job: 7_x", "expected a job number or ARRAY_INDEX"),
    ("job: 7_1", "job: 7_9", r":36: actions\[0\]\.job: the workload has no job 7_9"),
    ('"n[2-3]"', "n7", r":28: workload\.inline\[1\]\.required_nodes: unknown node 'n7'"),
    ("array: 0-2", "array: 0-2, dependency: 'after:5'", r":27: .*there is no job 5"),
]


@pytest.mark.parametrize(("old", "new", "what"), INVALID)
def test_an_invalid_site_is_an_error(tmp_path: Path, old: str, new: str, what: str) -> None:
    """The error has file, line and field, and what was expected."""
    assert old in SITE
    path = tmp_path / "site.yaml"
    path.write_text(SITE.replace(old, new, 1))
    with pytest.raises(ScenarioError, match=what):
        Library([path])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7_1", "7_1"),
        ("1:30", "1:30"),
        ("off", "off"),
        ("yes", "yes"),
        ("true", True),
        ("010", 10),
        ("0x1F", 31),
        ("-5", -5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("2024-03-01", "2024-03-01"),
        ("~", None),
    ],
)
def test_yaml_follows_the_core_schema(text: str, value: object) -> None:
    """Numbers and truth values are those of YAML 1.2; names such as `off` are text."""
    found = parse_yaml(text)
    assert found == value
    assert type(found) is type(value)
