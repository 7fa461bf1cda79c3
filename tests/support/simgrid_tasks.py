"""Parallel tasks whose times were measured with SimGrid, see `simgrid_tasks.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.tasks import ParallelProfile
from hpcosim_batsim.inputs.workload_model import Parallel, ParallelHomogeneous

FILE = Path(__file__).parents[1] / "batsim" / "simgrid_tasks.json"


class MeasuredTask(Struct, frozen=True):
    """A parallel task.

    Attributes:
        name: its name.
        start_s: time of its start, s.
        hosts: number of the host of each process.
        profile: its computations and messages.
        end_s: time of its end in SimGrid, s.
    """

    name: str
    start_s: float
    hosts: tuple[int, ...]
    profile: ParallelProfile
    end_s: float


class Scene(Struct, frozen=True):
    """Tasks on a platform.

    Attributes:
        name: what it is about.
        xml: text of the platform.
        raw: the tasks of the file.
    """

    name: str
    xml: str
    raw: list[dict[str, Any]]

    def platform(self, folder: Path) -> BatsimPlatform:
        """Return the platform, with an additional master host if it has none."""
        path, text = folder / "platform.xml", self.xml
        if 'value="master"' in text:
            path.write_text(text, encoding="utf-8")
            return read_platform(path)
        end = text.rindex("</zone>")
        spare = '<host id="spare" speed="1Gf"/>'
        path.write_text(text[:end] + spare + text[end:], encoding="utf-8")
        return read_platform(path, master="spare")

    def tasks(self, platform: BatsimPlatform) -> list[MeasuredTask]:
        """Return the tasks."""
        numbers = {host.name: number for number, host in enumerate(platform.hosts)}
        return [_task(raw, numbers) for raw in self.raw]


def scenes() -> Iterator[Scene]:
    """Yield the measured scenes."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    for scene in data["scenes"]:
        xml = "\n".join(data["platforms"][scene["platform"]])
        yield Scene(scene["name"], xml, scene["tasks"])


def _task(raw: dict[str, Any], numbers: dict[str, int]) -> MeasuredTask:
    name, flop, com = raw["name"], raw["flop"], raw["bytes"]
    hosts = tuple(numbers[host] for host in raw["hosts"])
    profile: ParallelProfile
    if isinstance(com, int | float) and len(set(flop)) == 1:
        profile = ParallelHomogeneous(name=name, raw={}, cpu_flop=flop[0], com_bytes=com)
    else:
        if isinstance(com, int | float):
            com = [0.0 if i == j else com for i in range(len(flop)) for j in range(len(flop))]
        profile = Parallel(name=name, raw={}, cpu_flop=tuple(flop), com_bytes=tuple(com or ()))
    return MeasuredTask(name, raw["start_s"], hosts, profile, raw["end_s"])
