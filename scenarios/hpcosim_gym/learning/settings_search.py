"""The search for the settings of a training, by Optuna (the extra `search`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.executors import ExecutorSettings
from hpcosim_gym.errors import RecipeError, TrainingError
from hpcosim_gym.learning.recipe import Choices, Recipe, check_paths, load_recipe
from hpcosim_gym.learning.seeds import MEASURES, SeedTask, train_seeds
from hpcosim_schedulers.agents.networks import CHECKPOINT

JOURNAL = "trials.log"


class FoundSettings(NamedTuple):
    """The settings that trained best.

    Attributes:
        recipe: the recipe with these settings.
        values: the settings by dotted path.
        value: mean over the seeds of the measure that rates a training.
    """

    recipe: Recipe
    values: Mapping[str, Any]
    value: float


def search_settings(
    recipe: Recipe,
    out: Path,
    executor: ExecutorSettings,
    say: Callable[[str], None] = lambda _: None,
) -> FoundSettings:
    """Train with many settings, and return those with the best mean over the seeds of the recipe.

    The settings are sampled by the tree-structured Parzen estimator (Bergstra et al. 2011) with
    the first seed of the recipe. Each trial trains into a folder of its own; a trial that failed
    counts as the worst. Trials that are in the folder are used, so the same call continues an
    interrupted search.

    Args:
        recipe: a recipe with a search.
        out: the output folder; it gets `trials.log`.
        executor: where the trainings of a trial run.
        say: called after each trial.

    Raises:
        RecipeError: a setting of the search does not exist.
        TrainingError: Optuna is not installed, or all trials failed.
    """
    asked = recipe.search
    assert asked is not None
    check_paths(recipe, asked)
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise TrainingError(
            "the search for settings needs Optuna: pip install 'hpcosim[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    out.mkdir(parents=True, exist_ok=True)

    def value_of(trial: Any) -> float:
        values = {path: _suggested(trial, path, each) for path, each in asked.settings.items()}
        changed = load_recipe(recipe.path, {**recipe.overrides, **values})
        folder = out / f"trial-{trial.number}"
        tasks = [_task(folder / f"seed-{seed}", seed) for seed in recipe.seeds]
        done = list(train_seeds(changed, tasks, executor))
        if failed := [each.error for each in done if each.error]:
            raise TrainingError(failed[0])
        mean = sum(each.value for each in done) / len(done)
        say(f"trial {trial.number}: {done[0].measure} {mean:.5g} with {values}")
        return mean if MEASURES.get(done[0].measure, min) is min else -mean

    study = optuna.create_study(
        study_name=recipe.name,
        storage=optuna.storages.JournalStorage(JournalFileBackend(str(out / JOURNAL))),
        sampler=optuna.samplers.TPESampler(seed=recipe.seeds[0]),
        load_if_exists=True,
    )
    rest = asked.trials - len(study.get_trials(states=[optuna.trial.TrialState.COMPLETE]))
    study.optimize(value_of, n_trials=max(rest, 0), catch=[TrainingError])
    if not study.get_trials(states=[optuna.trial.TrialState.COMPLETE]):
        raise TrainingError(f"{out}: all {asked.trials} trials failed")
    best = study.best_trial
    found = load_recipe(recipe.path, {**recipe.overrides, **best.params})
    return FoundSettings(found, best.params, abs(study.best_value))


def _task(folder: Path, seed: int) -> SeedTask:
    return SeedTask(seed, folder, resume=(folder / CHECKPOINT).is_file())


def _suggested(trial: Any, path: str, choices: Choices) -> Any:
    """Return the value of a setting in a trial."""
    if choices.choices:
        return trial.suggest_categorical(path, choices.choices)
    low, high = choices.low, choices.high
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(path, low, high, log=choices.log)
    if low is None or high is None:
        raise RecipeError("expected either low and high, or choices", field=path)
    return trial.suggest_float(path, low, high, log=choices.log)
