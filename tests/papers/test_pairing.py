"""The agent that pairs jobs with nodes: its networks, its files, and its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

torch: Any = pytest.importorskip("torch", reason="the extra rl is not installed")

from hpcosim.cli.main import app  # noqa: E402
from hpcosim_client import PolicyError  # noqa: E402
from hpcosim_gym.learning.networks import arrays_of  # noqa: E402
from hpcosim_papers.ineps.agent.policy import (  # noqa: E402
    FORMAT,
    ROWS,
    PairingMetadata,
    load_pairing,
    save_pairing,
)
from hpcosim_papers.ineps.agent.settings import Pairing  # noqa: E402
from hpcosim_papers.ineps.learners.networks import (  # noqa: E402
    PaperActor,
    PaperCritic,
    actor_of,
    initialise,
)
from hpcosim_scenarios.errors import RunError  # noqa: E402
from hpcosim_scenarios.running.run import Transport, run_scenario  # noqa: E402
from hpcosim_schedulers.agents.networks import write_network  # noqa: E402
from support.paths import SCENARIOS  # noqa: E402

EXPERIMENT_1 = SCENARIOS / "papers" / "ineps" / "exp1.yaml"
EXPERIMENT_2 = SCENARIOS / "papers" / "ineps" / "exp2.yaml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of an agent with initial weights."""
    path = tmp_path_factory.mktemp("trained") / "actor.safetensors"
    actor = actor_of(Pairing())
    initialise(actor, torch.Generator().manual_seed(0))
    save_pairing(path, arrays_of(actor.state_dict()), PairingMetadata(pairing=Pairing()))
    return path


def test_the_papers_networks_have_the_layers_of_the_paper() -> None:
    """Actor and critic are as wide, layer by layer, as in section 3.4."""
    actor, critic = PaperActor(10), PaperCritic(10, 81)
    widths = [part.out_features for part in actor.modules() if isinstance(part, torch.nn.Linear)]
    assert widths == [16, 16, 8, 8, 4, 4, 1]
    widths = [part.out_features for part in critic.modules() if isinstance(part, torch.nn.Linear)]
    assert widths == [32, 16, 8, 4, 1, 128, 64, 32, 16, 8, 1]


@pytest.mark.slow
def test_a_policy_of_few_nodes_runs_on_many(trained: Path, tmp_path: Path) -> None:
    """What was trained on two nodes schedules all jobs of forty."""
    metrics, _ = run_scenario(
        SCENARIOS / "papers" / "ineps" / "exp3.yaml",
        scheduler=f"pairing:{trained}",
        transport="inproc",
        out=tmp_path,
    )
    assert metrics["jobs_completed"] == 180


def test_a_model_of_other_rows_is_refused_by_version(trained: Path, tmp_path: Path) -> None:
    """Columns of another version would mislead an actor; both versions are named."""
    weights, about = load_pairing(trained)
    write_network(tmp_path / "old.safetensors", weights, FORMAT, replace(about, rows=ROWS + 1))
    with pytest.raises(PolicyError, match=f"features of version {ROWS}, got {ROWS + 1}"):
        load_pairing(tmp_path / "old.safetensors")


def test_drawn_choices_follow_the_scenarios_seed(trained: Path, tmp_path: Path) -> None:
    """`pairing-sampled` has the same results by the same seed, and others by some other seed."""
    sampled = f"pairing-sampled:{trained}"
    files: set[tuple[int, bytes]] = set()
    for seed in (1, 2, 3, 1):
        out = tmp_path / f"{seed}-{len(files)}"
        overrides = {"seed": seed}
        run_scenario(
            EXPERIMENT_1, scheduler=sampled, transport="inproc", out=out, overrides=overrides
        )
        files.add((seed, (out / "jobs.csv").read_bytes()))
    assert len(files) == 3
    assert len({jobs for _, jobs in files}) > 1


def test_a_scenarios_agents_are_called_by_name(trained: Path, tmp_path: Path) -> None:
    """`scheduler.agents` names a model beside the scenario; results are the model's own."""
    path = tmp_path / "own.yaml"
    text = EXPERIMENT_1.read_text().rsplit("scheduler:", 1)[0]
    path.write_text(
        text + "scheduler: {name: fcfs, agents: {mine: 'pairing:models/a.safetensors'}}\n"
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.safetensors").write_bytes(trained.read_bytes())
    models = {path: "mine", EXPERIMENT_1: f"pairing:{trained}"}
    mine, its = (
        run_scenario(file, scheduler=name, transport="inproc", out=tmp_path / str(number))[0]
        for number, (file, name) in enumerate(models.items())
    )
    assert mine == its


@pytest.mark.parametrize("transport", ["inproc", pytest.param("ipc", marks=pytest.mark.slow)])
def test_a_job_too_large_for_any_node_is_reported_on_every_transport(
    transport: Transport, trained: Path, tmp_path: Path
) -> None:
    """The scheduler's own words come through, though the server is over before its process."""
    demo = SCENARIOS / "demo.yaml"
    with pytest.raises(RunError, match=r"requests 34 cores.* at most 32"):
        run_scenario(demo, scheduler=f"pairing:{trained}", transport=transport, out=tmp_path)


def _broken(path: Path, trained: Path) -> dict[str, Path]:
    actor = PaperActor(3)
    initialise(actor, torch.Generator().manual_seed(0))
    files = {
        name: path / f"{name}.safetensors" for name in ("missing", "truncated", "nodes", "nan")
    }
    files["truncated"].write_bytes(trained.read_bytes()[:1000])
    save_pairing(
        files["nodes"],
        arrays_of(actor.state_dict()),
        PairingMetadata(pairing=Pairing(sees="papers")),
    )
    good, about = load_pairing(trained)
    bad = {name: np.full_like(weights, np.nan) for name, weights in good.items()}
    save_pairing(files["nan"], bad, about)
    return files


@pytest.mark.parametrize("name", ["missing", "truncated", "nodes", "nan"])
def test_an_invalid_model_is_an_error_in_one_line(name: str, trained: Path, tmp_path: Path) -> None:
    """A file that is missing, cut short, of other features or not finite: exit 2, one line."""
    file = _broken(tmp_path, trained)[name]
    result = CliRunner().invoke(
        app, ["run", str(EXPERIMENT_1), "--scheduler", f"pairing:{file}", "--transport", "inproc"]
    )
    assert result.exit_code == 2
    assert file.name in result.output
    assert len(result.output.strip().splitlines()) == 1
