"""The tables beside the shipped networks, replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra rl")

from hpcosim_experiments.executors import IN_THIS_PROCESS
from hpcosim_gym.learning.evaluation import evaluate
from hpcosim_gym.learning.recipe import load_recipe
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.shipped import shipped_recipes
from hpcosim_schedulers.catalogue.evaluation import SUFFIX, read_evaluation
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.logs.catalogue import find_trace
from support.paths import SCENARIOS

TABLES = sorted(SCENARIOS.rglob(f"*{SUFFIX}"))
NETWORKS = [path.with_name(path.name.removesuffix(SUFFIX) + ".safetensors") for path in TABLES]


def test_networks_have_tables() -> None:
    """All that are shipped; each table is of a shipped recipe."""
    assert set(SCENARIOS.rglob("*.safetensors")) == set(NETWORKS)
    recipes = {table.recipe for path in NETWORKS if (table := read_evaluation(path)) is not None}
    assert recipes <= set(shipped_recipes())


@pytest.mark.slow
@pytest.mark.parametrize(
    "network", NETWORKS, ids=lambda path: path.relative_to(SCENARIOS).as_posix()
)
def test_a_case_of_a_shipped_table_is_replayed(network: Path, tmp_path: Path) -> None:
    """The first case of the table at its load: network and best rule have the same values."""
    table = read_evaluation(network)
    assert table is not None
    path = shipped_recipes()[table.recipe]
    asked = load_recipe(path, table.changes).evaluation
    assert asked is not None
    case = next(case for case in table.cases if case.load == 1.0 and case.size == 1.0)
    named = asked.scenarios if isinstance(asked.scenarios, dict) else {}
    labels = {name if named else Path(name).stem: name for name in asked.scenarios}
    whole = labels[case.scenario]
    scenarios = {case.scenario: named[whole]} if named else [whole]
    _skip_without_log(path.parent, named[whole]["scenario"] if named else whole)
    rules = asked.rules if isinstance(asked.rules, dict) else {}
    changed = load_recipe(
        path,
        {
            **table.changes,
            "evaluation.scenarios": scenarios,
            "evaluation.loads": [1.0],
            "evaluation.sizes": [1.0],
            "evaluation.rules": {case.rule: rules[case.rule]} if rules else [case.rule],
        },
    )
    found = evaluate(changed, {network.stem: network}, tmp_path, IN_THIS_PROCESS)
    again = found[network.stem].cases[0]
    values = again.network, again.rule_value
    assert values == pytest.approx((case.network, case.rule_value), rel=1e-6)


def _skip_without_log(folder: Path, scenario: str) -> None:
    """Skip the test if the job log of a scenario is not there."""
    workload = load_scenario(folder / scenario).workload
    if workload.trace is not None:
        try:
            find_trace(workload.trace)
        except WorkloadError as error:
            pytest.skip(str(error))
