"""Expressions of node features."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import ProtocolError
from hpcosim_protocol.features import check, choices, mentioned, satisfied

IB, GPU, BOTH, NONE = {"ib"}, {"gpu"}, {"ib", "gpu"}, set[str]()


@pytest.mark.parametrize(
    ("text", "nodes", "met"),
    [
        ("", [NONE], True),
        ("ib", [IB, BOTH], True),
        ("ib", [IB, NONE], False),
        ("ib&gpu", [BOTH], True),
        ("ib&gpu", [IB, GPU], False),
        ("ib|gpu", [IB, GPU], True),
        ("[ib|gpu]", [IB, GPU], False),
        ("[ib|gpu]", [IB, BOTH], True),
        ("x|ib&gpu", [IB], False),  # from left to right: (x|ib)&gpu
        ("x|(ib&gpu)", [BOTH], True),
        ("gpu&ib|x", [{"x"}], True),
        ("gpu*2", [GPU, BOTH, NONE], True),
        ("gpu*2", [GPU, IB], False),
        ("ib&gpu*1", [BOTH, IB], True),
        ("ib&gpu*1", [BOTH, GPU], False),
        ("[ib*1&gpu*2]", [IB, GPU, GPU], True),
        ("[ib*1&gpu*2]", [IB, GPU, IB], False),
        ("[ib*1&gpu*1]", [BOTH], False),  # each count needs nodes of its own
        ("[ib*1&gpu*1]", [BOTH, NONE], False),
        ("[ib*1&gpu*1]", [BOTH, IB], True),
        ("[(ib|x)*1&(gpu)*1]", [{"x"}, GPU], True),
        ("[ib&gpu|x]", [{"x"}, {"x"}], True),
        ("[ib&gpu|x]", [{"x"}, BOTH], False),
        ("gpu&[ib|x]", [BOTH, {"gpu", "ib"}], True),
        ("gpu&[ib|x]", [BOTH, {"gpu", "x"}], False),
        (" ( ib | gpu ) & x ", [{"gpu", "x"}], True),
    ],
)
def test_nodes_meet_an_expression(text: str, nodes: Sequence[set[str]], met: bool) -> None:
    """Nodes meet an expression as the manual page of sbatch describes."""
    assert satisfied(text, nodes) is met


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("&ib", "expected a feature, got `&`"),
        ("ib&", "expected a feature, got the end"),
        ("ib gpu", "expected `&`, `|` or the end, got `gpu`"),
        ("ib,gpu", "got `,`"),
        ("(ib", r"expected `&`, `|` or `\)`, got the end"),
        ("ib)", r"got `\)`"),
        ("[ib|gpu", r"or `\]`, got the end"),
        ("[a|b]&[c|d]", "expected one pair of brackets"),
        ("([a|b])", r"expected a feature, got `\[`"),
        ("ib*0", "a count above 0"),
        ("ib*" + "9" * 300, "a count up to 999999999 after"),
        ("ib*", r"got `\*`"),
        ("ib*x", r"got `\*`"),
        ("ib*2|gpu", "expected `&` beside a count or brackets, got `|`"),
        ("[a|b]*2", r"got `\*2`"),
        ("(" * 21 + "a" + ")" * 21, "at most 20 nested"),
        ("&".join("a*1" for _ in range(9)), "at most 8 counts, got 9"),
        ("a" * 1001, "at most 1000 characters, got 1001"),
    ],
)
def test_text_that_is_no_expression_is_quoted(text: str, message: str) -> None:
    """A text that is no expression is rejected with what was expected and found."""
    with pytest.raises(ProtocolError, match=message) as caught:
        check(text)
    assert repr(text)[:20] in str(caught.value)


@given(st.text(st.sampled_from("ab&|()[]*2, "), max_size=30))
def test_no_text_fails_otherwise(text: str) -> None:
    """Any text is an expression or is rejected by name."""
    with contextlib.suppress(ProtocolError):
        assert satisfied(text, [{"a"}, {"b"}]) in (True, False)


def test_a_long_chain_of_operators_is_read() -> None:
    """The longest expression needs no deep recursion."""
    text = "&".join(["a|b"] * 250)
    assert satisfied(text, [{"a"}])
    assert not satisfied(text, [{"c"}])


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2)), min_size=1, max_size=3),
    st.lists(st.sets(st.sampled_from("abc")), max_size=5),
)
def test_counts_have_nodes_of_their_own(
    counts: list[tuple[str, int]], nodes: list[set[str]]
) -> None:
    """Counts are met if and only if some assignment gives each of them its own nodes."""
    text = "[" + "&".join(f"{name}*{count}" for name, count in counts) + "]"
    wanted = [name for name, count in counts for _ in range(count)]
    found = any(
        all(name in features for name, features in zip(wanted, some, strict=True))
        for some in permutations(nodes, len(wanted))
    )
    assert satisfied(text, nodes) is found


def test_choices_have_conditions_and_counts() -> None:
    """An alternative has the condition of each node and the counted conditions."""
    (choice,) = choices("ib&gpu*2")

    assert choice.every.holds({"ib"})
    assert not choice.every.holds({"gpu"})
    ((counted, least),) = choice.counts
    assert counted.holds({"gpu"})
    assert least == 2
    assert len(choices("[a|b|c]")) == 3


def test_mentioned_features_are_those_of_all_alternatives() -> None:
    """The features of an expression are known without any node."""
    assert mentioned("x&[a*2&(b|c)*1|d]") == {"x", "a", "b", "c", "d"}
