"""The generated references describe everything there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from msgspec import inspect

from hpcosim_experiments.definition import KINDS as EXPERIMENT_KINDS
from hpcosim_scenarios import compare_policies, simulate
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.scenario import KINDS
from hpcosim_schedulers import GROUPS
from hpcosim_schedulers.power.settings import MANAGERS
from hpcosim_server.service.status import Cause
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.record.metrics import LEAD_CLASSES_S, errors_by_lead, interruptions
from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.results import Run
from hpcosim_sim.record.run_record import RunRecord, record_of
from hpcosim_sim.record.tables import TABLES
from support import site_scenes
from support.paths import ROOT, SCENARIOS
from support.simulating import cluster_of

pytest.importorskip("griffe")
from docs.generate import commands, experiment, layers, metrics, results, scenario, schedulers
from docs.generate.docstrings import attributes
from docs.generate.structs import Section, fields_of
from docs.generate.types import described, number

SECTIONS = [
    *scenario.scenario_file().sections,
    *scenario.power_settings().sections,
    *experiment.experiment_file().sections,
    *commands.server_file().sections,
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.kind.__name__)
def test_each_key_of_a_file_has_a_meaning(section: Section) -> None:
    """Every key of every mapping has an entry under `Attributes:` in its class."""
    meanings = attributes(section.kind)
    missing = [field.name for field in fields_of(section) if not meanings.get(field.name)]
    assert not missing, f"{section.kind.__name__}: add to `Attributes:`: {', '.join(missing)}"


def test_each_kind_of_mapping_has_a_section() -> None:
    """Every kind of mapping in a scenario or an experiment is described, power managers too."""
    kinds = {*KINDS, *EXPERIMENT_KINDS, *MANAGERS.values()}
    assert {section.kind for section in SECTIONS} >= kinds


def test_key_states_type_range_unit_and_default() -> None:
    """An entry has the bounds of the type, the unit of the suffix and the default."""
    text = scenario.reference()
    assert "`seed`{ #top.seed .key }\n:   integer, 0 to 2,147,483,647 · default `0`" in text
    watts = "`static_w`{ #platform-nodes-processors.static_w .key }"
    assert f"{watts}\n:   number, 0 to 10⁹ · in W · **required**" in text
    assert "[`lublin`](#workload-synthetic-lublin) or [`poisson`](" in text


def test_type_without_words_is_an_error() -> None:
    """A type that the generator does not know is reported, not left out."""
    with pytest.raises(TypeError, match="no words"):
        described(inspect.DateTimeType(tz=None))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (1e6, "1,000,000"),
        (1e12, "10¹²"),
        (1e-6, "10⁻⁶"),
        (2**63 - 1, "2⁶³ - 1"),
    ],
)
def test_numbers_are_readable(value: float, text: str) -> None:
    """Large powers of ten are written as powers."""
    assert number(value) == text


def test_example_scenarios_are_valid(tmp_path: Path) -> None:
    """The examples of the scenario reference are scenarios."""
    page = (ROOT / "docs" / "reference" / "scenario.md").read_text(encoding="utf-8")
    examples = re.findall(r"```yaml[^\n]*\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "example.yaml"
    names = []
    for example in examples:
        file.write_text(example)
        names.append(load_scenario(file).name)
    assert names == ["example", "cluster"]


def _interrupted_run() -> RunRecord:
    """Return a run with an interruption of each kind."""
    recording = Recording()
    for state in ("failed", "cancelled", "preempted", "deadline"):
        row = recording.submitted(site_scenes.job(len(recording) + 1))
        for cause in ("node_failed", "decision"):
            recording.started(row, 0.0, [0], [1])
            recording.requeued(row, 1.0, cause, 1.0)
        recording.started(row, 1.0, [0], [1])
        recording.suspended(row, 2.0)
        recording.ended(row, 3.0, state)
    recording.powered(3.0, 0, "down")
    return record_of(Cluster(cluster_of(1), 0.0), recording, 0.0, 4.0)


def test_each_metric_has_a_definition() -> None:
    """The metrics reference defines the metrics of a run, no more and no less."""
    # `office-hours` has metrics of cost, jobs with deadlines have metrics of lateness, and
    # explanations with an expected start have metrics of forecasts, by class of their lead time. A
    # job that needs more than it requests is killed or overruns.
    leads_s = np.array([longest_s for _, longest_s in LEAD_CLASSES_S.values()])
    forecasts = errors_by_lead(np.zeros(len(leads_s)), leads_s)
    job = {"job_id": 1, "submit_s": 0, "cores": 1, "run_s": 5, "requested_s": 4, "deadline_s": 9}
    found: dict[str, float] = {}
    for kill in (True, False):
        overrides = {"workload": {"inline": [job]}, "kill_at_walltime": kill}
        found |= simulate(SCENARIOS / "office-hours.yaml", _fcfs, overrides=overrides, explain=True)
    defined = {
        name: text for group in metrics.definitions().values() for name, text in group.items()
    }
    assert set(defined) == {*found, *forecasts, *interruptions(_interrupted_run())}
    assert all(defined.values())


def test_each_saving_has_a_definition() -> None:
    """The metrics reference defines what a comparison with a baseline adds."""
    compared = compare_policies(
        SCENARIOS / "office-hours.yaml",
        power=["always-on", {"name": "timeout", "timeout_s": 0}],
        baseline="always-on",
        overrides={"workload.synthetic.jobs": 20},
    )
    (found,) = compared.savings.values()
    assert re.findall(r"^`(\w+)`", metrics.savings(), re.MULTILINE) == list(found)


def _fcfs(view: object) -> None:
    from hpcosim_client import View

    assert isinstance(view, View)
    for job in list(view.queue.values()):
        view.explain(job, "Resources", view.now_s)
        if not view.start(job):
            break


def test_each_result_has_a_description() -> None:
    """Every column of the result files and every key of `run.json` is described."""
    text = results.tables()
    columns = [column for table in TABLES for column in table.columns]
    assert all(
        f"| `{column.name}` | {column.type} | {column.meaning}" in text for column in columns
    )
    meanings = attributes(Run)
    assert all(meanings.get(field.name) for field in inspect.type_info(Run).fields)  # type: ignore[attr-defined]


def test_each_command_and_option_has_a_description() -> None:
    """The command reference has a section for each command, and no entry without text."""
    text = commands.reference()
    found = commands.parameters()
    assert all(f" `{name}` {{" in text for name in found)
    missing = [(name, one) for name, texts in found.items() for one in texts if not texts[one]]
    assert not missing


def test_layers_are_those_of_the_import_contract() -> None:
    """The diagram shows the command at the top and the protocol at the bottom."""
    order = layers.layers()
    assert order[0] == ["hpcosim"]
    assert order[-1] == ["hpcosim_protocol"]
    assert layers.diagram().count("<rect") == sum(map(len, order))


def test_catalogue_has_a_line_for_each_scheduler_and_manager() -> None:
    """The scheduler catalogue describes the schedulers, groups and power managers."""
    assert "| `easy` | EASY backfilling" in schedulers.schedulers()
    assert all(f"| `{name}` | " in schedulers.groups() for name in GROUPS)
    assert all(f"| [`{name}`](scenario.md#" in schedulers.power_managers() for name in MANAGERS)


def test_each_cause_of_a_failure_is_described() -> None:
    """The page about the server has a row for each cause in the status stream."""
    page = (ROOT / "docs" / "reference" / "serving.md").read_text(encoding="utf-8")
    table = page.partition("| `cause` | Meaning |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(get_args(Cause))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_keys_share_a_meaning_only_on_purpose(section: Section) -> None:
    """Two keys have the same meaning only if the docstring joins them in one entry."""
    meanings: dict[str, list[str]] = {}
    for name, meaning in attributes(section.kind).items():
        meanings.setdefault(meaning, []).append(name)
    docstrings = " ".join(" ".join((base.__doc__ or "").split()) for base in section.kind.__mro__)
    for names in meanings.values():
        assert len(names) == 1 or f" {', '.join(names)}: " in docstrings
