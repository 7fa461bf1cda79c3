"""Trained networks evaluated with NumPy: the same logits as those of PyTorch, and their files."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import PolicyError
from hpcosim_client.safetensors_file import read_safetensors
from hpcosim_papers.deep_eas.agent.network import NEVER, Scene, load_deep_eas, network_shapes
from hpcosim_papers.deep_eas.agent.network import network_of as deep_eas_of
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas
from hpcosim_papers.ineps.agent import policy as pairing
from hpcosim_papers.ineps.agent.policy import load_pairing
from hpcosim_papers.power import agent as node_power
from hpcosim_schedulers.agents import networks
from support.paths import SCENARIOS

PAPERS = SCENARIOS / "papers"
CLOSE = 1e-5


def shipped(paper: str) -> list[Path]:
    """Return the network files of a paper."""
    return sorted((PAPERS / paper).rglob("*.safetensors"))


def scene_of(settings: DeepEas, moments: int, rng: np.random.Generator) -> Scene:
    """Return arbitrary observations; no job fits into an empty slot."""
    machines, queue = settings.machines, settings.queue

    def drawn(most: int, *shape: int) -> Any:
        return rng.integers(0, most + 1, shape).astype(np.int16)

    watts = rng.uniform(1.0, 3.0, machines)
    used = drawn(settings.cores, moments, machines, settings.horizon)
    cores, waited = drawn(settings.cores, moments, queue), drawn(50, moments, queue)
    steps = drawn(settings.horizon, moments, machines, queue)
    rows = drawn(settings.horizon, moments, machines, queue) - np.int16(1)
    return Scene(
        *(watts, used, cores, waited, steps),
        np.where(cores[:, None] == 0, np.int16(NEVER), rows),
        drawn(settings.backlog, moments),
        drawn(settings.since_arrival, moments),
        rng.integers(0, 500, (moments, queue)).astype(np.int32),
        rng.integers(0, 500, moments).astype(np.int32),
        drawn(20, moments, 3),
    )


@pytest.mark.parametrize(
    "path",
    [path for path in shipped("ineps") if load_pairing(path)[1].rule is None],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_pairing_logits_equal_those_of_torch(path: Path) -> None:
    """For any rows, few or many."""
    torch = pytest.importorskip("torch")
    from hpcosim_papers.ineps.learners.networks import load_actor

    weights, about = load_pairing(path)
    actor, _ = load_actor(path)
    rng = np.random.default_rng(1)
    for count in (2, 7, 300):
        rows = rng.random((count, about.features), dtype=np.float32)
        seen = torch.from_numpy(rows)[None]
        expected = actor(seen, torch.ones(seen.shape[:2], dtype=torch.bool))[0].numpy()
        found = pairing.logits_of(about.pairing, weights, rows)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("path", shipped("deep_eas"), ids=lambda path: path.stem)
def test_deep_eas_logits_equal_those_of_torch(path: Path) -> None:
    """For one and several moments, where a network with masked actions may choose."""
    pytest.importorskip("torch")
    from hpcosim_papers.deep_eas.learners.networks import load_network, logits_of

    weights, about = load_deep_eas(path)
    network, _ = load_network(path)
    rng = np.random.default_rng(1)
    for moments in (1, 9):
        scene = scene_of(about.settings, moments, rng)
        expected = logits_of(network, scene)
        found = deep_eas_of(about.settings, weights)(scene)
        assert found.dtype == np.float32
        shown = scene.possible() if about.settings.masked else np.ones_like(found, dtype=bool)
        np.testing.assert_allclose(found[shown], expected[shown], rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize(
    "path", sorted((PAPERS / "power" / "models").glob("a2c*.safetensors")), ids=str
)
def test_node_power_logits_equal_those_of_torch(path: Path) -> None:
    """For one node and many."""
    torch = pytest.importorskip("torch")
    from hpcosim_gym.learning.networks import with_weights
    from hpcosim_papers.power.learners.train import NodePowerActor

    weights, about = node_power.load_actor(path)
    actor = with_weights(NodePowerActor(about.shape), weights)
    rng = np.random.default_rng(1)
    for count in (1, 5, 128):
        seen = rng.random((count, about.shape.features), dtype=np.float32)
        expected = actor(torch.from_numpy(seen)[None])[0].numpy()
        found = node_power.logits_of(about.shape, weights, seen)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("sees", ["picture", "pairs", "queue"])
def test_shapes_are_those_of_the_modules_that_are_trained(sees: Any) -> None:
    """Otherwise a trained network could not be read."""
    pytest.importorskip("torch")
    from hpcosim_papers.deep_eas.learners.networks import network_of

    settings = DeepEas(sees=sees)
    module = network_of(settings).state_dict()
    assert network_shapes(settings) == {name: tuple(each.shape) for name, each in module.items()}


@pytest.mark.parametrize("name", ["silu", "selu", "relu"])
def test_activations_equal_those_of_torch_far_from_0(name: str) -> None:
    """Without overflow."""
    torch = pytest.importorskip("torch")
    values = np.array([-1e4, -100, -20, -1, -1e-4, 0, 1e-4, 1, 20, 100, 1e4], dtype=np.float32)
    expected = getattr(torch.nn.functional, name)(torch.from_numpy(values)).numpy()
    np.testing.assert_allclose(getattr(networks, name)(values), expected, rtol=CLOSE, atol=CLOSE)


# Files


def file_of(header: object, data: bytes = b"") -> bytes:
    """Return the bytes of a file in safetensors format."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_files_are_read_as_by_the_library() -> None:
    """Every shipped file has the same metadata and arrays."""
    library = pytest.importorskip("safetensors")
    for path in (*shipped("ineps"), *shipped("deep_eas"), *shipped("power")):
        metadata, arrays = read_safetensors(path)
        with library.safe_open(path, framework="numpy") as file:
            assert metadata == file.metadata()
            assert arrays.keys() == set(file.keys())
            for name, array in arrays.items():
                expected = file.get_tensor(name)
                assert array.dtype == expected.dtype
                assert np.array_equal(array, expected)


