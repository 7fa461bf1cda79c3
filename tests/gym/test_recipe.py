"""Recipes of trainings: reading, carrying out, evaluation and search."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra rl")

from hpcosim_experiments.executors import ExecutorSettings, Local, Slurm
from hpcosim_gym.errors import RecipeError, TrainingError
from hpcosim_gym.learning.recipe import load_recipe, recipe_types, settings_of
from hpcosim_gym.learning.seeds import SeedTask, final_measure, train_seeds, until, untrained
from hpcosim_gym.learning.trainers import (
    Progress,
    Report,
    TrainingStopped,
    find_trainer,
    trainer_names,
)
from hpcosim_scenarios.shipped import shipped_recipes
from hpcosim_schedulers.catalogue.evaluation import (
    Case,
    EvaluationTable,
    evaluation_warning,
    read_evaluation,
)
from support.commands import CommandResult, invoke
from support.paths import SCENARIOS
from support.recipes import write_recipe

EXPERIMENT_1 = SCENARIOS / "papers" / "ineps" / "exp1.yaml"
FILES = ("actor.safetensors", "checkpoint.safetensors")
SHORT = {
    "preset": "papers",
    "algorithm": {"epochs": 1},
    "budget": {"iterations": 1, "episodes": 2},
}


@pytest.mark.parametrize("name", shipped_recipes())
def test_shipped_recipes_are_valid(name: str) -> None:
    """Each is read, and says in one line what it trains."""
    path = shipped_recipes()[name]
    assert load_recipe(path).trained in trainer_names()
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("name", trainer_names())
def test_each_setting_of_a_trainer_is_in_one_section(name: str) -> None:
    """A section knows the settings that the trainer names; the algorithm has the others."""
    trainer = find_trainer(name)
    kind = type(next(iter(trainer.presets().values())))
    _, _, environment, algorithm, budget, *_ = recipe_types(name, trainer, kind)
    fields = [
        field
        for section in (environment, algorithm, budget)
        for field in section.__struct_fields__
        if field not in ("name", "scenario", "set", "validation")
    ]
    assert sorted(fields) == sorted(settings_of(kind))


def test_a_recipe_changes_the_settings_of_its_preset(tmp_path: Path) -> None:
    """Values of all sections, also of settings within settings; what is not named stays."""
    path = write_recipe(
        tmp_path,
        "pairing",
        EXPERIMENT_1,
        environment={"objective": "edp", "jobs": 5},
        preset="papers",
        algorithm={"name": "a2c", "clip": 0.3},
        budget={"iterations": 7},
        seeds=[4, 2],
    )
    recipe = load_recipe(path, {"budget.patience": 3})
    found = recipe.settings
    assert (found.pairing.objective, found.pairing.sees) == ("edp", "papers")
    assert (found.windows.jobs, found.algorithm, found.clip) == (5, "a2c", 0.3)
    assert (found.iterations, found.patience, found.epochs) == (7, 3, 50)
    assert (recipe.seeds, recipe.inputs.scenarios) == ((4, 2), (EXPERIMENT_1,))


def test_a_file_that_a_setting_names_is_relative_to_the_recipe(tmp_path: Path) -> None:
    """As a scenario, also if an option names it; an absolute path stays."""
    scenario = SCENARIOS / "papers" / "deep_eas" / "lambda_0.9.yaml"
    path = write_recipe(
        tmp_path, "deep-eas", scenario, environment={"start": "first/a.safetensors"}
    )
    assert load_recipe(path).settings.start == str(tmp_path / "first" / "a.safetensors")
    for given, start in (("b", tmp_path / "b"), ("/c", "/c")):
        assert load_recipe(path, {"environment.start": given}).settings.start == str(start)
    assert load_recipe(path, {"environment.start": None}).settings.start is None


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"environment": {"name": "paring"}}, "did you mean 'pairing'?"),
        ({"environment": {"scenario": "no.yaml"}}, "no.yaml: no such file or shipped scenario"),
        ({"environment": {"objektive": "edp"}}, "did you mean 'objective'?"),
        ({"environment": {"wait_s": -1.0}}, "train.environment.wait_s: expected a number > 0"),
        ({"preset": "best"}, "train.preset: expected one of foreseen, papers, got 'best'"),
        ({"algorithm": {"name": "dqn"}}, "expected one of a2c, ppo, got 'dqn'"),
        ({"algorithm": {"iterations": 3}}, "iterations is a key of train.budget"),
        ({"budget": {"iterations": 1.5}}, "train.budget.iterations: expected an integer, got 1.5"),
        ({"seeds": []}, "train.seeds: expected a list of length >= 1"),
        ({"seeds": [1, 1]}, "train.seeds[1]: 1 is there twice"),
        ({"seed": 1}, "unknown key 'seed'; did you mean 'seeds'?"),
        ({"evaluation": {"rules": ["easy"]}}, "the key `scenarios` is missing"),
    ],
)
def test_an_invalid_recipe_is_an_error_with_its_place(
    sections: dict[str, object], message: str, tmp_path: Path
) -> None:
    """File, line and field, what was expected and what is there."""
    path = write_recipe(tmp_path, "pairing", EXPERIMENT_1, **sections)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:")


def test_an_invalid_value_of_an_option_names_the_option(tmp_path: Path) -> None:
    """Not a line of the file, which is right."""
    path = write_recipe(tmp_path, "pairing", EXPERIMENT_1)
    with pytest.raises(RecipeError, match=r"^override budget\.iterations: expected an integer"):
        load_recipe(path, {"budget.iterations": -1})


def test_a_name_of_a_recipe_is_suggested() -> None:
    """A name that is nearly one; a scenario, which is none."""
    assert "did you mean deep-eas?" in invoke("train", "deepeas").error
    assert "demo is a scenario; expected a recipe" in invoke("train", "demo").error
    listed = invoke("train")
    assert [line.split()[0] for line in listed.out.splitlines()] == list(shipped_recipes())


def trained(folder: Path, out: Path, *options: str) -> CommandResult:
    """Run a short training of a pairing agent."""
    recipe = write_recipe(folder, "pairing", EXPERIMENT_1, **SHORT)
    return invoke("train", recipe, "--out", out, *options)


@pytest.mark.slow
def test_each_seed_trains_what_it_trains_alone(tmp_path: Path) -> None:
    """Networks, checkpoints and curves equal those of one seed; resuming adds missing seeds."""
    out, alone = tmp_path / "several", tmp_path / "alone"
    done = trained(tmp_path, out, "--seeds", "3,1", "-j", "2")
    assert done.status == 0
    for words in ("seed", "validation", "seed-3/actor", "seed-1/actor", "mean", "deviation"):
        assert words in done.out
    assert trained(tmp_path, alone, "--seeds", "1").status == 0
    for name in FILES:
        whole = (alone / "seed-1" / name).read_bytes()
        assert (out / "seed-1" / name).read_bytes() == whole
        assert (out / "seed-3" / name).read_bytes() != whole
    assert final_measure(out / "seed-1") == final_measure(alone / "seed-1")
    best = min((3, 1), key=lambda seed: final_measure(out / f"seed-{seed}")[1])
    kept = (out / "actor.safetensors").read_bytes()
    assert kept == (out / f"seed-{best}" / "actor.safetensors").read_bytes()

    assert "holds the checkpoint" in trained(tmp_path, out, "--seeds", "1,0").error
    again = trained(tmp_path, out, "--seeds", "1,0", "--resume", "-j", "1")
    assert (again.status, again.err.count("error")) == (0, 0)
    first = (alone / "seed-1" / FILES[0]).read_bytes()
    assert (out / "seed-1" / FILES[0]).read_bytes() == first
    assert (out / "seed-0" / FILES[0]).is_file()


@pytest.mark.slow
def test_a_failed_seed_does_not_stop_the_others(tmp_path: Path) -> None:
    """The table has the values of the others; the error names the seed; the status is 1."""
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "checkpoint.safetensors").write_bytes(b"damaged")
    done = trained(tmp_path, tmp_path, "--seeds", "0,1", "--resume", "-j", "1")
    assert done.status == 1
    assert "failed" in done.out
    assert "seed-1/actor" in done.out
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert [error[:14] for error in errors] == ["error: seed 0:"]


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("mean_return,validation\n1,nan\n2,0.5\n3,0.7\n", ("validation", 0.5)),
        ("mean_return,validation\n1,nan\n2,nan\n", ("mean_return", 2.0)),
        ("number,mean,best\n1,9,8\n2,7,6\n", ("mean", 7.0)),
    ],
)
def test_the_final_value_is_the_best_validation_or_the_last(
    text: str, measure: tuple[str, float], tmp_path: Path
) -> None:
    """Validation keeps the best network; other trainings end with the last one."""
    (tmp_path / "curve.csv").write_text(text)
    assert final_measure(tmp_path) == measure


@pytest.mark.parametrize(
    ("stop", "ends_at"),
    [({"iterations": 2}, 2), ({"validation": 0.5}, 3), ({"minutes": 0.0}, 1)],
)
def test_a_criterion_ends_a_training(stop: dict[str, float], ends_at: int) -> None:
    """A number of iterations, a time, and a measure that is small enough."""
    seen: list[int] = []
    watched = until(stop, lambda done: seen.append(done.number))
    values = enumerate((float("nan"), 0.9, 0.5, 0.4), 1)
    told = (watched(Progress(number, "", {"validation": value})) for number, value in values)
    with pytest.raises(TrainingStopped):
        list(told)
    assert seen[-1] == ends_at


def test_an_unknown_criterion_is_an_error() -> None:
    """It names those that there are, with the first report; before, the training has none."""
    watched = until({"loss": 1.0}, lambda _: None)
    watched(Progress(5, "instances recorded"))
    with pytest.raises(TrainingError, match="--stop loss: expected one of iterations, minutes, v"):
        watched(Progress(1, "", {"validation": 1.0}))
    assert "expected NAME=VALUE" in invoke("train", "pairing", "--stop", "soon").error


@pytest.mark.slow
def test_a_stopped_training_has_a_network_and_goes_on(tmp_path: Path) -> None:
    """The network of a stopped and resumed training is that of one that was not stopped."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    more = ("--set", "budget.iterations=2")
    assert trained(tmp_path, whole, *more).status == 0
    assert trained(tmp_path, parts, *more, "--stop", "iterations=1").status == 0
    assert (parts / "actor.safetensors").is_file()
    assert trained(tmp_path, parts, *more, "--resume").status == 0
    name = "seed-0/actor.safetensors"
    assert (parts / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
def test_an_evaluation_compares_networks_with_rules(tmp_path: Path) -> None:
    """All seeds and the untrained network, on each scenario, size and load; the table is kept."""
    recipe = write_recipe(
        tmp_path,
        "pairing",
        EXPERIMENT_1,
        **SHORT,
        seeds=[0, 1],
        evaluation={
            "scenarios": [str(EXPERIMENT_1), "ineps/exp2"],
            "rules": ["fcfs", "pairing-rule-energy"],
            "metric": "energy_j",
            "loads": [1.0],
            "sizes": [1.0, 2.0],
            "windows": [[0, 5], [5, 10]],
        },
    )
    out = tmp_path / "out"
    done = invoke("train", recipe, "--out", out, "-j", "1")
    assert done.status == 0, done.err
    assert "| network to rule |" in done.out
    table = read_evaluation(out / "actor.safetensors")
    by_seed = [read_evaluation(out / f"seed-{seed}" / "actor.safetensors") for seed in (0, 1)]
    assert table in by_seed
    assert table is not None
    assert table.metric == "energy_j"
    of = [(case.scenario, case.trained, case.size) for case in table.cases]
    both = [("exp1", True, 1.0), ("exp1", True, 2.0), ("exp2", False, 1.0), ("exp2", False, 2.0)]
    assert of == both
    for case in table.cases:
        assert None not in (case.seeds_mean, case.low)
        assert min(case.network, case.rule_value, case.untrained or 0.0) > 0


@pytest.mark.slow
def test_a_network_is_evaluated_without_a_training(tmp_path: Path) -> None:
    """The table is beside it and names the changes of the recipe; `set` holds in all runs.

    Another network in the same folder uses the stored runs of the rules.
    A recipe without evaluation and a missing file are errors.
    """
    model = tmp_path / "energy.safetensors"
    shutil.copy(SCENARIOS / "papers" / "ineps" / "pairing-exp1" / "energy.safetensors", model)
    evaluation = {
        "scenarios": ["ineps/exp1"],
        "rules": ["first-high-gflops"],
        "metric": {"energy_j": 1.0, "mean_wait_s": 2.0},
        "set": {"workload.jobs": [0, 1]},
        "loads": [1.0],
        "sizes": [1.0],
    }
    recipe = write_recipe(tmp_path, "pairing", EXPERIMENT_1, evaluation=evaluation)
    assert "no such file" in invoke("train", recipe, "--network", tmp_path / "none").error
    options = ("--set", "evaluation.loads=[0.5]", "--out", tmp_path / "out", "-j", "1")
    done = invoke("train", recipe, "--network", model, *options)
    assert done.status == 0, done.err
    table = read_evaluation(model)
    assert table is not None
    assert (table.metric, table.changes) == (
        "energy_j + 2 mean_wait_s",
        {"evaluation.loads": [0.5]},
    )
    assert [case.network <= case.rule_value < 1000.0 for case in table.cases] == [True]
    other = tmp_path / "edp.safetensors"
    shutil.copy(SCENARIOS / "papers" / "ineps" / "pairing-exp1" / "edp.safetensors", other)
    done = invoke("train", recipe, "--network", other, *options)
    assert "1 stored result" in done.err  # of the rule
    bare = write_recipe(tmp_path, "pairing", EXPERIMENT_1)
    assert "has no evaluation" in invoke("train", bare, "--network", model).error


def test_the_untrained_network_is_written(tmp_path: Path) -> None:
    """Without validation and cloning, with the first seed."""
    path = write_recipe(tmp_path, "pairing", EXPERIMENT_1, seeds=[5])
    assert untrained(load_recipe(path), tmp_path / "out").is_file()


def case(network: float, **values: object) -> Case:
    """Return a case in which the best rule has the value 100."""
    about = {"scenario": "kit", "trained": False, "size": 1.0, "load": 0.5, **values}
    return Case(network=network, rule="easy-saf", rule_value=100.0, **about)  # type: ignore[arg-type]


def test_a_network_that_is_worse_than_a_rule_is_warned_of(tmp_path: Path) -> None:
    """The worst cases and their number; no warning where it is as good; one without a table."""
    model = tmp_path / "agent.safetensors"
    assert evaluation_warning(model) == ""
    model.touch()
    assert "has no table agent.evaluation.json" in evaluation_warning(model)
    file = tmp_path / "agent.evaluation.json"

    def write(*cases: Case) -> None:
        import msgspec

        table = EvaluationTable(recipe="batch", metric="mean_wait_s", cases=list(cases))
        file.write_bytes(msgspec.json.encode(table))

    write(case(90.0), case(100.5))
    assert evaluation_warning(model) == ""
    write(case(90.0), case(104.0), case(120.0, size=2.0))
    assert evaluation_warning(model) == (
        "agent.safetensors has a higher mean_wait_s than the best rule in 2 of 3 evaluated cases: "
        "kit with 2 x nodes at load 0.5 (+20% to easy-saf), kit at load 0.5 (+4% to easy-saf); "
        f"see {file}"
    )


def test_a_scheduler_command_warns(tmp_path: Path) -> None:
    """`hpcosim schedule` prints the warning before it looks for a server."""
    import msgspec

    model = tmp_path / "agent.safetensors"
    shutil.copy(SCENARIOS / "batch" / "agent.safetensors", model)
    table = EvaluationTable(recipe="batch", metric="mean_wait_s", cases=[case(150.0)])
    (tmp_path / "agent.evaluation.json").write_bytes(msgspec.json.encode(table))
    address = f"ipc://{tmp_path}/none"
    done = invoke(
        *("schedule", f"batch:{model}", "--connect", address, "--hello-timeout-s", "0.2"),
        *("--timeout-s", "0.2"),
    )
    assert done.status == 1
    assert "warning: agent.safetensors has a higher mean_wait_s" in done.err


@pytest.mark.slow
def test_a_search_finds_settings_and_goes_on(tmp_path: Path) -> None:
    """Each trial trains; what is stored is not trained again; the best settings train at last."""
    pytest.importorskip("optuna", reason="the extra search is not installed")
    search = {
        "trials": 2,
        "settings": {
            "algorithm.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
            "algorithm.swa": {"choices": [True, False]},
        },
    }
    recipe = write_recipe(tmp_path, "pairing", EXPERIMENT_1, **SHORT, search=search)
    out = tmp_path / "out"
    done = invoke("train", recipe, "--out", out, "-j", "1")
    assert done.status == 0, done.err
    assert done.err.count("trial ") == 2
    line = next(line for line in done.out.splitlines() if line.startswith("best settings: "))
    assert "algorithm.learning_rate=" in line
    again = invoke("train", recipe, "--out", out, "-j", "1", "--resume")
    assert again.err.count("trial ") == 0
    assert line in again.out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": {"low": 0.1, "high": 1.0}}, "expected a path such as algorithm."),
        ({"algorithm.learning_rate": {"low": 0.1}}, "expected either low and high, or choices"),
        ({"algorithm.learning_rate": {"low": 1.0, "high": 0.1}}, "expected low <= high"),
        ({"algorithm.learning": {"low": 0.1, "high": 1.0}}, "did you mean 'learning_rate'?"),
    ],
)
def test_an_invalid_search_is_an_error(
    settings: dict[str, object], message: str, tmp_path: Path
) -> None:
    """Before the first trial."""
    recipe = write_recipe(tmp_path, "pairing", EXPERIMENT_1, **SHORT, search={"settings": settings})
    assert message in invoke("train", recipe, "--out", tmp_path / "out").error


