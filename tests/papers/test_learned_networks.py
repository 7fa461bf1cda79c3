"""The learned power manager's networks and their files. They need torch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from hpcosim_client import PolicyError

WHY = "the extra rl is not installed: pip install 'hpcosim[rl]'"
torch: Any = pytest.importorskip("torch", reason=WHY)
safetensors: Any = pytest.importorskip("safetensors.torch", reason=WHY)

from hpcosim_gym.learning.networks import arrays_of  # noqa: E402
from hpcosim_papers.power import agent as nets  # noqa: E402
from hpcosim_papers.power.agent import learned  # noqa: E402
from hpcosim_papers.power.learners import train as torch_nets  # noqa: E402
from hpcosim_schedulers.agents.networks import (  # noqa: E402
    CHECKPOINT,
    CHECKPOINT_FORM,
    write_network,
)

TINY = nets.Shape(embedding=16, heads=4, layers=2)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Let torch add up in one order."""
    torch.set_num_threads(1)


def generator(seed: int = 0) -> Any:
    """Return a source of chance."""
    return torch.Generator().manual_seed(seed)


# Networks


@pytest.mark.parametrize("nodes", [1, 2, 128, 300])
def test_a_network_takes_any_number_of_nodes(nodes: int) -> None:
    """Two logits for each node, and one value for all of them."""
    seen = torch.rand((3, nodes, 11), generator=generator())
    assert torch_nets.new_network(torch_nets.NodePowerActor, nets.Shape(), generator())(
        seen
    ).shape == (
        3,
        nodes,
        2,
    )
    assert torch_nets.new_network(torch_nets.NodePowerCritic, nets.Shape(), generator())(
        seen
    ).shape == (3,)


def test_nodes_may_change_places() -> None:
    """A permutation of nodes permutes the logits and keeps the value."""
    seen = torch.rand((1, 17, 11), generator=generator())
    order = torch.randperm(17, generator=generator())
    actor = torch_nets.new_network(torch_nets.NodePowerActor, nets.Shape(), generator(1))
    critic = torch_nets.new_network(torch_nets.NodePowerCritic, nets.Shape(), generator(1))
    with torch.no_grad():
        assert torch.allclose(actor(seen)[:, order], actor(seen[:, order]), atol=1e-5)
        assert torch.allclose(critic(seen), critic(seen[:, order]), atol=1e-5)


def test_a_node_sees_the_others() -> None:
    """The features of a node change the logits of another node."""
    seen = torch.rand((1, 5, 11), generator=generator())
    other = seen.clone()
    other[0, 4] = 0.0
    actor = torch_nets.new_network(torch_nets.NodePowerActor, nets.Shape(), generator(1))
    assert not torch.allclose(actor(seen)[0, 0], actor(other)[0, 0])


def test_the_best_of_what_may_be_asked() -> None:
    """The larger logit decides among valid actions."""
    actor = torch_nets.new_network(torch_nets.NodePowerActor, TINY, generator(2))
    seen = np.random.default_rng(0).random((6, 11), dtype=np.float32)
    with torch.no_grad():
        logits = actor(torch.from_numpy(seen)[None])[0].numpy()
    free = np.ones((6, 2), dtype=np.bool_)
    assert nets.best_actions(logits, free).tolist() == logits.argmax(axis=1).tolist()
    free[:3, 0] = free[3:, 1] = False
    assert nets.best_actions(logits, free).tolist() == [1, 1, 1, 0, 0, 0]


# Files


def save_tiny(path: Path, **about: Any) -> Path:
    """Write an untrained actor."""
    actor = torch_nets.new_network(torch_nets.NodePowerActor, TINY, generator(3))
    nets.save_actor(
        path, arrays_of(actor.state_dict()), nets.NodePowerMetadata(shape=TINY, **about)
    )
    return path


