"""Which engine simulates a run, and what happens where the compiled one cannot work."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec import convert

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from hpcosim_compiled import compiler, loop, policies
from hpcosim_compiled.simulation import CompiledSimulation
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running import engine
from hpcosim_scenarios.running.library import Library, load_with, rules_of
from hpcosim_scenarios.running.policies import chosen_by
from hpcosim_scenarios.running.run import run_scenario
from hpcosim_sim.errors import ResultsError, SimulationStuck
from support.commands import SCENARIO, invoke
from support.engines import differences
from support.experiments import carry_out, write

TIMEOUT = {"name": "timeout", "timeout_s": 60}
SLURM = {"name": "slurm", "suspend_time_s": 60}
STATES = {
    "platform.nodes.0.power_states": {
        "sleep_w": 1,
        "switch_on_s": 60,
        "switch_on_w": 9,
        "switch_off_s": 5,
        "switch_off_w": 2,
    }
}
HELD = {"job_id": 1, "submit_s": 0, "cores": 1, "run_s": 9, "hold": True}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small scenario that the compiled engine supports."""
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    return path


def choice_of(file: Path, **overrides: Any) -> engine.EngineChoice:
    """Return the engine of a run with other values of the scenario."""
    loaded = Library([file], overrides).default
    return engine.engine_of(loaded, chosen_by(loaded.scenario, file, None, overrides))


def test_a_small_run_stays_on_the_reference(file: Path) -> None:
    """Loading the compiled engine would take longer."""
    choice = choice_of(file)
    assert choice == (False, "20 jobs take less time than loading the compiled engine")


def test_many_jobs_take_the_compiled_engine_once_it_is_compiled(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few more jobs, compiling it would take longer than it saves."""
    monkeypatch.setattr(engine, "MANY_JOBS", 20)
    monkeypatch.setattr("hpcosim_compiled.compiler.is_warm", lambda _: False)
    assert "compiling" in choice_of(file).why
    monkeypatch.setattr("hpcosim_compiled.compiler.is_warm", lambda _: True)
    assert choice_of(file) == (True, "it supports all of the run, which has 20 jobs")


def test_fewer_jobs_are_enough_where_the_reference_is_slow(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of conservative backfilling takes it ten times as long as one of EASY."""
    monkeypatch.setattr(engine, "MANY_JOBS", 200)
    monkeypatch.setattr("hpcosim_compiled.compiler.is_warm", lambda _: True)
    assert not choice_of(file).is_compiled
    assert choice_of(file, **{"scheduler.name": "conservative"}).is_compiled


def test_many_small_runs_of_one_process_take_the_compiled_engine(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded once for all of them."""
    monkeypatch.setattr("hpcosim_compiled.compiler.is_warm", lambda _: True)
    loaded = Library([file]).default
    chosen = chosen_by(loaded.scenario, file, None, {})
    assert engine.engine_of(loaded, chosen, batch_jobs=10_000).is_compiled
    assert not engine.engine_of(loaded, chosen, batch_jobs=9_999).is_compiled


@pytest.mark.compiles
def test_an_experiment_of_many_small_runs_has_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers simulate their shares of the jobs with the compiled engine."""
    path, tables, compiled = write(tmp_path), [], []
    prepare = CompiledSimulation.prepare

    def counted(self: CompiledSimulation) -> None:
        compiled.append(len(self.jobs))
        prepare(self)

    monkeypatch.setattr("hpcosim_compiled.compiler.is_warm", lambda _: True)
    monkeypatch.setattr(CompiledSimulation, "prepare", counted)
    for name, many in (("few", 10_000), ("many", 240)):
        monkeypatch.setattr(engine, "MANY_JOBS", many)
        out = tmp_path / name
        carry_out(path, out, table_format="csv")
        tables.append((out / "results.csv").read_text())
    assert compiled == [30] * 8
    assert tables[0] == tables[1]


def slurm(**settings: Any) -> dict[str, Any]:
    """Return the scheduler `slurm` with some settings, as overrides."""
    return {"scheduler.name": "slurm", "scheduler.settings": settings}


def test_slurm_with_priorities_by_age_and_size_is_compiled(file: Path) -> None:
    """Its settings are those of the scenario."""
    settings = slurm(priority={"weight_age": 1000, "weight_job_size": 500}, kill_wait_s=5)
    assert choice_of(file, **{"engine": "compiled", **settings}).is_compiled


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({"engine": "reference"}, "engine: reference"),
        ({"scheduler.name": "multifactor"}, "the scheduler multifactor"),
        (slurm(preemption={"type": "qos"}), "preemption"),
        (slurm(priority={"weight_fair_share": 1, "flags": ["no_fair_tree"]}), "fair tree"),
        (slurm(priority={"usage_reset_period": "daily"}), "usage that is reset"),
        (slurm(scheduler={"assoc_limit_stop": True}), "assoc_limit_stop"),
        ({**slurm(), "workload.synthetic": None, "workload.inline": [HELD]}, "a hold"),
        ({**slurm(), "scheduler.power": TIMEOUT, **STATES}, "slurm with power states"),
        ({"scheduler.name": "easy-random"}, "the scheduler easy-random"),
        ({"scheduler.name": "first-high-cores", "scheduler.explain": True}, "explanations"),
        ({"scheduler.power": SLURM, **STATES}, "the power manager slurm"),
        ({"scheduler.power": TIMEOUT, "scheduler.power_awareness": "ipm", **STATES}, "ipm of easy"),
        ({"dynamic_jobs": True}, "dynamic_jobs"),
        ({"stuck_after_wakeups": 1}, "stuck_after_wakeups"),
        ({"actions": [{"at_s": 1, "kind": "cancel", "job": 1}]}, "actions"),
        ({"platform.partitions": [{"name": "all", "nodes": "ALL"}]}, "partitions"),
        ({"workload.synthetic": None, "workload.inline": [HELD]}, "require more than cores"),
    ],
)
def test_what_is_not_supported_falls_back_as_a_whole(
    file: Path, overrides: dict[str, Any], why: str
) -> None:
    """The reason names it."""
    choice = choice_of(file, **{"engine": "compiled", **overrides})
    assert not choice.is_compiled
    assert why in choice.why


