"""Recorded conversations between the real Batsim v4.2.1 and its schedulers."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.golden import GOLDEN

FOLDER = GOLDEN / "batsim"
INPUTS = FOLDER / "inputs"

Event = dict[str, Any]
Message = dict[str, Any]


@dataclass
class Recording:
    """A recorded run: each message of Batsim with the scheduler's reply.

    Attributes:
        texts: the messages of Batsim as it sent them.
    """

    folder: Path
    texts: list[str]
    messages: list[Message]
    replies: list[Message]

    def events(self) -> list[Event]:
        """Return all events from Batsim in order."""
        return [event for message in self.messages for event in message["events"]]

    def rows(self, name: str) -> list[dict[str, str]]:
        """Return the rows of an output file of Batsim."""
        return rows_of(self.folder / f"o_{name}.csv")


def recording(name: str) -> Recording:
    """Return a recording; skip the test if it is missing."""
    path = FOLDER / name / "messages.jsonl"
    if not path.is_file():
        pytest.skip(f"the recorded conversations are not on this machine: no {path}")
    texts = path.read_text(encoding="utf-8").splitlines()
    lines = [json.loads(text) for text in texts]
    start = '{"dir":"B2S","msg":'
    return Recording(
        FOLDER / name,
        [text.removeprefix(start).removesuffix("}") for text in texts if text.startswith(start)],
        [line["msg"] for line in lines if line["dir"] == "B2S"],
        [line["msg"] for line in lines if line["dir"] == "S2B"],
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class RecordedScheduler:
    """Replays the replies of a recorded scheduler.

    A reply is sent once as many events have arrived as before the recorded reply, so messages may
    group the events differently.
    """

    def __init__(self, recorded: Recording) -> None:
        self._recorded = recorded
        self._heard = 0
        self._said = 0
        self._due = []
        total = 0
        for message in recorded.messages:
            total += len(message["events"])
            self._due.append(total)

    def reply(self, message: Message) -> Message:
        """Return the reply to a message."""
        self._heard += len(message["events"])
        reply: Message = {"now": message["now"], "events": []}
        while self._said < len(self._due) and self._due[self._said] <= self._heard:
            said = self._recorded.replies[self._said]
            reply["events"] += said["events"]
            reply["now"] = max(reply["now"], said["now"])
            self._said += 1
        return reply
