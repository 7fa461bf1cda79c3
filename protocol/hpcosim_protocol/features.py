r"""Expressions of node features, as in `sbatch --constraint` of Slurm.

| expression | meaning |
|---|---|
| `ib` | each node of the job has the feature |
| `ib&gpu`, `ib\|gpu` | each node has both; each node has at least one of them |
| `(ib\|opa)&gpu` | parentheses; without them, operators apply from left to right |
| `gpu*4` | at least 4 nodes of the job have the feature |
| `[rack1\|rack2]` | all nodes have `rack1`, or all nodes have `rack2` |
| `[rack1*2&rack2*4]` | 2 nodes have `rack1`, and 4 other nodes have `rack2` |

A count applies to a feature or to parentheses. An expression has at most one pair of brackets,
which stands outside parentheses. In brackets, `|` separates alternatives and binds weaker than `&`.

Source: manual page sbatch(1) of Slurm 22.05, option `--constraint`.

A text that is no expression is a `FeatureError`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from hpcosim_protocol.errors import FeatureError

MAX_LENGTH = 1000
MAX_NESTING = 20
MAX_COUNTS = 8

MAX_COUNT = 999_999_999

_TOKEN = re.compile(r"\s*(\*\s*[0-9]+|[&|()\[\]]|[^\s&|()\[\]*,]+|\S)")
_NAME = re.compile(r"[^\s&|()\[\]*,]+")


class NodeTest(NamedTuple):
    """A condition on the features of one node.

    Attributes:
        parts: features that the node must have, or further conditions; none: any node meets it.
        operators: `&` or `|` between the parts. They apply from left to right.
    """

    parts: tuple[str | NodeTest, ...] = ()
    operators: str = ""

    def holds(self, features: Collection[str]) -> bool:
        """Return whether a node with these features meets the condition."""
        if not self.parts:
            return True
        met = _met(self.parts[0], features)
        for operator, part in zip(self.operators, self.parts[1:], strict=True):
            met = (met and _met(part, features)) if operator == "&" else met or _met(part, features)
        return met


ANY_NODE = NodeTest()


class Choice(NamedTuple):
    """One of the ways to meet an expression.

    Attributes:
        every: condition that each node of the job meets.
        counts: conditions with the least number of nodes that meet them. A node counts for one of
            the conditions only.
    """

    every: NodeTest
    counts: tuple[tuple[NodeTest, int], ...] = ()


def check(text: str) -> None:
    """Check an expression."""
    choices(text)


@lru_cache(maxsize=10_000)
def choices(text: str) -> tuple[Choice, ...]:
    """Return the alternatives of which a job must meet one, in the order of the text.

    Args:
        text: the expression; empty: no condition.
    """
    if not text.strip():
        return (Choice(ANY_NODE),)
    found = _Reader(text).read()
    for choice in found:
        if len(choice.counts) > MAX_COUNTS:
            raise _error(text, f"at most {MAX_COUNTS} counts", f"{len(choice.counts)}")
    return found


def mentioned(text: str) -> frozenset[str]:
    """Return the features that an expression names."""
    tests = [
        test
        for choice in choices(text)
        for test in (choice.every, *(counted for counted, _ in choice.counts))
    ]
    return frozenset(name for test in tests for name in _names(test))


def satisfied(text: str, features_by_node: Sequence[Collection[str]]) -> bool:
    """Return whether nodes meet an expression."""
    nodes = Counter(map(frozenset, features_by_node))
    return any(_meets(choice, nodes) for choice in choices(text))


def _meets(choice: Choice, nodes: Counter[frozenset[str]]) -> bool:
    """Return whether nodes, counted by their features, meet an alternative.

    By Hall's theorem each count gets nodes of its own if every set of conditions has as many nodes
    that meet one of them as the conditions need together.
    """
    if not all(choice.every.holds(features) for features in nodes):
        return False
    for size in range(1, len(choice.counts) + 1):
        for some in combinations(choice.counts, size):
            needed = sum(count for _, count in some)
            found = sum(
                number
                for features, number in nodes.items()
                if any(test.holds(features) for test, _ in some)
            )
            if found < needed:
                return False
    return True


def _met(part: str | NodeTest, features: Collection[str]) -> bool:
    return part in features if isinstance(part, str) else part.holds(features)


def _names(test: NodeTest) -> Iterable[str]:
    for part in test.parts:
        if isinstance(part, str):
            yield part
        else:
            yield from _names(part)


class _Reader:
    """Reader of one expression."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise _error(text, f"at most {MAX_LENGTH} characters", str(len(text)))
        self._text = text
        self._tokens: list[str] = _TOKEN.findall(text)
        self._next = 0
        self._bracketed = False

    def read(self) -> tuple[Choice, ...]:
        """Return the alternatives of the whole expression."""
        found = self._term()
        while (operator := self._take("&|")) is not None:
            found = self._joined(found, operator, self._term())
        self._end("`&`, `|` or the end")
        return found

    def _term(self) -> tuple[Choice, ...]:
        """Return the alternatives of a feature, of parentheses or of brackets."""
        if self._take("[") is None:
            return (self._counted(),)
        if self._bracketed:
            raise self._expected("one pair of brackets")
        self._bracketed = True
        found = [self._alternative()]
        while self._take("|") is not None:
            found.append(self._alternative())
        if self._take("]") is None:
            raise self._expected("`&`, `|` or `]`")
        return tuple(found)

    def _alternative(self) -> Choice:
        """Return one alternative in brackets."""
        found = self._counted()
        while self._take("&") is not None:
            found = _both(found, self._counted())
        return found

    def _counted(self) -> Choice:
        """Return a feature or parentheses, with or without a count."""
        test = self._node_test(MAX_NESTING)
        if not self._token.startswith("*"):
            return Choice(test)
        count = int(self._token[1:] or 0)
        if count == 0:
            raise self._expected("a count above 0 after `*`")
        if count > MAX_COUNT:
            raise self._expected(f"a count up to {MAX_COUNT} after `*`")
        self._next += 1
        return Choice(ANY_NODE, ((test, count),))

    def _node_test(self, levels: int) -> NodeTest:
        if self._take("(") is None:
            if not _NAME.fullmatch(self._token):
                raise self._expected("a feature")
            self._next += 1
            return NodeTest((self._tokens[self._next - 1],))
        if levels == 0:
            raise self._expected(f"at most {MAX_NESTING} nested parentheses")
        parts = [self._node_test(levels - 1)]
        operators = ""
        while (operator := self._take("&|")) is not None:
            operators += operator
            parts.append(self._node_test(levels - 1))
        if self._take(")") is None:
            raise self._expected("`&`, `|` or `)`")
        return NodeTest(tuple(parts), operators)

    def _joined(
        self, left: tuple[Choice, ...], operator: str, right: tuple[Choice, ...]
    ) -> tuple[Choice, ...]:
        """Return the alternatives of two terms with an operator between them."""
        if operator == "&":
            return tuple(_both(one, other) for one in left for other in right)
        if len(left) > 1 or len(right) > 1 or left[0].counts or right[0].counts:
            raise _error(self._text, "`&` beside a count or brackets", "`|`")
        return (Choice(_extended(left[0].every, "|", right[0].every)),)

    @property
    def _token(self) -> str:
        """The next token; empty: the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, among: str) -> str | None:
        """Return the next token if it is one of these characters, and go on."""
        token = self._token
        if not token or token not in among:
            return None
        self._next += 1
        return token

    def _end(self, expected: str) -> None:
        if self._token:
            raise self._expected(expected)

    def _expected(self, expected: str) -> FeatureError:
        return _error(self._text, expected, f"`{self._token}`" if self._token else "the end")


def _both(one: Choice, other: Choice) -> Choice:
    """Return the alternative that needs two alternatives at once."""
    return Choice(_extended(one.every, "&", other.every), one.counts + other.counts)


def _extended(test: NodeTest, operator: str, other: NodeTest) -> NodeTest:
    """Return `test operator other` without further nesting of `test`."""
    if not test.parts or not other.parts:
        return test if test.parts else other
    part = other.parts[0] if len(other.parts) == 1 else other
    return NodeTest((*test.parts, part), test.operators + operator)


def _error(text: str, expected: str, got: str) -> FeatureError:
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    return FeatureError(
        f"expected a feature expression such as 'gpu&ib' or '[rack1|rack2]', got {shown!r}: "
        f"expected {expected}, got {got}"
    )
