"""Deep-EAS: observations, rounds, network, files and runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from hpcosim_client import PolicyError, View
from hpcosim_gym.learning.networks import arrays_of
from hpcosim_papers.deep_eas.agent.look_ahead import LookAhead, improved_actions
from hpcosim_papers.deep_eas.agent.network import (
    DeepEasMetadata,
    Picture,
    Scene,
    joined,
    load_deep_eas,
    pictures,
    save_deep_eas,
)
from hpcosim_papers.deep_eas.agent.network import network_of as with_weights
from hpcosim_papers.deep_eas.agent.policy import DeepEasRounds, deep_eas
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines, Sees
from hpcosim_papers.deep_eas.agent.step_runs import StepRuns
from hpcosim_papers.deep_eas.learners.networks import Network, PictureNetwork, initialise
from hpcosim_papers.deep_eas.learners.networks import network_of as new_network
from hpcosim_protocol import Platform
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.heuristics.job_node import run_time_scale
from hpcosim_sim.engine.simulation import Rules, Simulation
from support.simulating import simulate
from support.step_machines import Drawn, machines, schedule, table

SMALL = DeepEas(cores=4, horizon=6, queue=2, backlog=6, since_arrival=6)


def network_of(settings: DeepEas, seed: int = 0) -> Network:
    """Return a network with initial weights."""
    network = new_network(settings)
    initialise(network, torch.Generator().manual_seed(seed))
    return network


def three_machines() -> Platform:
    """Return the two machines of `machines`, and a second of the slower kind."""
    fast, slow = machines().nodes
    return Platform((fast, msgspec.structs.replace(slow, count=2)))


def model_in(folder: Path, settings: DeepEas, seed: int = 0) -> Path:
    """Write a network with initial weights."""
    path = folder / f"{seed}.safetensors"
    save_deep_eas(
        path, arrays_of(network_of(settings, seed).state_dict()), DeepEasMetadata(settings=settings)
    )
    return path


def rounds_after(drawn: list[Drawn], actions: list[int]) -> tuple[DeepEasRounds, View]:
    """Return the rounds at time 0 after some actions."""
    simulation = Simulation(machines(), table(drawn), Rules(reference_ghz=1.0))
    view = View(machines())
    batch = simulation.advance([])
    view.apply(batch.now_s, batch.events)
    rounds = DeepEasRounds(SMALL, view)
    rounds.begin(view)
    for action in actions:
        scene = rounds.look(view)
        assert scene is not None
        rounds.take(view, scene, action)
    return rounds, view


def lines(seen: Picture) -> list[str]:
    """Return a picture as text, machines and slots apart."""
    rows = ["".join("#" if cell else "." for cell in row) for row in seen]
    parts = [slice(start, start + 4) for start in range(0, 24, 4)]
    return [" ".join([*(row[part] for part in parts), row[24:]]) for row in rows]


def test_the_picture_cell_by_cell() -> None:
    """Of five jobs one was bound to each machine; two are in slots, one waits behind."""
    drawn = [Drawn(0, 2, 2, 3), Drawn(0, 1, 1, 1), Drawn(0, 1, 1, 2), Drawn(0, 3, 3, 4)]
    rounds, view = rounds_after([*drawn, Drawn(0, 1, 1, 1)], [0, 2])
    scene = rounds.look(view)
    assert scene is not None
    (seen,) = pictures(SMALL, scene)
    # machines: 0    1 | slot 0 on 0, on 1 | slot 1 on 0, on 1 | behind, since the last came
    assert lines(seen) == [
        "###. #... ##.. ##.. #### #### #.",
        "###. #... .... ##.. #### #### ..",
        ".... .... .... .... #### #### ..",
        ".... .... .... .... .... #### ..",
        ".... .... .... .... .... #### ..",
        ".... .... .... .... .... #### ..",
    ]


def test_the_papers_picture_and_network_have_its_size() -> None:
    """30 x 224 cells, 21 actions, eight filters of 3 x 3 (paper, section III-C)."""
    settings = DeepEas()
    assert (settings.horizon, settings.width, settings.actions) == (30, 224, 21)
    network = network_of(settings)
    assert isinstance(network, PictureNetwork)
    assert tuple(network.filters.weight.shape) == (8, 1, 3, 3)
    assert tuple(network.last.weight.shape) == (21, 8 * 14 * 111)


def test_what_is_possible() -> None:
    """To hold always is; a slot without a job, and a job beyond the horizon, are not."""
    rounds, view = rounds_after([Drawn(0, 4, 4, 4)], [])
    scene = rounds.look(view)
    assert scene is not None
    # slots 0 and 1 on machine 0, on machine 1 (8 steps of 6), hold
    assert scene.possible().tolist() == [[True, False, False, False, True]]


def test_observation_of_the_agent() -> None:
    """A job of 2 steps is bound to machine 0; the next would wait for it, or start on the other."""
    rounds, view = rounds_after([Drawn(0, 2, 2, 3), Drawn(0, 1, 1, 2), Drawn(0, 3, 3, 4)], [0])
    scene = rounds.look(view)
    assert scene is not None
    assert scene.used.tolist() == [[[3, 3, 0, 0, 0, 0], [0] * 6]]
    assert scene.cores.tolist() == [[2, 4]]
    assert scene.steps.tolist() == [[[1, 3], [2, 6]]]
    assert scene.rows.tolist() == [[[2, 2], [0, 0]]]
    assert (scene.behind.tolist(), scene.since_arrival.tolist()) == ([0], [0])


def test_where_nothing_fits_nothing_is_asked() -> None:
    """A second job that would end beyond the horizon on both machines has to wait."""
    wide = Drawn(0, 3, 3, 4)  # 3 and 6 steps of 6
    rounds, view = rounds_after([wide] * 4, [0, 2, 0])
    assert rounds.look(view) is None


@pytest.mark.parametrize("action", [1, 2, 4])
def test_holding_and_the_impossible_end_the_step(action: int) -> None:
    """Holding and invalid actions bind no job and end the step."""
    rounds, view = rounds_after([Drawn(0, 4, 4, 4)], [action])
    assert rounds.look(view) is None
    assert not rounds.plan.bound
    assert not [one for one in view.decisions if type(one).__name__ == "StartJob"]


def test_an_agent_that_holds_for_ever_does_not_hang(tmp_path: Path) -> None:
    """After 30 steps of holding on an idle cluster a job is bound as ESJF would: the later one."""
    settings = DeepEas(cores=4)
    network = network_of(settings)
    assert isinstance(network, PictureNetwork)
    with torch.no_grad():
        network.last.bias[-1] = 1e6
    path = tmp_path / "holds.safetensors"
    save_deep_eas(path, arrays_of(network.state_dict()), DeepEasMetadata(settings=settings))
    starts = schedule(deep_eas(path), table([Drawn(0, 1, 1, 4), Drawn(5, 1, 1, 4)]))
    assert starts == {1: (62.0, 1), 2: (30.0, 1)}


@pytest.mark.parametrize("sees", ["picture", "pairs"])
@pytest.mark.parametrize("masked", [False, True])
def test_every_job_runs_with_any_network(masked: bool, sees: Sees, tmp_path: Path) -> None:
    """An agent that draws among all actions gets every job done."""
    settings = DeepEas(cores=4, masked=masked, sees=sees)
    rng = np.random.default_rng(3)
    drawn = [
        Drawn(step, int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 5)))
        for step in range(25)
    ]
    starts = schedule(deep_eas(model_in(tmp_path, settings), sample=True), table(drawn))
    assert len(starts) == 25
    assert all(start_s >= 0.0 for start_s, _ in starts.values())


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    """Weights and settings; the same network writes the same bytes."""
    path = model_in(tmp_path, SMALL)
    weights, about = load_deep_eas(path)
    assert about.settings == SMALL
    expected = arrays_of(network_of(SMALL).state_dict())
    assert all(np.array_equal(value, expected[name]) for name, value in weights.items())
    assert path.read_bytes() == model_in(tmp_path, SMALL).read_bytes()


def test_a_model_of_another_shape_is_refused(tmp_path: Path) -> None:
    """Trained for machines of 10 cores, it is not run on machines of 4; both are named."""
    policy = deep_eas(model_in(tmp_path, DeepEas()))
    with pytest.raises(PolicyError, match="2 machines of 10 cores; the platform has 2 of 4"):
        schedule(policy, table([Drawn(0, 1, 1, 1)]))


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    """The error names the weights that do not fit the settings."""
    path = tmp_path / "bad.safetensors"
    save_deep_eas(
        path, arrays_of(network_of(SMALL).state_dict()), DeepEasMetadata(settings=DeepEas())
    )
    with pytest.raises(PolicyError, match=r"bad\.safetensors: weights last"):
        load_deep_eas(path)


def test_a_file_of_a_picture_too_small_for_a_filter_is_refused(tmp_path: Path) -> None:
    """A horizon of two rows is too small for the network; the error names the file."""
    path = model_in(tmp_path, SMALL)
    path.write_bytes(path.read_bytes().replace(b'\\"horizon\\": 6', b'\\"horizon\\": 2'))
    with pytest.raises(PolicyError, match=r"0\.safetensors: invalid metadata .*horizon"):
        load_deep_eas(path)


def test_pairs_say_the_same_of_slots_and_machines_in_any_order() -> None:
    """Machines in another order: the same logits in that order, and the same to hold."""
    settings = DeepEas(cores=4, horizon=6, queue=2, backlog=6, since_arrival=6, sees="pairs")
    rounds, view = rounds_after([Drawn(0, 2, 2, 3), Drawn(0, 1, 1, 2), Drawn(0, 3, 3, 4)], [0])
    scene = rounds.look(view)
    assert scene is not None
    turned = Scene(
        scene.watts[::-1],
        scene.used[:, ::-1],
        scene.cores,
        scene.waited,
        scene.steps[:, ::-1],
        scene.rows[:, ::-1],
        scene.behind,
        scene.since_arrival,
        scene.ahead,
        scene.work,
        scene.recent,
    )
    network = with_weights(settings, arrays_of(network_of(settings).state_dict()))
    (logits,), (other,) = network(scene), network(turned)
    assert np.allclose(other, logits[[2, 3, 0, 1, 4]], atol=1e-6)


def test_many_moments_at_once_are_each_by_itself() -> None:
    """The same logits, whether scenes are joined or not."""
    scenes = []
    for actions in ([], [0], [2]):
        rounds, view = rounds_after([Drawn(0, 2, 2, 3), Drawn(0, 1, 1, 2)], actions)
        scene = rounds.look(view)
        assert scene is not None
        scenes.append(scene)
    for sees in ("picture", "pairs"):
        settings = msgspec.structs.replace(SMALL, sees=sees)
        network = with_weights(settings, arrays_of(network_of(settings).state_dict()))
        alone = [network(scene)[0] for scene in scenes]
        assert np.allclose(network(joined(scenes)), alone, atol=1e-6)


def test_pairs_go_for_any_number_of_machines(tmp_path: Path) -> None:
    """An agent of pairs runs on any number of machines, an agent of pictures on its own only."""
    cluster = three_machines()
    jobs = table([Drawn(step, 2, 2, 3) for step in range(8)])
    used: set[int] = set()
    for sees in ("pairs", "picture"):
        settings = DeepEas(cores=4, masked=True, sees=sees)
        policy = deep_eas(model_in(tmp_path, settings), sample=True)
        rules = Rules(reference_ghz=1.0)
        if sees == "picture":
            with pytest.raises(PolicyError, match="2 machines of 4 cores; the platform has 3 of 4"):
                simulate(cluster, jobs, policy, rules)
            continue
        recording = simulate(cluster, jobs, policy, rules).recording
        used = {recording.nodes_of(row)[0] for row in range(len(recording))}
    assert used == {0, 1, 2}


def test_counts_must_fill_columns() -> None:
    """A backlog that is no multiple of the horizon has no place in the picture."""
    with pytest.raises(ValueError, match="backlog: expected a multiple of the horizon, 6, got 7"):
        DeepEas(horizon=6, backlog=7, since_arrival=6)


def test_a_run_without_jobs_waiting_asks_nothing(tmp_path: Path) -> None:
    """Between sequences time goes on without a step: two jobs an hour apart, few exchanges."""
    jobs = table([Drawn(0, 1, 1, 1), Drawn(3600, 1, 1, 1)])
    policy = deep_eas(model_in(tmp_path, DeepEas(cores=4, masked=True, sees="pairs")))
    exchanges = 0

    def counted(view: View) -> None:
        nonlocal exchanges
        exchanges += 1
        policy(view)

    simulate(machines(), jobs, counted, Rules(reference_ghz=1.0))
    assert exchanges < 60


def test_simulated_runs_begin_with_what_the_agent_sees() -> None:
    """At every decision, runs that go on from the known state have the same observation."""
    rng = np.random.default_rng(3)
    numbers = rng.integers(1, 5, (30, 3)).tolist()
    drawn = [Drawn(step, *some) for step, some in enumerate(numbers)]
    settings = DeepEas(cores=4, queue=6, sees="queue", masked=True)
    compared = 0
    rounds: list[DeepEasRounds] = []

    def decide(view: View) -> None:
        nonlocal compared
        if not rounds:
            rounds.append(DeepEasRounds(settings, view))
        rounds[0].begin(view)
        about = Machines(settings, view.nodes.dynamic_w, run_time_scale(view))
        while (scene := rounds[0].look(view)) is not None:
            known = StepRuns.resumed(about, rounds[0].moment(view)).scene
            parts = zip(map(np.asarray, scene), map(np.asarray, known), strict=True)
            assert all(np.array_equal(part, other) for part, other in parts)
            compared += 1
            rounds[0].take(view, scene, int(rng.choice(np.flatnonzero(scene.possible()[0]))))

    schedule(decide, table(drawn))
    assert compared > 30


def test_look_ahead_takes_the_action_of_the_lowest_simulated_cost() -> None:
    """Of an untrained agent's three actions, it takes the machine with a tenth of the power."""
    settings = DeepEas(cores=4, sees="queue", masked=True)
    view = View(machines())
    batch = Simulation(machines(), table([Drawn(0, 1, 1, 4)]), Rules(reference_ghz=1.0)).advance([])
    view.apply(batch.now_s, batch.events)
    rounds = DeepEasRounds(settings, view)
    rounds.begin(view)
    scene, known = rounds.look(view), rounds.moment(view)
    assert scene is not None
    about = Machines(settings, view.nodes.dynamic_w, run_time_scale(view))
    look_ahead = LookAhead(actions=3, steps=0)
    network = with_weights(settings, arrays_of(network_of(settings).state_dict()))
    found = improved_actions(network, about, known, scene, look_ahead, view.rng)
    assert found.tolist() == [settings.queue]


def test_the_look_ahead_schedules_all_jobs(tmp_path: Path) -> None:
    """The scheduler by name completes a run; it does not sample."""
    settings = DeepEas(cores=4, sees="queue", masked=True)
    path = model_in(tmp_path, settings)
    jobs = table([Drawn(0, 1, 1, 4), Drawn(1, 2, 3, 2)])
    assert set(schedule(make_policy(f"deep-eas-search:{path}"), jobs)) == {1, 2}
    with pytest.raises(PolicyError):
        make_policy(f"deep-eas-search-sampled:{path}")
