"""The binary form of the messages of Batsim 5."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_batsim.edc import messages
from hpcosim_batsim.edc.batsim5 import BINARY
from hpcosim_batsim.edc.binary import decode, encode
from hpcosim_batsim.edc.components import ComponentPlan, introduce
from hpcosim_batsim.edc.library import FORMAT_BINARY
from hpcosim_batsim.edc.schema import ENUMS, TABLES, UNIONS
from hpcosim_batsim.errors import BadReplyError
from support.batsim5 import compile_fcfs
from support.batsim_inputs import write_platform, write_workload
from support.commands import invoke

DEEP = 6


def random_table(name: str, rng: np.random.Generator, depth: int = 0) -> dict[str, Any]:
    """Return a table with random values, as `decode` returns it."""
    result: dict[str, Any] = {}
    for field in TABLES.get(name, ()):
        kind = field.type
        if kind in UNIONS:
            kind = UNIONS[kind][int(rng.integers(1, len(UNIONS[kind])))]
            result[f"{field.name}_type"] = kind
        absent = rng.random() < 0.3 or (depth > DEEP and (kind in TABLES or field.is_list))
        if absent and field.type not in UNIONS:
            if field.default is not None:
                result[field.name] = field.default
            continue
        count = int(rng.integers(0, 4))
        one = [random_value(kind, rng, depth) for _ in range(count if field.is_list else 1)]
        result[field.name] = one if field.is_list else one[0]
    return result


def random_value(kind: str, rng: np.random.Generator, depth: int) -> Any:
    """Return a random value of a type."""
    if kind in ENUMS:
        return ENUMS[kind][int(rng.integers(len(ENUMS[kind])))]
    if kind == "string":
        return "".join(rng.choice(list("aé0!"), int(rng.integers(0, 9))))
    if kind == "bool":
        return bool(rng.integers(2))
    if kind == "double":
        return float(rng.normal())
    if kind in ("uint", "ulong"):
        return int(rng.integers(2**32))
    return random_table(kind, rng, depth + 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_message_is_the_same_after_its_binary_form(seed: int) -> None:
    """All tables, lists, enumerations, unions and defaults go through."""
    message = random_table("Message", np.random.default_rng(seed))
    data = encode(message)
    assert len(data) % 8 == 0
    assert decode(data) == message


def test_a_buffer_made_by_hand() -> None:
    """`now` is 1.5, and the only event rejects a job: each part is where its reference says."""
    parts = [
        struct.pack("<I", 12),  # 0: the root is at 12
        struct.pack("<HHHH", 8, 20, 8, 4),  # 4: fields of the message
        struct.pack("<iId", 8, 12, 1.5),  # 12: the events are at 28, now
        struct.pack("<II", 1, 16),  # 28: one event, at 48
        struct.pack("<HHHHH", 10, 20, 8, 7, 16) + b"\0\0",  # 36: fields of the event
        struct.pack("<i", 12) + b"\0\0\0\x03" + struct.pack("<dI", 1.25, 12),  # 48: reject, at 76
        struct.pack("<HHH", 6, 8, 4) + b"\0\0",  # 68: fields of the rejection
        struct.pack("<iI", 8, 4),  # 76: the id is at 84
        struct.pack("<I", 4) + b"w0!1\0\0\0\0",  # 84
    ]
    assert decode(b"".join(parts)) == {
        "now": 1.5,
        "events": [
            {"timestamp": 1.25, "event_type": "RejectJobEvent", "event": {"job_id": "w0!1"}}
        ],
    }


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_buffer_is_an_error_or_a_message(seed: int) -> None:
    """No damage is a traceback, and none costs more than the size of the buffer allows."""
    rng = np.random.default_rng(seed)
    whole = encode(random_table("Message", rng))
    for _ in range(300):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), int(rng.integers(1, 4))):
            data[place] = int(rng.integers(256))
        try:
            messages.read_message(bytes(data[: int(rng.integers(len(data) + 1))]), decode)
        except BadReplyError:
            continue


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (("HostsTurnedOnOffEvent", {}), "HostsTurnedOnOffEvent of union Event has no number"),
        (("RejectJobEvent", {"job": "a"}), "RejectJobEvent has no field 'job' in batprotocol 0.1"),
    ],
)
def test_what_the_schema_does_not_have_is_refused(event: Any, error: str) -> None:
    """The error names the event or the field."""
    timed = {"timestamp": 0.0, "event_type": event[0], "event": event[1]}
    with pytest.raises(ValueError, match=error):
        encode({"now": 0.0, "events": [timed]})


class Speaker:
    """A component that says one hello."""

    waited_s = 0.0

    def __init__(self, **hello: Any) -> None:
        event = {"batprotocol_version": "0.1.0", **hello}
        timed = {"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": event}
        self.data = encode({"now": 0.0, "events": [timed]})

    def begin(self, init: bytes, interface: object) -> tuple[int, bytes]:
        """Return the hello."""
        return FORMAT_BINARY, self.data

    def decide(self, message: bytes) -> bytes:
        """Return no reply."""
        return b""

    def say_goodbye(self, message: bytes) -> None:
        """Do nothing."""


PLAN = ComponentPlan(kind="library", target="x.so", init=b"")


def test_a_component_chooses_the_binary_form() -> None:
    """Its hello has what it requests."""
    features = {"dynamic_registration": True}
    said = introduce(Speaker(requested_simulation_features=features), PLAN, "5.0.0")
    assert said.form is BINARY
    assert said.hello.requested_simulation_features.dynamic_registration


@pytest.mark.parametrize(
    ("hello", "error"),
    [
        ({"batprotocol_version": "1.0.0"}, "the component has batprotocol '1.0.0'; hpcosim knows"),
        (
            {"requested_simulation_features": {"forward_profiles_on_job_submission": True}},
            "forward_profiles_on_job_submission is not supported in the binary form",
        ),
        (
            {"requested_simulation_features": {"forward_profiles_on_jobs_killed": True}},
            "forward_profiles_on_jobs_killed is not supported: no published source",
        ),
    ],
)
def test_what_no_source_shows_is_refused(hello: dict[str, Any], error: str) -> None:
    """Numbers of later versions and unknown fields are refused by name."""
    with pytest.raises(BadReplyError, match=error):
        introduce(Speaker(**hello), PLAN, "5.0.0")


def test_an_event_of_a_later_version_is_refused() -> None:
    """The error has the number, and what to do."""
    data = bytearray(Speaker().data)
    data[data.index(b"\x12")] = 99  # the number of EDCHelloEvent
    speaker = Speaker()
    speaker.data = bytes(data)
    with pytest.raises(BadReplyError, match=r"number 99 of union Event is unknown.*use JSON"):
        introduce(speaker, PLAN, "5.0.0")


@pytest.mark.slow
def test_a_library_with_text_as_binary_form_is_an_error(tmp_path: Path) -> None:
    """The error has one line."""
    files = [write_platform(tmp_path, 2), write_workload(tmp_path, [], {})]
    library = compile_fcfs(tmp_path)
    done = invoke(
        "batsim5", "-q", "-p", files[0], "-w", files[1], "-l", library, "binary", "-e",
        tmp_path / "o",
    )  # fmt: skip
    assert done.status == 1
    assert "damaged flatbuffer" in done.error
