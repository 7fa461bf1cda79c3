"""The evaluation of trained networks beside rules, as an experiment of all combinations."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hpcosim_client.job import Floats
from hpcosim_experiments.carry_out import CarriedOut, run_experiment
from hpcosim_experiments.executors import ExecutorSettings
from hpcosim_experiments.statistics.bootstrap import Bootstrap, estimate, mean
from hpcosim_gym.errors import EvaluationError, RecipeError
from hpcosim_gym.learning.recipe import Evaluation, Recipe, scenario_in
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_schedulers.catalogue.evaluation import Case, EvaluationTable, table_of

EXPERIMENT = "experiment.yaml"
UNTRAINED = "untrained"
LEAST = 1e-12
"""Least value of a rule that a network is divided by."""

Networks = Mapping[str, Path]
"""Files of networks by label: `seed N`, or `untrained`."""


def evaluate(
    recipe: Recipe,
    networks: Networks,
    out: Path,
    executor: ExecutorSettings,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, EvaluationTable]:
    """Run networks and rules on all combinations of scenario, size and load.

    The folder gets an experiment file, and what `hpcosim experiment` writes for it: the results of
    all runs and a report. Results that are stored in it are used.

    Args:
        recipe: a recipe with an evaluation.
        networks: the networks.
        out: the output folder.
        executor: where the runs are simulated.
        say: called with sentences about the progress.

    Returns:
        The table of each network that was trained, by label.

    Raises:
        RecipeError, ExperimentError, ScenarioError, WorkloadError, PolicyError: the evaluation is
            invalid.
        EvaluationError: a run failed.
    """
    asked = recipe.evaluation
    assert asked is not None
    out.mkdir(parents=True, exist_ok=True)
    path = out / EXPERIMENT
    clusters = _clusters(recipe, asked)
    path.write_text(json.dumps(_experiment(recipe, asked, networks, clusters), indent=1))
    done = run_experiment(path, out=out / "results", executor=executor, table_format="csv", say=say)
    if failed := done.failed:
        first = done.results[failed[0].key].error
        raise EvaluationError(
            f"{path}: {len(failed)} of {len(done.plan.runs)} runs failed: {first}"
        )
    values = _values(asked, done)
    trained = [label for label in networks if label != UNTRAINED]
    return {
        label: EvaluationTable(
            recipe=recipe.name,
            changes=dict(recipe.overrides),
            metric=_named(asked.metric),
            cases=[
                _case(cluster, load, asked, label, trained, values)
                for cluster in clusters
                for load in asked.loads
            ],
        )
        for label in trained
    }


def write_evaluation(table: EvaluationTable, network: Path) -> None:
    """Write the table of an evaluation beside a network, a case in each line."""
    head = msgspec.json.encode(msgspec.structs.replace(table, cases=[])).removesuffix(b"]}")
    cases = b",\n".join(map(msgspec.json.encode, table.cases))
    table_of(network).write_bytes(b"%b\n%b\n]}\n" % (head, cases))


class _Cluster(msgspec.Struct, frozen=True):
    """A scenario at a size.

    Attributes:
        settings: what it sets in a scenario, with the scenario's file.
    """

    scenario: str
    trained: bool
    size: float
    settings: dict[str, Any]

    @property
    def label(self) -> str:
        return f"{self.scenario} x {self.size:g}"


def _clusters(recipe: Recipe, asked: Evaluation) -> list[_Cluster]:
    """Return the scenarios at all sizes."""
    folder = recipe.path.parent
    field = "$.train.evaluation.scenarios"
    if isinstance(asked.scenarios, list):
        named = {Path(name).stem: {"scenario": name} for name in asked.scenarios}
    else:
        named = asked.scenarios
    found = []
    for label, values in named.items():
        if not isinstance(name := values.get("scenario"), str):
            raise RecipeError("expected the key scenario", field=f'{field}["{label}"]')
        file = scenario_in(folder, name, f'{field}["{label}"]')
        own = {path: value for path, value in values.items() if path != "scenario"}
        groups = load_scenario(file, {**asked.set, **own}).platform.nodes
        trained = not own and file.resolve() in {each.resolve() for each in recipe.inputs.scenarios}
        for size in asked.sizes:
            counts = {
                f"platform.nodes.{number}.count": math.ceil(group.count * size)
                for number, group in enumerate(groups)
                if size != 1.0
            }
            settings = {"scenario": str(file.resolve()), **own, **counts}
            found.append(_Cluster(label, trained, size, settings))
    return found


def _experiment(
    recipe: Recipe, asked: Evaluation, networks: Networks, clusters: Iterable[_Cluster]
) -> dict[str, Any]:
    policies: dict[str, dict[str, Any]] = {
        label: {**recipe.trainer.use(file.resolve()), **asked.beside}
        for label, file in networks.items()
    }
    policies |= _rules(asked)
    axes: dict[str, Any] = {
        "cluster": {"values": {each.label: each.settings for each in clusters}},
        "load": {"path": "workload.load", "values": list(asked.loads)},
        "policy": {"values": policies},
    }
    if asked.windows:
        axes["window"] = {"path": "workload.jobs", "values": [list(each) for each in asked.windows]}
    return {
        "name": f"{recipe.name}-evaluation",
        "set": asked.set,
        "axes": axes,
        "report": {"metrics": list(_weights(asked.metric))},
    }


def _rules(asked: Evaluation) -> dict[str, dict[str, Any]]:
    if isinstance(asked.rules, list):
        return {name: {"scheduler": name} for name in asked.rules}
    return asked.rules


def _weights(metric: str | Mapping[str, float]) -> Mapping[str, float]:
    return {metric: 1.0} if isinstance(metric, str) else metric


def _named(metric: str | Mapping[str, float]) -> str:
    """Return a name of what is compared, such as `wasted_energy_j + 500000 mean_wait_s`."""
    pairs = _weights(metric).items()
    return " + ".join(name if weight == 1.0 else f"{weight:g} {name}" for name, weight in pairs)


def _values(asked: Evaluation, done: CarriedOut) -> dict[tuple[str, float, str], Floats]:
    """Return the values of the metric in all windows, by cluster, load and policy."""
    values: dict[tuple[str, float, str], list[float]] = {}
    for run in done.plan.runs:
        labels = run.labels
        key = str(labels["cluster"]), float(labels["load"]), str(labels["policy"])
        total = 0.0
        for name, weight in _weights(asked.metric).items():
            found = done.results[run.key].metrics.get(name)
            if found is None:
                raise RecipeError(
                    f"the runs have no metric {name!r}; docs/reference/metrics.md lists them",
                    field="$.train.evaluation.metric",
                )
            total += weight * float(found)
        values.setdefault(key, []).append(total)
    return {key: np.array(found) for key, found in values.items()}


def _case(
    cluster: _Cluster,
    load: float,
    asked: Evaluation,
    network: str,
    trained: Sequence[str],
    values: Mapping[tuple[str, float, str], Floats],
) -> Case:
    """Return the case of a network.

    Args:
        network: its label.
        trained: labels of the networks of all seeds.
    """

    def of(policy: str) -> Floats:
        return values[cluster.label, load, policy]

    rule = min(_rules(asked), key=lambda name: float(of(name).mean()))
    means = [float(of(label).mean()) for label in trained]
    several = len(trained) > 1
    differences = of(network) / np.maximum(of(rule), LEAST) - 1.0
    interval = estimate([differences], mean, Bootstrap())
    return Case(
        scenario=cluster.scenario,
        trained=cluster.trained,
        size=cluster.size,
        load=load,
        network=float(of(network).mean()),
        rule=rule,
        rule_value=float(of(rule).mean()),
        seeds_mean=statistics.mean(means) if several else None,
        seeds_deviation=statistics.stdev(means) if several else None,
        untrained=_mean_of(values.get((cluster.label, load, UNTRAINED))),
        low=interval.low if interval.has_interval else None,
        high=interval.high if interval.has_interval else None,
    )


def _mean_of(values: Floats | None) -> float | None:
    return None if values is None else float(values.mean())


def evaluation_text(table: EvaluationTable) -> str:
    """Return the table as Markdown."""
    columns = [
        *("scenario", "nodes", "load", "network", "all seeds", "untrained", "best rule"),
        *(f"its {table.metric}", "network to rule", "95 % interval"),
    ]
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*head, *map(_line, table.cases)]) + "\n"


def _line(case: Case) -> str:
    seeds = "" if case.seeds_mean is None else f"{case.seeds_mean:.5g} ({case.seeds_deviation:.2g})"
    cells = [
        f"{case.scenario} (trained on)" if case.trained else case.scenario,
        f"x {case.size:g}",
        f"{case.load:g}",
        f"{case.network:.5g}",
        seeds,
        "" if case.untrained is None else f"{case.untrained:.5g}",
        case.rule,
        f"{case.rule_value:.5g}",
        f"{case.difference:+.1%}",
        "" if case.low is None else f"{case.low:+.1%} to {case.high:+.1%}",
    ]
    return f"| {' | '.join(cells)} |"
