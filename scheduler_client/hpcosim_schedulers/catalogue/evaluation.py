"""The table beside a network: how it compares with the best rule on clusters and loads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hpcosim_client.errors import PolicyError

SUFFIX = ".evaluation.json"
MOST_BYTES = 2**20
TOLERANCE = 0.01
"""A network is worse than a rule if its value is higher by more than this, relative."""

MOST_SHOWN = 3


class Case(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results on one cluster at one load. Values are means over windows; less is better.

    Attributes:
        scenario: label of the scenario.
        trained: whether a network learned from this scenario.
        size: factor on its number of nodes.
        load: factor on its arrival rate.
        network: value of the network.
        seeds_mean: mean over the networks of all seeds of the training; None: there is one.
        seeds_deviation: their standard deviation.
        untrained: value of the untrained network; None: it was not run.
        rule: name of the best rule.
        rule_value: its value.
        low, high: 95 % interval of the mean relative difference of the network to the rule, paired
            by window; None: fewer than two windows.
    """

    scenario: str
    trained: bool
    size: float
    load: float
    network: float
    rule: str
    rule_value: float
    seeds_mean: float | None = None
    seeds_deviation: float | None = None
    untrained: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def difference(self) -> float:
        """Relative difference of the network to the rule; above 0: it is worse."""
        return self.network / self.rule_value - 1.0 if self.rule_value else 0.0

    @property
    def name(self) -> str:
        """Scenario, size and load, such as `ctc-sp2 with 0.5 x nodes at load 1.2`."""
        size = "" if self.size == 1.0 else f" with {self.size:g} x nodes"
        return f"{self.scenario}{size} at load {self.load:g}"


class EvaluationTable(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The results of an evaluation.

    Attributes:
        recipe: name of the recipe that says what was evaluated.
        metric: the metric that is compared.
        changes: values that replaced those of the recipe, by dotted path.
        cases: the results.
    """

    recipe: str
    metric: str
    changes: dict[str, Any] = {}
    cases: list[Case]


def table_of(model: Path) -> Path:
    """Return the path of the table beside a network."""
    return model.with_name(model.stem + SUFFIX)


def read_evaluation(model: Path) -> EvaluationTable | None:
    """Return the table beside a network; None: there is none.

    Raises:
        PolicyError: the file cannot be read as a table.
    """
    path = table_of(model)
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise PolicyError(f"{path}: expected at most {MOST_BYTES} bytes")
        return msgspec.json.decode(path.read_bytes(), type=EvaluationTable)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise PolicyError(f"{path}: cannot be read as an evaluation: {error}") from None


def evaluation_warning(model: Path) -> str:
    """Return where a network is worse than a rule, by the table beside it; empty: nowhere.

    Without a table the warning is that this is unknown. A network that does not exist has none.

    Raises:
        PolicyError: the table cannot be read.
    """
    table = read_evaluation(model)
    if table is None and not model.is_file():
        return ""
    if table is None:
        return (
            f"{model.name} has no table {table_of(model).name}, so it is unknown where rules are "
            f"better; `hpcosim train RECIPE --network {model.name}` makes it"
        )
    worse = sorted(
        (case for case in table.cases if case.difference > TOLERANCE),
        key=lambda case: -case.difference,
    )
    if not worse:
        return ""
    more = f" and {len(worse) - MOST_SHOWN} more" if len(worse) > MOST_SHOWN else ""
    return (
        f"{model.name} has a higher {table.metric} than the best rule in {len(worse)} of "
        f"{len(table.cases)} evaluated cases: {_shown(worse[:MOST_SHOWN])}{more}; see "
        f"{table_of(model)}"
    )


def _shown(cases: Sequence[Case]) -> str:
    return ", ".join(f"{each.name} ({each.difference:+.0%} to {each.rule})" for each in cases)