def test_a_user_who_asks_for_the_compiled_engine_is_warned(file: Path, tmp_path: Path) -> None:
    """One warning says what is not supported; the run completes."""
    done = invoke(
        "run", file, "--engine", "compiled", "--scheduler", "multifactor", "--out", tmp_path / "out"
    )
    assert done.status == 0
    assert done.err.splitlines() == [
        "warning: the reference engine simulates, because the compiled engine does not support the "
        "scheduler multifactor"
    ]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["engine"] == "reference"


def test_without_numba_the_reference_simulates(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning names the extra to install."""
    monkeypatch.setattr(policies, "find_spec", lambda _: None)
    done = invoke("run", file, "--engine", "compiled", "--out", tmp_path / "out")
    assert done.status == 0
    assert "pip install 'hpcosim[fast]'" in done.err


def test_an_error_of_numba_leaves_the_run_to_the_reference(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises on a machine that it does not support."""

    def fail(self: CompiledSimulation) -> None:
        raise RuntimeError("no such processor")

    monkeypatch.setattr(CompiledSimulation, "prepare", fail)
    done = invoke("run", file, "--engine", "compiled", "--out", tmp_path / "out")
    assert done.status == 0
    assert "because Numba failed: RuntimeError('no such processor')" in done.err


def test_validate_names_the_engine(file: Path) -> None:
    """With the reason."""
    done = invoke("validate", file, "--json")
    summary = json.loads(done.out)
    assert summary["engine"] == "reference"
    assert "20 jobs" in summary["engine_because"]


def test_commands_write_the_same_bytes(file: Path, tmp_path: Path) -> None:
    """`run.json` names the engine."""
    for name in ("reference", "compiled"):
        assert invoke("run", file, "--engine", name, "--out", tmp_path / name).status == 0
        assert json.loads((tmp_path / name / "run.json").read_text())["engine"] == name
    assert differences(tmp_path / "reference", tmp_path / "compiled") == []


def test_prices_and_carbon_are_those_of_the_reference(file: Path, tmp_path: Path) -> None:
    """Costs and emissions by time of use."""
    tariff = tmp_path / "tariff.csv"
    tariff.write_text("time_s,value\n0,0.1\n600,0.3\n1200,0.2\n")
    economics = {"economics.tariff": "tariff.csv", "economics.co2_g_per_kwh": 300}
    for name in ("reference", "compiled"):
        overrides = {**economics, "engine": name}
        run_scenario(file, transport="inproc", out=tmp_path / name, overrides=overrides)
    assert differences(tmp_path / "reference", tmp_path / "compiled") == []


def test_results_that_cannot_be_written_are_an_error(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the reference; the error has the metrics."""

    def refuse(*_: object, **__: object) -> None:
        raise ResultsError("the disk is full")

    monkeypatch.setattr("hpcosim_sim.record.results.write_together", refuse)
    with pytest.raises(ResultsError) as raised:
        run_scenario(
            file, transport="inproc", out=tmp_path / "out", overrides={"engine": "compiled"}
        )
    assert raised.value.metrics is not None
    assert raised.value.metrics["jobs_completed"] == 20


def test_an_interrupt_writes_the_results_so_far(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls of compiled code are short, and an interrupt comes between two of them."""
    advance, calls = CompiledSimulation.advance, iter(range(100))

    def interrupted(self: CompiledSimulation) -> bool:
        self._instants = 3
        if next(calls) == 2:
            raise KeyboardInterrupt
        return advance(self)

    monkeypatch.setattr(CompiledSimulation, "advance", interrupted)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run_scenario(file, transport="inproc", out=out, overrides={"engine": "compiled"})
    about = json.loads((out / "run.json").read_text())
    assert not about["complete"]
    assert about["ended_because"] == "stopped by SIGINT"
    rows = (out / "jobs.csv").read_text().splitlines()[1:]
    assert 1 <= len(rows) < 20


def test_a_partial_record_has_all_nodes_at_all_times(file: Path) -> None:
    """After each instant the node-seconds of all states are those of the nodes."""
    loaded = Library([file], {}).default
    compiled = CompiledSimulation(
        loaded.scenario.platform, loaded.jobs, rules_of(loaded.scenario), "easy"
    )
    goes_on = True
    while goes_on:
        compiled._instants = 1
        goes_on = compiled.advance()
        record = compiled.record()
        node_s = sum(map(sum, record.metered_node_s))
        assert node_s == pytest.approx(4 * record.duration_s)


def finish(simulation: CompiledSimulation) -> None:
    """Advance to the end."""
    while simulation.advance():
        pass


def test_more_places_than_foreseen_are_kept() -> None:
    """Jobs of many nodes each: the places grow while the simulation runs."""
    jobs = [{"job_id": n, "submit_s": n, "cores": 64, "run_s": 1} for n in range(1, 60)]
    scenario = {
        "name": "wide",
        "platform": {"nodes": [{"count": 64, "processors": [{"cores": 1}]}]},
        "workload": {"inline": jobs},
    }
    read = convert(scenario, Scenario)
    loaded = load_with(read, Path(), source_jobs(read, Path()))
    compiled = CompiledSimulation(read.platform, loaded.jobs, rules_of(read), "fcfs")
    finish(compiled)
    periods = compiled.record().recording.periods
    assert [periods.nodes_of(number) for number in range(59)] == [list(range(64))] * 59


def test_a_policy_that_only_wakes_is_stuck() -> None:
    """`slurm` looks for a place of the second job again and again while the first runs."""
    job = {"submit_s": 0, "cores": 1, "run_s": 10_000_000}
    scenario = {
        "name": "long",
        "platform": {"nodes": [{"count": 1, "processors": [{"cores": 1}]}]},
        "workload": {"inline": [{"job_id": 7, **job}, {"job_id": 9, **job}]},
    }
    read = convert(scenario, Scenario)
    loaded = load_with(read, Path(), source_jobs(read, Path()))
    rules = replace(rules_of(read), stuck_after_wakeups=50)
    compiled = CompiledSimulation(read.platform, loaded.jobs, rules, "slurm")
    with pytest.raises(SimulationStuck, match=r"1 job waits \(9\).*woken more than 1000 times"):
        finish(compiled)


# The cache of compiled code.


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compiler.cache_folder.cache_clear()
    folder = compiler.cache_folder()
    assert folder is not None
    yield folder
    compiler.cache_folder.cache_clear()


def twice(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def test_compiled_code_is_kept_in_the_cache_of_the_user(cache: Path) -> None:
    """It is there for the next process, until it is cleared."""
    assert compiler.entry(twice)(3) == 6
    assert any(cache.rglob("*.nbc"))
    compiler.clear_cache()
    assert list(cache.iterdir()) == []


def test_each_part_of_the_engine_is_compiled_at_its_first_use(cache: Path) -> None:
    """The code of one does not make another warm."""
    compiler.note_warm("nodes")
    assert compiler.is_warm("nodes")
    assert not compiler.is_warm("processors")
    compiler.clear_cache()
    assert not compiler.is_warm("nodes")


def test_a_part_that_another_compiles_is_waited_for(cache: Path) -> None:
    """The second loads what the first has compiled; other parts do not wait."""
    order: list[str] = []
    begun, other = Event(), Event()

    def first() -> None:
        order.append("first begins")
        begun.set()
        assert other.wait(60)
        order.append("first ends")

    with ThreadPoolExecutor(3) as threads:
        compiling = threads.submit(compiler.load_part, "nodes", first)
        assert begun.wait(60)
        waiting = threads.submit(compiler.load_part, "nodes", lambda: order.append("second"))
        threads.submit(compiler.load_part, "processors", lambda: order.append("another part"))
        while not waiting.running() or "another part" not in order:
            time.sleep(0.01)
        other.set()
        compiling.result()
        waiting.result()
    assert order == ["first begins", "another part", "first ends", "second"]


def test_code_of_versions_that_nobody_uses_is_removed(cache: Path) -> None:
    """What was used within the last month stays."""
    old, other = cache.with_name("old"), cache.with_name("other")
    for folder in (old, other):
        folder.mkdir()
        (folder / "code.nbc").touch()
    os.utime(old, (0, 0))
    compiler.cache_folder.cache_clear()
    assert compiler.cache_folder() == cache
    assert sorted(cache.parent.iterdir()) == sorted((cache, other))


def test_a_cache_that_others_can_write_is_not_used(cache: Path) -> None:
    """Its code would be executed."""
    cache.chmod(0o777)
    compiler.cache_folder.cache_clear()
    assert compiler.cache_folder() is None
    assert compiler.entry(twice)(3) == 6
    assert list(cache.iterdir()) == []


def test_a_cache_folder_that_cannot_be_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is then compiled in each process."""
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compiler.cache_folder.cache_clear()
    assert compiler.cache_folder() is None
    assert compiler.entry(twice)(3) == 6
    compiler.cache_folder.cache_clear()


def test_a_damaged_cache_is_cleared(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the engine is compiled again."""
    tries: list[None] = []
    cleared: list[None] = []

    def compiled(*_: object, **named: object) -> int:
        tries.append(None)
        if len(tries) == 1:
            raise EOFError("Ran out of input")
        return 0

    monkeypatch.setitem(loop.ADVANCE, "easy", compiled)
    monkeypatch.setattr(compiler, "clear_cache", lambda: cleared.append(None))
    loaded = Library([file], {}).default
    platform, rules = loaded.scenario.platform, rules_of(loaded.scenario)
    CompiledSimulation(platform, loaded.jobs, rules, "easy").prepare()
    assert (len(tries), len(cleared)) == (2, 1)


def test_a_first_compilation_is_announced(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than a user waits without a word."""
    monkeypatch.setattr(compiler, "is_warm", lambda _: False)
    done = invoke("run", file, "--engine", "compiled", "--out", tmp_path / "out")
    assert "is compiled for its first use" in done.err