BAD: dict[str, tuple[bytes, str]] = {
    "cut off": (file_of({})[:-1], "length of the header"),
    "a huge header": (b"\xff" * 16, "length of the header"),
    "no object": (file_of([]), "invalid header"),
    "no text": (b"\x01" + b"\0" * 7 + b"\xff", "invalid header"),
    "deep": (b"\xa0\x86\x01" + b"\0" * 5 + b"[" * 100_000, "invalid header"),
    "no numbers": (
        file_of({"x": {"dtype": "F32", "shape": ["1"], "data_offsets": [0, 4]}}),
        "header",
    ),
    "an unknown type": (
        file_of({"x": {"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}}, b"0"),
        "unknown type F4",
    ),
    "another size": (
        file_of({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"0000"),
        "do not fit",
    ),
    "beyond the end": (
        file_of({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"0000"),
        "do not fit",
    ),
    "a gap": (
        file_of({"x": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, b"00"),
        "do not fit",
    ),
    "more bytes": (file_of({}, b"0"), "after the last array"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_file_is_an_error_that_says_why(case: str, tmp_path: Path) -> None:
    """A reader of networks makes a policy's error of it."""
    content, expected = BAD[case]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=expected):
        read_safetensors(path)
    with pytest.raises(PolicyError, match="cannot be read as a pairing agent"):
        load_pairing(path)


@given(st.binary(max_size=40), st.integers(0, 400))
def test_changed_bytes_are_a_network_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, change: bytes, at: int
) -> None:
    """Whatever the bytes of a header are."""
    content = bytearray(shipped("ineps")[2].read_bytes())
    content[at : at + len(change)] = change
    path = tmp_path_factory.mktemp("changed") / "x.safetensors"
    path.write_bytes(content)
    with suppress(PolicyError):
        load_pairing(path)
