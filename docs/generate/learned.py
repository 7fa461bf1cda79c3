"""The tables beside the shipped networks, summarised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from docs.generate.included import ROOT

from hpcosim_schedulers.catalogue.evaluation import (
    SUFFIX,
    TOLERANCE,
    Case,
    EvaluationTable,
    read_evaluation,
)

SCENARIOS = ROOT / "scenarios"


def networks() -> list[tuple[str, EvaluationTable]]:
    """Return the shipped networks that have a table, by their path in `scenarios`."""
    found = []
    for path in sorted(SCENARIOS.rglob(f"*{SUFFIX}")):
        network = path.with_name(path.name.removesuffix(SUFFIX) + ".safetensors")
        table = read_evaluation(network)
        assert table is not None
        found.append((network.relative_to(SCENARIOS).as_posix(), table))
    return found


def summary() -> str:
    """Return a table with a line for each network."""
    columns = ("Network", "Metric", "Cases", "Better", "Equal", "Worse", "Trained on", "Unseen")
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([*head, *(_line(*each) for each in networks())])


def _line(name: str, table: EvaluationTable) -> str:
    cases = table.cases
    better = sum(case.difference < -TOLERANCE for case in cases)
    worse = sum(case.difference > TOLERANCE for case in cases)
    counts = [len(cases), better, len(cases) - better - worse, worse]
    of = [_mean([case for case in cases if case.trained is seen]) for seen in (True, False)]
    file = f"`{Path(name).as_posix()}`"
    return f"| {' | '.join([file, f'`{table.metric}`', *map(str, counts), *of])} |"


def _mean(cases: Sequence[Case]) -> str:
    """Return the mean difference to the best rule of each case."""
    if not cases:
        return ""
    return f"{sum(case.difference for case in cases) / len(cases):+.1%}"


def details() -> str:
    """Return the differences of each network to the best rules, by scenario and size."""
    return "\n\n".join("\n".join(_details(*each)) for each in networks())


def _details(name: str, table: EvaluationTable) -> Iterator[str]:
    sizes = sorted({case.size for case in table.cases})
    yield f'??? note "{name}"'
    yield ""
    yield f"    | Scenario | {' | '.join(f'x {size:g}' for size in sizes)} |"
    yield f"    |---{'|---' * len(sizes)}|"
    for scenario in dict.fromkeys(case.scenario for case in table.cases):
        of = [case for case in table.cases if case.scenario == scenario]
        label = f"{scenario} (trained on)" if of[0].trained else scenario
        cells = [_range([case for case in of if case.size == size]) for size in sizes]
        yield f"    | {' | '.join([label, *cells])} |"


def _range(cases: Sequence[Case]) -> str:
    """Return the mean difference to the best rule of each case, and the least and the most."""
    if len(cases) == 1:
        return _mean(cases)
    differences = [case.difference for case in cases]
    return f"{_mean(cases)} ({min(differences):+.1%} to {max(differences):+.1%})"