def test_an_actor_is_read_as_it_was_written(tmp_path: Path) -> None:
    """A file has weights and metadata; that of the paper's network is < 2 MB."""
    path = tmp_path / "actor.safetensors"
    actor = torch_nets.new_network(torch_nets.NodePowerActor, nets.Shape(), generator(3))
    about = nets.NodePowerMetadata(interval_s=900.0, origin_s=None, training={"seed": 3})
    nets.save_actor(path, arrays_of(actor.state_dict()), about)
    again, said = nets.load_actor(path)
    assert said == about
    assert path.stat().st_size < 2e6
    for name, array in arrays_of(actor.state_dict()).items():
        assert np.array_equal(array, again[name])
    copy = tmp_path / "copy.safetensors"
    nets.save_actor(copy, again, said)
    assert copy.read_bytes() == path.read_bytes()


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, str]], None]) -> None:
    """Write a tiny actor's file with its weights and its texts changed."""
    save_tiny(path)
    weights = safetensors.load_file(path)
    with safetensors.safe_open(path, framework="pt") as file:
        said = file.metadata()
    change(weights, said)
    safetensors.save_file(weights, path, said)


def set_about(**changes: Any) -> Callable[[dict[str, Any], dict[str, str]], None]:
    """Return the function that changes the metadata of a file."""

    def change(_: dict[str, Any], said: dict[str, str]) -> None:
        said[nets.FORMAT] = json.dumps(json.loads(said[nets.FORMAT]) | changes)

    return change


BAD_FILES: dict[str, tuple[Any, str]] = {
    "no format": (lambda _, said: said.clear(), "with metadata 'hpcosim node attention 1'"),
    "another format": (lambda _, said: said.update(x=said.pop(nets.FORMAT)), "got x"),
    "no text": (lambda _, said: said.update({nets.FORMAT: ""}), "invalid metadata"),
    "a bad text": (set_about(scales="one"), "invalid metadata"),
    "other scales": (set_about(scales=0), "with scales of version 1, got 0; train it again"),
    "other features": (set_about(shape=[12, 16, 4, 2]), "expected 11 features of a node, got 12"),
    "a calendar": (set_about(origin_s=0.0), "expected 15 features of a node, got 11"),
    "bad heads": (set_about(shape=[11, 16, 3, 2]), "expected heads that divide an embedding"),
    "huge": (set_about(shape=[11, 2**40, 8, 2]), "at most 4096"),
    "a wrong shape": (
        set_about(shape=[11, 32, 4, 2]),
        "weights encoder.0.bias: expected shape (32,), got (16,)",
    ),
    "missing weights": (
        lambda weights, _: weights.pop("head.0.bias"),
        "weights head.0.bias: expected shape (64,), got none",
    ),
    "other weights": (
        lambda weights, _: weights.update(more=torch.zeros(2)),
        "weights more: expected shape none, got (2,)",
    ),
    "not a number": (
        lambda weights, _: weights["head.0.bias"].fill_(float("nan")),
        "weights head.0.bias: expected finite numbers of type float32",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named_with_what_would_be_right(case: str, tmp_path: Path) -> None:
    """Whatever is wrong in it, it is a policy's error that says the file."""
    change, expected = BAD_FILES[case]
    path = tmp_path / "bad.safetensors"
    rewritten(path, change)
    with pytest.raises(PolicyError, match=re.escape(expected)) as caught:
        learned(path)
    assert str(path) in str(caught.value)


class Nothing(msgspec.Struct):
    """Metadata without fields."""


def test_a_folder_and_a_checkpoint_are_not_networks(tmp_path: Path) -> None:
    """The error for a folder or a checkpoint names the network in the folder."""
    checkpoint, network = tmp_path / CHECKPOINT, tmp_path / "actor.safetensors"
    write_network(checkpoint, {}, CHECKPOINT_FORM, Nothing())
    with pytest.raises(PolicyError, match="no such file; its folder holds the checkpoint"):
        learned(network)
    network.touch()
    with pytest.raises(PolicyError, match=rf"is a folder.*; did you mean {network}\?"):
        learned(tmp_path)
    with pytest.raises(PolicyError, match=rf"is the checkpoint.*; did you mean {network}\?"):
        learned(checkpoint)


@pytest.mark.parametrize("content", [None, b"", b"\x00" * 8, b"weights"])
def test_what_is_no_such_file_at_all_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    """A missing file, and one that is not in the format safetensors, are errors."""
    path = tmp_path / "bad.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PolicyError, match=r"cannot be read as a power manager|no such file"):
        learned(path)