def test_a_recipe_is_json_too(tmp_path: Path) -> None:
    """YAML reads it."""
    path = tmp_path / "recipe.json"
    environment = {"name": "pairing", "scenario": str(EXPERIMENT_1)}
    path.write_text(json.dumps({"train": {"environment": environment}}))
    assert load_recipe(path).seeds == (0,)
    assert load_recipe(path).settings.executor == Local(workers=0)


@pytest.mark.slow
def test_seeds_train_the_same_bytes_as_jobs_of_slurm(tmp_path: Path) -> None:
    """By the stand-in for Slurm; a single seed is a job there, too."""
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    recipe = load_recipe(write_recipe(tmp_path, "pairing", EXPERIMENT_1, **SHORT))

    def trained_by(executor: ExecutorSettings, report: Report | None = None) -> list[bytes]:
        tasks = [
            SeedTask(seed, tmp_path / executor.__class__.__name__ / str(seed))
            for seed in recipe.seeds
        ]
        done = list(train_seeds(recipe, tasks, executor, report=report))
        return [each.network.read_bytes() for each in done if each.network is not None]

    there = Slurm(folder=tmp_path / "jobs", cluster="local")
    found = trained_by(there, lambda _: None)
    assert found == trained_by(Local(workers=1))
    assert len(found) == 1
