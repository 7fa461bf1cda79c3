"""Host lists: texts such as `n[01-04],b1` that name nodes, as in Slurm's `slurm.conf`.

Each item of the list is a name with any number of brackets. A bracket has numbers and ranges of
numbers. The first number of a range states the width of all: `n[08-10]` is `n08`, `n09`, `n10`.
Several brackets give all combinations; the last varies fastest.

A text of another form, or with an unknown name, is a `HostListError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import product

from hpcosim_protocol.errors import HostListError
from hpcosim_protocol.platform import NodeRanges, Platform

MAX_HOSTS = 1_000_000
ALL = "ALL"

_ITEM = re.compile(r"(?:[^\s,\[\]]|\[[^\s\[\]]*\])+")
_NUMBERS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)", re.DOTALL)


def expand(text: str) -> list[str]:
    """Return the names of a host list, in the order given."""
    names: list[str] = []
    for item in _items(text):
        names += _names_of(item, text, MAX_HOSTS - len(names))
    return names


def compress(names: Iterable[str]) -> str:
    """Return a short host list that `expand` turns into the same names, in the same order.

    Only neighbours that differ in their last number share a bracket.
    """
    return ",".join(_shown(*run) for run in _runs(names))


class NodeNames:
    """The names of a platform's nodes.

    The name of a node of a group without `names` is its number, such as `17`.
    """

    def __init__(self, platform: Platform) -> None:
        self._names = list(_node_names(platform))
        self._numbers = {name: number for number, name in enumerate(self._names)}
        if len(self._numbers) < len(self._names):
            raise HostListError(_first_twice(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def name_of(self, number: int) -> str:
        """Return the name of a node."""
        if not 0 <= number < len(self._names):
            raise HostListError(f"expected a node number below {len(self)}, got {number}")
        return self._names[number]

    def number_of(self, name: str) -> int:
        """Return the number of a node."""
        number = self._numbers.get(name)
        if number is None:
            raise HostListError(f"unknown node {_quoted(name)}; the nodes are {self._known}")
        return number

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of the nodes of a host list, in the order given.

        Args:
            text: a host list, or `ALL`.
        """
        if text.strip() == ALL:
            return list(range(len(self)))
        return [self.number_of(name) for name in expand(text)]

    def ranges(self, text: str) -> NodeRanges:
        """Return the nodes of a host list as ranges of numbers, ascending."""
        return to_ranges(self.numbers(text))

    def text(self, numbers: Iterable[int]) -> str:
        """Return the host list of nodes, in the order given."""
        return compress(self.name_of(number) for number in numbers)

    @cached_property
    def _known(self) -> str:
        return _quoted(compress(self._names))


def to_ranges(numbers: Iterable[int]) -> NodeRanges:
    """Return node numbers as ranges, ascending and as few as possible."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)


def _items(text: str) -> Iterator[str]:
    position = 0
    stripped = text.strip()
    while True:
        found = _ITEM.match(stripped, position)
        if found is None:
            raise HostListError(_no_host_list(text, "a name or `[numbers]`", stripped[position:]))
        yield found[0]
        position = found.end()
        if position == len(stripped):
            return
        if stripped[position] != ",":
            raise HostListError(_no_host_list(text, "`,`", stripped[position:]))
        position += 1


def _names_of(item: str, text: str, most: int) -> list[str]:
    """Return the names of an item, at most `most`."""
    pieces = re.split(r"\[([^\]]*)\]", item)  # text, bracket, text, ..., text
    brackets: list[list[str]] = []
    count = 1
    for bracket in pieces[1::2]:
        numbers: list[str] = []
        for part in bracket.split(","):
            numbers += _numbers_of(part, text, most)
        brackets.append(numbers)
        count *= len(numbers)
        if len(numbers) > most or count > most:
            raise HostListError(_too_many(text))
    if count > most:
        raise HostListError(_too_many(text))
    return [
        pieces[0] + "".join(map("".join, zip(numbers, pieces[2::2], strict=True)))
        for numbers in product(*brackets)
    ]


def _numbers_of(part: str, text: str, most: int) -> list[str]:
    """Return the numbers of a range, or the one number, with their leading zeros."""
    found = _NUMBERS.fullmatch(part)
    if found is None:
        raise HostListError(_no_host_list(text, "a number or a range such as 1-4", part))
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise HostListError(_no_host_list(text, "a range that ascends", part))
    if last - first >= most:
        raise HostListError(_too_many(text))
    width = len(found[1])
    return [str(number).zfill(width) for number in range(first, last + 1)]


def _runs(names: Iterable[str]) -> Iterator[tuple[str, list[str], str]]:
    """Yield neighbours with the same prefix and suffix: prefix, numbers, suffix."""
    run: tuple[str, list[str], str] | None = None
    for name in names:
        found = _LAST_NUMBER.fullmatch(name)
        prefix, number, suffix = found.groups() if found else (name, "", "")
        if run is not None and number and run[1][0] and (prefix, suffix) == (run[0], run[2]):
            run[1].append(number)
            continue
        if run is not None:
            yield run
        run = (prefix, [number], suffix)
    if run is not None:
        yield run


def _shown(prefix: str, numbers: list[str], suffix: str) -> str:
    """Return the host list of names that differ in a number."""
    if len(numbers) == 1:
        return prefix + numbers[0] + suffix
    ranges: list[list[str]] = []
    for number in numbers:
        if ranges and number == str(int(ranges[-1][-1]) + 1).zfill(len(ranges[-1][0])):
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return f"{prefix}[{','.join('-'.join(each) for each in ranges)}]{suffix}"


def _node_names(platform: Platform) -> Iterator[str]:
    first = 0
    for index, group in enumerate(platform.nodes):
        if not group.names:
            yield from map(str, range(first, first + group.count))
        else:
            names = expand(group.names)
            if len(names) != group.count:
                raise HostListError(
                    f"nodes[{index}].names: expected a host list of {group.count} names, "
                    f"got {_quoted(group.names)} with {len(names)}"
                )
            yield from names
        first += group.count


def _first_twice(names: Iterable[str]) -> str:
    """Return the message about the first name that two nodes have."""
    known: dict[str, int] = {}
    for number, name in enumerate(names):
        if name in known:
            return f"nodes {known[name]} and {number} have the same name, {_quoted(name)}"
        known[name] = number
    raise AssertionError("no name twice")


def _no_host_list(text: str, expected: str, got: str) -> str:
    return (
        f"expected a host list such as 'n[1-4],b1', got {_quoted(text)}: "
        f"expected {expected}, got {_quoted(got)}"
    )


def _too_many(text: str) -> str:
    return f"expected a host list of at most {MAX_HOSTS} names, got {_quoted(text)}"


def _quoted(text: str, longest: int = 60) -> str:
    return repr(text if len(text) <= longest else f"{text[:longest]}...")
